//go:build field

package page

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/shard"
)

// The head marks what is not known of the connection, the servers and today, and the tiles count what is not known of
// elections and groups. It does so on a phone, too.
func TestUI_UnknownInBrowser(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.Local)
	state := webpage.NewState()
	state.Complete(func() time.Time { return now })
	of := reading{link: link{"n2", "2.15.2", "C", "10.0.0.2:4222", 1}}
	of.domain.Set("hub", of.domain.From())
	head := webpage.Head{Server: "n2", Facts: of.facts(), Replicas: []webpage.Replica{{Name: "n1", Unknown: true}, {Name: "n2", Unknown: true}}}
	state.Head(head)
	in := judge.Around{Silent: true}
	row := webpage.Row{Key: "orders.shard.assigner", Group: "orders", State: "leading", ID: "web-1", Since: now.Add(-time.Hour).UnixMilli(), Value: "8 shards, 1 member"}
	advise(&row, judge.Worst(judge.Group("orders", shard.View{}, in)))
	state.Show(row, nil)
	state.Show(webpage.Row{Key: "billing", State: "leading", Trouble: int(judge.TroubleNone), ID: "web-1", Since: now.Add(-time.Hour).UnixMilli()}, nil)
	b := testworld.OpenBrowser(t, testworld.ServesPage(t, state, webpage.Options{
		Title: "Elections in bucket", Bucket: "elections", Program: "natsleader serve",
		Past: func(context.Context, webpage.Asked) (webpage.Past, error) {
			return webpage.Past{Kept: true, Notes: []string{}, Spans: []PastLine{}, From: now.Add(-3 * time.Hour), Unknown: (9 * time.Hour).Milliseconds(), Unworked: []webpage.Unworked{
				{Election: "billing", Least: 63000, Most: 75000, Unknown: (9 * time.Hour).Milliseconds()}, {Election: "mail", Unknown: (10 * time.Hour).Milliseconds()},
			}}, nil
		},
	}), 1280, 720)
	texts := func(id string) string {
		return `[...document.querySelectorAll('#` + id + ` li')].map((x) => (x.className && x.className + ': ') + x.textContent).join()`
	}
	b.Becomes(texts("connection"), "server n2,nats-server 2.15.2,at 10.0.0.2:4222,cluster C,unknown: account unknown,JetStream domain hub")
	b.Becomes(`document.querySelector('#connection .unknown').title`, "not read")
	b.Becomes(texts("servers"), "unknown: n1 unknown,unknown: n2 unknown")
	b.Becomes(`document.getElementById('in-trouble').innerText.replaceAll('\n', ' ')`, "1 in trouble for 1h0m, 1 of them unknown")
	b.Becomes(`[...document.querySelectorAll('#rows .row')].find((r) => r.innerText.startsWith('orders')).querySelector('.state').textContent`, "unknown")
	b.Becomes(`document.querySelector('#rows .wrong .value').textContent`, "leases of members are over by what was read last, and the bucket does not answer. → bring back a majority of the servers, or the server that is cut off. Runbook")
	for _, width := range []int64{1280, 390} {
		b.Do(chromedp.EmulateViewport(width, 780))
		b.Click("#today summary")
		for _, scheme := range []string{"light", "dark"} {
			b.Scheme(scheme)
			b.Accessible(fmt.Sprint(width, scheme))
			b.Picture(fmt.Sprint("unknown-", width, "-", scheme))
		}
		b.Click("#today summary")
		expect.That(t, b.Value(fmt.Sprint("document.documentElement.scrollWidth <= ", width)) == "true", "it is wider than %d", width)
	}
	head.Lost, head.Facts = true, (&reading{}).facts()
	state.Head(head)
	state.Trouble("the connection was lost", now)
	b.Becomes(texts("connection"), "unknown: server unknown")
	b.Becomes(`document.getElementById('trouble').textContent`, "Not up to date since 12:00:00 (last server n2): the connection was lost")
}
