//go:build field

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/history"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/page"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/roster"
)

// The past of an election is a picture with one lane for each candidate, and the same in lines: the handovers of a deploy,
// the lease that ran out and the time without a leader after it, and what is not known. It works in both schemes, and on
// a phone.
func TestUI_PastInBrowser(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.Local)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const m, s, ms = time.Minute, time.Second, time.Millisecond
	hour := []history.Span{
		{State: facts.Leading, ID: "api-1", Since: ago(200 * m), Until: ago(50 * m), Ended: history.EndedReleased},
		{State: facts.Released, Since: ago(50 * m), Until: ago(50*m - 5*ms)},
		{State: facts.Leading, ID: "api-2", Since: ago(50*m - 5*ms), Until: ago(49 * m), Ended: history.EndedReplaced},
		{State: facts.Leading, ID: "api-3", Since: ago(49 * m), Until: ago(35 * m), Ended: history.EndedExpired, Renewed: ago(35*m + 15*s)},
		{State: facts.Expired, Since: ago(35 * m), Until: ago(34 * m)},
		{State: facts.Leading, ID: "api-1", Since: ago(34 * m), Until: ago(30 * m), Ended: history.EndedUnknown},
		{State: history.StateUnknown, Since: ago(30 * m), Until: ago(25 * m)},
		{State: facts.Leading, ID: "api-2", Since: ago(25 * m), Until: ago(15 * m), Ended: history.EndedDeleted},
		{State: facts.Deleted, Since: ago(15 * m), Until: ago(14 * m)},
		{State: facts.Pending, ID: "api-4", Since: ago(14 * m), Until: ago(12 * m)},
		{State: facts.Leading, ID: "api-4", Since: ago(12 * m)},
	}
	const evil = `<img src=x onerror="document.title='run'">`
	state := webpage.NewState()
	state.Complete(func() time.Time { return now })
	state.Show(webpage.Row{Key: "billing", State: "leading", Trouble: 5, ID: "api-4", Token: 7, Since: ago(12 * m).UnixMilli(), Revision: 9}, []byte("{}"))
	address := testworld.ServesPage(t, state, webpage.Options{
		Title: "Elections in bucket", Bucket: "elections", Program: "natsleader serve", Open: "billing",
		Roster: func(ctx context.Context, _ string) (<-chan []roster.Entry, error) {
			all := make(chan []roster.Entry, 1)
			all <- []roster.Entry{{ID: "api-2", Since: ago(14 * m)}}
			context.AfterFunc(ctx, func() { close(all) })
			return all, nil
		},
		Past: func(_ context.Context, asked webpage.Asked) (webpage.Past, error) {
			switch election, hours := asked.Election, asked.Last.Hours(); {
			case election == "" && hours == 168:
				return webpage.Past{Kept: true, Spans: []page.PastLine{}, Notes: []string{"too many changes"}}, nil
			case election == "":
				return webpage.Past{Kept: true, Notes: []string{}, Spans: []page.PastLine{
					{At: ago(40 * m), Text: "api-1 → api-2: 12 elections, handed over, a gap of up to 5 ms", Elections: "billing, mail"},
					{At: ago(30 * m), Text: "api-2 → api-4: billing, the key was deleted, nobody led for 3m0s", Trouble: true, Election: "billing"},
					{At: ago(25 * m), Text: evil + " leads: mail", Election: "mail"},
				}}, nil
			case hours == 1:
				return webpage.Past{Kept: true, Spans: hour, Notes: []string{}, Lines: []page.PastLine{
					{At: ago(50 * m), Text: "api-1 → api-2: billing, handed over, a gap of 5 ms"},
					{At: ago(12 * m), Text: "api-2 → api-4: billing, the key was deleted, nobody led for 3m0s", Trouble: true},
				}}, nil
			case hours == 24:
				return webpage.Past{Kept: true, Spans: []history.Span{{State: facts.Leading, ID: evil, Since: ago(48 * time.Hour)}}, Notes: []string{"the history is behind"}}, nil
			}
			return webpage.Past{}, errors.New("no permission")
		},
	})
	b := testworld.OpenBrowser(t, address, 1280, 900)
	lines := `[...document.querySelectorAll('#changes li')].map((x) => (x.className && x.className + ' ') + x.textContent.slice(0, 8) + ' ' + x.textContent.slice(8)).join('\n')`
	b.Becomes(lines, `bad 11:48:00 api-2 → api-4: billing, the key was deleted, nobody led for 3m0s
11:10:00 api-1 → api-2: billing, handed over, a gap of 5 ms`)
	overview := `((x) => [x.open && !x.hidden, ...[...x.querySelectorAll('summary, .note:not([hidden]), li')].map((y) => y.textContent)].join('\n'))(document.getElementById('overview'))`
	b.Becomes(overview, "true\nThe last hour: 3 changes, trouble in 1\n11:35:00"+evil+" leads: mail\n"+
		"11:30:00▲ api-2 → api-4: billing, the key was deleted, nobody led for 3m0s\n11:20:00api-1 → api-2: 12 elections, handed over, a gap of up to 5 ms")
	b.Click("#detail-close")
	b.Click("#overview .bad button")
	b.Becomes(`document.getElementById('detail-name').textContent`, "billing")
	for _, name := range []string{"light", "dark"} {
		b.Scheme(name)
		b.Picture("past-" + name)
		b.Accessible(name)
	}
	b.Click("#overview .ranges button:nth-of-type(3)")
	b.Becomes(overview, "true\nThe last week: no change\ntoo many changes")
	b.Click("#overview .ranges button:nth-of-type(1)")
	b.Do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	b.Click("#detail-close")
	b.Picture("overview-narrow")
	b.Value(`document.querySelector('#rows .row').click()`)
	for _, name := range []string{"light", "dark"} {
		b.Scheme(name)
		b.Picture("past-narrow-" + name)
		b.Accessible(name)
	}
	parts := `Object.entries([...document.querySelectorAll('#past .past-picture > svg rect:not(.hatched, .gap)')].map((x) => x.classList[0]).reduce((n, x) => ({ ...n, [x]: (n[x] || 0) + 1 }), {})).join(' ')`
	b.Becomes(parts, "vacant,3 unknown,1 leads,6 waits,1 lapses,1 pending,1")
	b.Click("#past button:nth-of-type(2)")
	note := `((x) => x.hidden ? '' : x.textContent)(document.querySelector('#past .note'))`
	b.Becomes(note, "the history is behind")
	b.Becomes(parts, "leads,1 waits,1")
	b.Becomes(lines, "")
	b.Becomes(`document.querySelector('#past .lane').textContent`, evil)
	b.Click("#past button:nth-of-type(3)")
	b.Becomes(note, "The history cannot be read now: no permission")
	b.Becomes(`document.documentElement.scrollWidth <= 390 && document.title`, "Elections in bucket elections")
}
