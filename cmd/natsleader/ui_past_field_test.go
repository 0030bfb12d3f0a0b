//go:build field

package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// servesPage serves a page of elections that the test shows, and returns its address.
func servesPage(t *testing.T, state *webpage.State, o webpage.Options) (address string) {
	t.Helper()
	listener := expect.Got(net.Listen("tcp", "127.0.0.1:0"))(t)
	o.Address = listener.Addr()
	handler := expect.Got(webpage.New(t.Context(), state, o))(t)
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + listener.Addr().String()
}

// The past of an election is a picture with one lane for each candidate, and the same in lines: the handovers of a deploy,
// the lease that ran out and the time without a leader after it, and what is not known. It works in both schemes, and on
// a phone.
func TestUI_PastInBrowser(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.Local)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const m, s, ms = time.Minute, time.Second, time.Millisecond
	hour := []pastSpan{
		{span: span{State: stateLeading, ID: "api-1", Since: ago(200 * m), Until: ago(50 * m), Ended: endedReleased}},
		{span: span{State: stateReleased, Since: ago(50 * m), Until: ago(50*m - 5*ms)}},
		{span: span{State: stateLeading, ID: "api-2", Since: ago(50*m - 5*ms), Until: ago(49 * m), Ended: endedReplaced}},
		{span: span{State: stateLeading, ID: "api-3", Since: ago(49 * m), Until: ago(35 * m), Ended: endedExpired, Renewed: ago(35*m + 15*s)}, Worked: ago(35*m + 3*s)},
		{span: span{State: stateExpired, Since: ago(35 * m), Until: ago(34 * m)}},
		{span: span{State: stateLeading, ID: "api-1", Since: ago(34 * m), Until: ago(30 * m), Ended: endedUnknown}},
		{span: span{State: stateUnknown, Since: ago(30 * m), Until: ago(25 * m)}},
		{span: span{State: stateLeading, ID: "api-2", Since: ago(25 * m), Until: ago(15 * m), Ended: endedDeleted}},
		{span: span{State: stateDeleted, Since: ago(15 * m), Until: ago(14 * m)}},
		{span: span{State: statePending, ID: "api-4", Since: ago(14 * m), Until: ago(12 * m)}},
		{span: span{State: stateLeading, ID: "api-4", Since: ago(12 * m)}},
	}
	const evil = `<img src=x onerror="document.title='run'">`
	state := webpage.NewState()
	state.Complete(func() time.Time { return now })
	state.Show(webpage.Row{Key: "billing", State: "leading", Trouble: 5, ID: "api-4", Token: 7, Since: ago(12 * m).UnixMilli(), Revision: 9}, []byte("{}"))
	address := servesPage(t, state, webpage.Options{
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
				return webpage.Past{Kept: true, Spans: []pastLine{}, Notes: []string{"too many changes"}}, nil
			case election == "":
				return webpage.Past{Kept: true, Notes: []string{}, Spans: []pastLine{
					{At: ago(40 * m), Text: "api-1 → api-2: 12 elections, handed over, a gap of up to 5 ms", Elections: "billing, mail"},
					{At: ago(30 * m), Text: "api-2 → api-4: billing, the key was deleted, nobody led for 3m0s", Trouble: true, Election: "billing"},
					{At: ago(25 * m), Text: evil + " leads: mail", Election: "mail"},
				}}, nil
			case hours == 1:
				return webpage.Past{Kept: true, Spans: hour, Notes: []string{}}, nil
			case hours == 24:
				return webpage.Past{Kept: true, Spans: []span{{State: stateLeading, ID: evil, Since: ago(48 * time.Hour)}}, Notes: []string{"the history is behind"}}, nil
			}
			return webpage.Past{}, errors.New("no permission")
		},
	})
	b := openBrowser(t, address, 1280, 900)
	lines := `[...document.querySelectorAll('#changes li')].map((x) => (x.className && x.className + ' ') + x.textContent.slice(0, 8) + ' ' + x.textContent.slice(8)).join('\n')`
	b.becomes(lines, `bad 11:48:00 api-2 → api-4, nobody led for 3m0s: the key was deleted
11:35:00 api-2 leads
bad 11:30:00 not known until 11:35:00: the history misses what was written then
bad 11:26:00 api-3 → api-1: not renewed for 1m15s, so nobody worked for 1m3s to 1m15s
bad 11:11:00 api-2 → api-3: another term followed
11:10:00 api-1 → api-2, 5 ms`)
	overview := `((x) => [x.open && !x.hidden, ...[...x.querySelectorAll('summary, .note:not([hidden]), li')].map((y) => y.textContent)].join('\n'))(document.getElementById('overview'))`
	b.becomes(overview, "true\nThe last hour: 3 changes, trouble in 1\n11:35:00"+evil+" leads: mail\n"+
		"11:30:00▲ api-2 → api-4: billing, the key was deleted, nobody led for 3m0s\n11:20:00api-1 → api-2: 12 elections, handed over, a gap of up to 5 ms")
	b.click("#detail-close")
	b.click("#overview .bad button")
	b.becomes(`document.getElementById('detail-name').textContent`, "billing")
	for _, name := range []string{"light", "dark"} {
		b.scheme(name)
		b.picture("past-" + name)
		b.accessible(name)
	}
	b.click("#overview .ranges button:nth-of-type(3)")
	b.becomes(overview, "true\nThe last week: no change\ntoo many changes")
	b.click("#overview .ranges button:nth-of-type(1)")
	b.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	b.click("#detail-close")
	b.picture("overview-narrow")
	b.value(`document.querySelector('#rows .row').click()`)
	for _, name := range []string{"light", "dark"} {
		b.scheme(name)
		b.picture("past-narrow-" + name)
		b.accessible(name)
	}
	parts := `Object.entries([...document.querySelectorAll('#past .past-picture > svg rect:not(.hatched, .gap)')].map((x) => x.classList[0]).reduce((n, x) => ({ ...n, [x]: (n[x] || 0) + 1 }), {})).join(' ')`
	b.becomes(parts, "vacant,3 unknown,1 leads,6 waits,1 lapses,1 pending,1")
	b.click("#past button:nth-of-type(2)")
	note := `((x) => x.hidden ? '' : x.textContent)(document.querySelector('#past .note'))`
	b.becomes(note, "the history is behind")
	b.becomes(parts, "leads,1 waits,1")
	b.becomes(lines, "")
	b.becomes(`document.querySelector('#past .lane').textContent`, evil)
	b.click("#past button:nth-of-type(3)")
	b.becomes(note, "The history cannot be read now: no permission")
	b.becomes(`document.documentElement.scrollWidth <= 390 && document.title`, "Elections in bucket elections")
}

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
	address := servesPage(t, state, webpage.Options{
		Title: "Elections in bucket", Bucket: "elections", Program: "natsleader serve",
		Roster: func(context.Context, string) (<-chan []roster.Entry, error) { return nil, leader.ErrNoRoster },
		Past: func(_ context.Context, asked webpage.Asked) (webpage.Past, error) {
			switch {
			case !back.Load():
				return webpage.Past{}, errors.New("stream natsleader_history_elections has no leader")
			case asked.Election == "":
				expect.That(t, asked.Since.Equal(time.Date(2026, 11, 26, 0, 0, 0, 0, time.Local)), "since %v", asked.Since)
				return webpage.Past{Kept: true, Notes: []string{}, Spans: []pastLine{}, From: ago(3 * m), Unworked: []webpage.Unworked{
					{Election: "billing", Least: 23000, Most: 35000}, {Election: "mail", Least: 90000, Most: 90000},
				}}, nil
			}
			return webpage.Past{Kept: true, Notes: []string{}, Spans: []pastSpan{
				{span: span{State: stateLeading, ID: "a", Since: ago(3 * m), Until: ago(80 * s), Ended: endedExpired, Renewed: ago(95 * s)}, Worked: ago(83 * s)},
				{span: span{State: stateExpired, Since: ago(80 * s), Until: ago(m)}},
				{span: span{State: stateLeading, ID: "b", Since: ago(m)}},
			}}, nil
		},
	})
	b := openBrowser(t, address+"/#election=billing&past=week", 1280, 900)
	overview := `((x) => [x.open && !x.hidden, ...[...x.querySelectorAll('summary, .note:not([hidden]), li')].map((y) => y.textContent)].join('\n'))(document.getElementById('overview'))`
	today := `((x) => [!x.hidden, x.querySelector('summary').innerText, ...[...x.querySelectorAll('li')].map((y) => y.textContent)].join('\n'))(document.getElementById('today'))`
	b.becomes(overview, "true\nThe last week: the history cannot be read\nThe history cannot be read now: stream natsleader_history_elections has no leader")
	b.becomes(today, "true\n–\nnobody at work today: not known\nThe history cannot be read now: stream natsleader_history_elections has no leader")
	back.Store(true)
	b.click("#overview button:nth-of-type(2)")
	b.becomes(overview, "true\nThe last day: no change")
	b.becomes(today, "true\n2m5s\nnobody at work since 11:57:00\nbilling 23 s to 35 s\nmail 1m30s\nA leader that did not renew its lease may have worked until its renew deadline: hence a range.")
	b.becomes(`location.hash + document.querySelector('#past .ranges span').textContent`, "#election=billing&past=dayknown since 11:57:00")
	b.becomes(`((x) => x.length + ' ' + (x[0] === 0) + (x[1] > 0.5) + document.querySelectorAll('#past .past-picture > svg rect.unknown').length)([...document.querySelectorAll('#past .past-picture > svg rect.leads')]
		.map((x) => x.getAttribute('x') / document.querySelector('#past svg').clientWidth))`, "2 truetrue0")
	b.becomes(`document.querySelector('#changes li').textContent`, "11:59:00a → b: not renewed for 35 s, so nobody worked for 23 s to 35 s")
	b.click("#detail-close")
	b.click("#today summary")
	b.accessible("for how long nobody worked")
	b.click("#unworked button")
	b.becomes(`document.getElementById('detail-name').checkVisibility() + document.getElementById('detail-name').textContent + document.getElementById('today').open`, "truebillingfalse")
}
