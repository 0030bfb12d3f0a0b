//go:build field

package page

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

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
				return webpage.Past{Kept: true, Notes: []string{}, Spans: []PastLine{}, From: ago(3 * m), Unknown: (11*time.Hour + 57*m).Milliseconds(), Unworked: []webpage.Unworked{
					{Election: "billing", Least: 23000, Most: 35000}, {Election: "mail", Least: 90000, Most: 90000, Unknown: (11*time.Hour + 58*m).Milliseconds()}, {Others: 2, Unknown: (11*time.Hour + 59*m).Milliseconds()},
				}}, nil
			}
			return webpage.Past{Kept: true, Notes: []string{}, Spans: []history.Span{
				{State: facts.Leading, ID: "a", Since: ago(3 * m), Until: ago(80 * s), Ended: history.EndedExpired, Renewed: ago(95 * s)},
				{State: facts.Expired, Since: ago(80 * s), Until: ago(m)},
				{State: facts.Leading, ID: "b", Since: ago(m)},
			}, Lines: []PastLine{{At: ago(m), Text: "a → b: billing, not renewed for 35s, so nobody worked for 23s to 35s", Trouble: true}}}, nil
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
	b.Becomes(today, "true\nat least 1m53s\nnobody at work today, not known: 11h59m\nbilling 23 s to 35 s\nmail 1m30s; not known: 11h58m\n2 others not known: 11h59m\n"+
		"Nothing is known of the time before 11:57:00. A leader whose lease ran out or whose key was deleted may have worked until its renew deadline: hence a range. Shards of groups are not counted.")
	b.Becomes(`location.hash + document.querySelector('#past .ranges span').textContent`, "#election=billing&past=dayknown since 11:57:00")
	b.Becomes(`((x) => x.length + ' ' + (x[0] === 0) + (x[1] > 0.5) + document.querySelectorAll('#past .past-picture > svg rect.unknown').length)([...document.querySelectorAll('#past .past-picture > svg rect.leads')]
		.map((x) => x.getAttribute('x') / document.querySelector('#past svg').clientWidth))`, "2 truetrue0")
	b.Becomes(`document.querySelector('#changes li').textContent`, "11:59:00a → b: billing, not renewed for 35s, so nobody worked for 23s to 35s")
	b.Click("#detail-close")
	b.Click("#today summary")
	b.Accessible("for how long nobody worked")
	b.Click("#unworked button")
	b.Becomes(`document.getElementById('detail-name').checkVisibility() + document.getElementById('detail-name').textContent + document.getElementById('today').open`, "truebillingfalse")
}

