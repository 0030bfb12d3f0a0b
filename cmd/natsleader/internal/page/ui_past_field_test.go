//go:build field

package page

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/history"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// A history that cannot be read is said to be so, and why. Once it can be, the picture begins with the record, and the page
// says for how long nobody worked today, by election.
func TestUI_ShortPastInBrowser(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.Local)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const m, s = time.Minute, time.Second
	state := webpage.NewState()
	state.Complete(func() time.Time { return now })
	state.Show(webpage.Row{Key: "billing", State: "leading", Trouble: 5, ID: "b", Token: 7, Since: ago(m).UnixMilli(), Revision: 9}, []byte("{}"))
	var back atomic.Bool
	address := testworld.ServesPage(t, state, webpage.Options{
		Title: "Elections in bucket", Bucket: "elections", Program: "natsleader serve",
		Roster: func(context.Context, string) (<-chan []roster.Entry, error) { return nil, leader.ErrNoRoster },
		Past: func(_ context.Context, asked webpage.Asked) (webpage.Past, error) {
			switch {
			case !back.Load():
				return webpage.Past{}, errors.New("stream natsleader_history_elections has no leader")
			case asked.Election == "":
				expect.That(t, asked.Since.Equal(time.Date(2026, 11, 26, 0, 0, 0, 0, time.Local)), "since %v", asked.Since)
				return webpage.Past{Kept: true, Notes: []string{}, Spans: []PastLine{}, From: ago(3 * m), Unworked: []webpage.Unworked{
					{Election: "billing", Least: 23000, Most: 35000}, {Election: "mail", Least: 90000, Most: 90000},
				}}, nil
			}
			return webpage.Past{Kept: true, Notes: []string{}, Spans: []PastSpan{
				{Span: history.Span{State: facts.Leading, ID: "a", Since: ago(3 * m), Until: ago(80 * s), Ended: history.EndedExpired, Renewed: ago(95 * s)}, Worked: ago(83 * s)},
				{Span: history.Span{State: facts.Expired, Since: ago(80 * s), Until: ago(m)}},
				{Span: history.Span{State: facts.Leading, ID: "b", Since: ago(m)}},
			}}, nil
		},
	})
	b := testworld.OpenBrowser(t, address+"/#election=billing&past=week", 1280, 900)
	overview := `((x) => [x.open && !x.hidden, ...[...x.querySelectorAll('summary, .note:not([hidden]), li')].map((y) => y.textContent)].join('\n'))(document.getElementById('overview'))`
	today := `((x) => [!x.hidden, x.querySelector('summary').innerText, ...[...x.querySelectorAll('li')].map((y) => y.textContent)].join('\n'))(document.getElementById('today'))`
	b.Becomes(overview, "true\nThe last week: the history cannot be read\nThe history cannot be read now: stream natsleader_history_elections has no leader")
	b.Becomes(today, "true\n–\nnobody at work today: not known\nThe history cannot be read now: stream natsleader_history_elections has no leader")
	back.Store(true)
	b.Click("#overview button:nth-of-type(2)")
	b.Becomes(overview, "true\nThe last day: no change")
	b.Becomes(today, "true\n2m5s\nnobody at work since 11:57:00\nbilling 23 s to 35 s\nmail 1m30s\nA leader that did not renew its lease may have worked until its renew deadline: hence a range.")
	b.Becomes(`location.hash + document.querySelector('#past .ranges span').textContent`, "#election=billing&past=dayknown since 11:57:00")
	b.Becomes(`((x) => x.length + ' ' + (x[0] === 0) + (x[1] > 0.5) + document.querySelectorAll('#past .past-picture > svg rect.unknown').length)([...document.querySelectorAll('#past .past-picture > svg rect.leads')]
		.map((x) => x.getAttribute('x') / document.querySelector('#past svg').clientWidth))`, "2 truetrue0")
	b.Becomes(`document.querySelector('#changes li').textContent`, "11:59:00a → b: not renewed for 35 s, so nobody worked for 23 s to 35 s")
	b.Click("#detail-close")
	b.Click("#today summary")
	b.Accessible("for how long nobody worked")
	b.Click("#unworked button")
	b.Becomes(`document.getElementById('detail-name').checkVisibility() + document.getElementById('detail-name').textContent + document.getElementById('today').open`, "truebillingfalse")
}