// The page says for how long nobody worked today, up to what it is, and of which part of today that is not known. That grows
// while the page is not up to date, and while the history misses what is written. At midnight the number is that of the day
// before until the history is read again, so it is not shown.
func TestUI_TodayInBrowser(t *testing.T) {
	t.Parallel()
	const h, m, s = time.Hour, time.Minute, time.Second
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.Local)
	var now atomic.Int64
	var past atomic.Pointer[webpage.Past]
	now.Store(noon.UnixMilli())
	state := webpage.NewState()
	state.Complete(func() time.Time { return time.UnixMilli(now.Load()) })
	kept := func(x webpage.Past) {
		x.Kept, x.Notes, x.Spans = true, []string{}, []PastLine{}
		past.Store(&x)
	}
	kept(webpage.Past{})
	address := testworld.ServesPage(t, state, webpage.Options{
		Title: "Elections in bucket", Bucket: "elections", Program: "natsleader serve",
		Past: func(ctx context.Context, asked webpage.Asked) (webpage.Past, error) {
			if asked.Since.Day() == 27 {
				<-ctx.Done()
			}
			return *past.Load(), nil
		},
	})
	const all = "As far as the history says, each election that candidates wanted was led. "
	const none = "Shards of groups are not counted."
	const ranges = "A leader whose lease ran out or whose key was deleted may have worked until its renew deadline: hence a range. "
	ms := time.Duration.Milliseconds
	b := testworld.OpenBrowser(t, address, 1280, 900)
	for _, c := range []struct {
		past webpage.Past
		want string
	}{
		{webpage.Past{}, "0 s\nnobody at work today\n" + all + none},
		{webpage.Past{Unworked: []webpage.Unworked{{Election: "a", Least: ms(m), Most: ms(m)}}}, "1m0s\nnobody at work today\na 1m0s\n" + none},
		{webpage.Past{Unworked: []webpage.Unworked{{Election: "a", Least: ms(m), Most: ms(2 * m)}}}, "up to 2m0s\nnobody at work today\na 1m0s to 2m0s\n" + ranges + none},
		{webpage.Past{Unknown: ms(20 * m), Unworked: []webpage.Unworked{{Election: "a", Unknown: ms(20 * m)}}}, "at least 0 s\nnobody at work today, not known: 20m0s\na not known: 20m0s\n" + none},
		{webpage.Past{Unknown: ms(9 * h), From: noon.Add(-3 * h)}, "at least 0 s\nnobody at work today, not known: 9h0m\nNothing is known of the time before 09:00:00. " + none},
		{webpage.Past{Unknown: ms(5 * s), Unworked: []webpage.Unworked{{Election: "a", Least: ms(m), Most: ms(2 * m), Unknown: ms(5 * s)}}}, "at least 1m0s\nnobody at work today, not known: 5 s\na 1m0s to 2m0s; not known: 5 s\n" + ranges + none},
	} {
		kept(c.past)
		b.Do(chromedp.Reload())
		b.Becomes(today, c.want)
	}
	kept(webpage.Past{Unknown: ms(m), Unworked: []webpage.Unworked{{Election: "a", Unknown: ms(m), Blind: true}, {Election: "b", Least: ms(m), Most: ms(m), Goes: 1}}})
	b.Do(chromedp.Reload())
	number := func(such string) string {
		return `((x) => (` + such + `)(x.innerText))(document.querySelector('#today summary'))`
	}
	b.Becomes(number(`(x) => /^at least 1m\d+s\nnobody at work today, not known: 1m\d+s$/.test(x)`), "true")
	now.Store(noon.Add(h).UnixMilli())
	state.Trouble("away", noon.Add(10*m))
	b.Becomes(number(`(x) => /^at least 1[01]m\d+s\nnobody at work today, not known: 1h[01]m$/.test(x)`), "true")
	b.Becomes(`document.querySelector('#unworked').textContent.includes('Nothing is known of the time since 12:10:00.')`, "true")
	b.Picture("today-stale")
	now.Store(noon.Add(12 * h).UnixMilli())
	state.Trouble("away", noon.Add(10*m))
	b.Becomes(today, "–\nnobody at work today: not known\nIt is being read.")
}

// today is what the page says of today, in JavaScript.
const today = `((x) => x.hidden ? '' : [x.querySelector('summary').innerText, ...[...x.querySelectorAll('li')].map((y) => y.textContent)].join('\n'))(document.getElementById('today'))`

// A day begins at midnight in the zone of the browser, or when clocks leave it out, and has 23 to 25 hours.
func TestUI_DaysInBrowser(t *testing.T) {
	t.Parallel()
	state := webpage.NewState()
	state.Complete(time.Now)
	b := testworld.OpenBrowser(t, testworld.ServesPage(t, state, webpage.Options{Title: "Elections in bucket", Bucket: "elections"}), 1280, 900)
	for _, c := range []struct{ zone, at, begins string }{
		{"UTC", "2026-11-26T00:00:00Z", "2026-11-26T00:00:00Z"},
		{"UTC", "2026-11-25T23:59:59Z", "2026-11-25T00:00:00Z"},
		{"Asia/Kathmandu", "2026-11-26T00:00:00Z", "2026-11-25T18:15:00Z"},
		{"America/Los_Angeles", "2026-11-26T00:00:00Z", "2026-11-25T08:00:00Z"},
		{"Europe/Berlin", "2026-03-29T21:59:59Z", "2026-03-28T23:00:00Z"}, // 23 hours
		{"Europe/Berlin", "2026-03-29T22:00:00Z", "2026-03-29T22:00:00Z"},
		{"Europe/Berlin", "2026-10-25T22:59:59Z", "2026-10-24T22:00:00Z"}, // 25 hours
		{"Europe/Berlin", "2026-10-25T23:00:00Z", "2026-10-25T23:00:00Z"},
		{"America/Havana", "2026-11-01T06:30:00Z", "2026-11-01T04:00:00Z"}, // its first hour is twice
		{"Africa/Cairo", "2026-04-24T12:00:00Z", "2026-04-23T22:00:00Z"},   // its first hour is left out
	} {
		_, err := chromedp.Call(b.Ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: c.zone})
		expect.OK(t, err)
		got := b.Run(`import('/times.js').then((x) => new Date(x.midnight(Date.parse('` + c.at + `'))).toISOString().replace('.000', ''))`)
		expect.Equal(t, got, c.begins, c.zone+" at "+c.at+": the day begins at %s")
	}
}
