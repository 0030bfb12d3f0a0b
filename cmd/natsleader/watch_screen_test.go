package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// theMoment is when the views of these tests are drawn.
var theMoment = time.Date(2026, 11, 23, 9, 2, 11, 0, time.UTC)

// in returns an election that was led by id until its lease of 15 s ended.
func in(t *testing.T, w *watcher, election, id string, as state, since time.Duration) *watched {
	t.Helper()
	s := electionStatus{election: election, entry: backend.Entry{Revision: 7, Created: theMoment.Add(-since)}}
	s.holder = leader.Holder{
		ID: id, Token: 1795420907113241, Lease: 15 * time.Second, Value: []byte("10.0.0.1:8080"),
		Since: theMoment.Add(-since), Renewed: theMoment.Add(-time.Second), Pending: as == statePending,
	}
	switch as {
	case stateExpired:
		s.holder.Renewed = theMoment.Add(-since - s.holder.Lease)
	case stateReleased:
		s.holder = leader.Holder{Released: true, Token: 1}
		s.entry.Value = []byte(`{"id":"` + id + `"}`)
	case stateForeign:
		s.holder = leader.Holder{Foreign: true}
	case stateNever:
		s = electionStatus{election: election}
	case stateLeading, statePending, stateDeleted:
	}
	got := s.at(theMoment)
	expect.Must(t, got == as, "%s is %s, not %s", election, got, as)
	x := &watched{now: s, last: &s, as: as}
	w.elections[election] = x
	return x
}

// someElections returns a watcher of elections in all sorts of trouble.
func someElections(t *testing.T) *watcher {
	t.Helper()
	w := newWatcher(&inspector{name: "elections"}, "", &recorder{})
	w.fresh = theMoment.Add(-12 * time.Second)
	in(t, w, "a-led", "worker-1", stateLeading, time.Minute)
	in(t, w, "b-old", "gone", stateReleased, 25*time.Hour)
	in(t, w, "c-released", "web-1", stateReleased, time.Minute)
	in(t, w, "d-expired", "pod-7c9f5b6d4-x2x9q", stateExpired, time.Minute)
	in(t, w, "e-pending", "b", statePending, time.Second)
	in(t, w, "f-foreign", "", stateForeign, time.Second)
	in(t, w, "g-led", "請求", stateLeading, time.Hour)
	in(t, w, "h-never", "", stateNever, 0)
	w.recent = []electionChange{{at: theMoment.Add(-time.Minute), now: w.elections["d-expired"].now, state: stateExpired}}
	return w
}

// screenOf returns what a terminal shows.
func screenOf(v view, on screen, colour bool) string {
	var lines []string
	for _, l := range v.draw(on) {
		lines = append(lines, strings.TrimRight(l.paint(colour), " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

// A view shows the elections in trouble first, and says so without colours, too.
func TestScreen_80Columns(t *testing.T) {
	w := someElections(t)
	const want = `Elections in bucket elections                            2026-11-23 09:02:11 UTC
3 without a leader, 1 pending, 2 led, 2 dead

ELECTION    STATE     LEADER                     FOR   LEASE LEFT  VALUE
f-foreign   FOREIGN   NOBODY                     1s    -
d-expired   EXPIRED   NOBODY (was pod-7c9f5b6d…  1m0s  -
c-released  RELEASED  NOBODY (was web-1)         1m0s  -
e-pending   pending   b                          1s    14.0s       10.0.0.1:8080
a-led       leading   worker-1                   1m0s  14.0s       10.0.0.1:8080
g-led       leading   請求                       1h0m  14.0s       10.0.0.1:8080
b-old       released  (gone)                     1d1h  -
h-never     never     -                          -     -

Recent changes
09:01:11  d-expired  pod-7c9f5b6d4-x2x9q has not renewed its lease, nobody leads

q quits  / filters  ↑↓ scroll
`
	expect.Equal(t, screenOf(w.view(theMoment, nil, ""), screen{width: 80, height: 17}, false), want,
		"it is\n%s\nnot\n%s", want)
}

// On 40 columns the columns that matter remain.
func TestScreen_40Columns(t *testing.T) {
	w := someElections(t)
	const want = `Elections in bucket elections
NOT UP TO DATE since 09:01:59 (12s)
cannot connect: the connection was lost
3 without a leader, 1 pending, 2 led, 2…

ELECTION    STATE     LEADER        FOR
f-foreign   FOREIGN   NOBODY        1s
d-expired   EXPIRED   NOBODY (was…  1m0s
c-released  RELEASED  NOBODY (was…  1m0s
… and 5 more
q quits  / filters  ↑↓ scroll
`
	err := fmt.Errorf("%w: the connection was lost", errUnreachable)
	expect.Equal(t, screenOf(w.view(theMoment, err, ""), screen{width: 40, height: 11}, false), want,
		"it is\n%s\nnot\n%s", want)
}

// On 200 columns everything is shown, in colours.
func TestScreen_200Columns(t *testing.T) {
	w := someElections(t)
	got := screenOf(w.view(theMoment, nil, ""), screen{width: 200, height: 30}, true)
	for _, want := range []string{
		"SINCE (UTC)", "\x1b[1;31mEXPIRED\x1b[0m", "\x1b[33mRELEASED\x1b[0m", "\x1b[32mleading\x1b[0m", "\x1b[2mb-old\x1b[0m",
		"\x1b[1;31mNOBODY (was pod-7c9f5b6d4-x2x9q)\x1b[0m", "1795420907113241", "2026-11-23 09:01:11",
	} {
		expect.That(t, strings.Contains(got, want), "no %q in\n%s", want, got)
	}
	plain := screenOf(w.view(theMoment, nil, ""), screen{width: 200, height: 30}, false)
	expect.That(t, !strings.Contains(plain, "\x1b"), "without colours\n%q", plain)
}

// A lease that is over by the last record that came is not called led while nothing comes.
func TestScreen_LeaseUnknown(t *testing.T) {
	w := someElections(t)
	late := theMoment.Add(time.Minute)
	got := screenOf(w.view(late, errUnreachable, "a-led"), screen{width: 80, height: 20}, false)
	expect.That(t, strings.Contains(got, "a-led     UNKNOWN  worker-1"), "it is\n%s", got)
	if got := screenOf(w.view(theMoment, errUnreachable, "a-led"), screen{width: 80, height: 20}, false); !strings.Contains(got, "a-led     leading  worker-1") {
		t.Errorf("with a valid lease\n%s", got)
	}
}

// No size of the terminal breaks a view.
func TestScreen_FitsEverySize(t *testing.T) {
	w := someElections(t)
	in(t, w, "請求請求請求請求請求請求請求", strings.Repeat("請", 60), stateLeading, time.Hour)
	evil := in(t, w, "evil\x1b[2J", "\x1b]0;title\a", stateExpired, time.Minute)
	evil.now.holder.Value = []byte("\r\n\u202e\x1b[31m")
	for _, failure := range []error{nil, errors.New("\x1b[2Jno")} {
		v := w.view(theMoment, failure, "")
		for width := 1; width <= 130; width++ {
			for height := 1; height <= 30; height++ {
				on := screen{width: width, height: height, offset: height % 4, editing: height%5 == 0, filter: strings.Repeat("x", height%3)}
				lines := v.draw(on)
				expect.Must(t, len(lines) == height, "%d lines of %d", len(lines), height)
				for _, l := range lines {
					if text := l.paint(false); cells(text) > width || rawIn(text) {
						t.Fatalf("%d cells of %d: %q", cells(text), width, text)
					}
				}
			}
		}
	}
}

// Scrolling shows every row, and the last line says what is hidden.
func TestScreen_Scrolls(t *testing.T) {
	v := view{head: []string{"NAME"}}
	for i := range 20 {
		v.rows = append(v.rows, tableRow{cells: []string{fmt.Sprint("row", i)}})
	}
	on := screen{width: 30, height: 10}
	got := screenOf(v, on, false)
	expect.That(t, strings.Contains(got, "row4\n… and 15 more\n"), "at the top\n%s", got)
	on.offset = 100
	got = screenOf(v, on, false)
	if !strings.Contains(got, "row19\n… 15 above and 0 more\n") || v.lastOffset(on) != 15 {
		t.Errorf("at the bottom, %d\n%s", v.lastOffset(on), got)
	}
}

// Keys filter, scroll and quit.
func TestLiveView_Keys(t *testing.T) {
	w := someElections(t)
	l := newLiveView()
	l.on = screen{width: 80, height: 20}
	typed := func(keys ...string) {
		t.Helper()
		for _, k := range keys {
			err := l.typed(k)
			expect.Must(t, err == nil, "%q: %v", k, err)
		}
	}
	shows := func(want ...string) {
		t.Helper()
		var got []string
		for _, r := range w.view(theMoment, nil, l.on.filter).rows {
			got = append(got, r.cells[0])
		}
		expect.That(t, slices.Equal(got, want), "with %q: %q, not %q", l.on.filter, got, want)
	}
	typed("/", "L", "e", "q") // q is a letter of the filter
	expect.That(t, l.on.filter == "Leq" && l.on.editing, "%+v", l.on)
	typed("\x7f", "d\r")
	shows("a-led", "g-led")
	typed("j", "j", "k", "\x1b[6~", "\x1b[1;5C")
	expect.That(t, l.on.offset == 11 && !l.on.editing, "%+v", l.on)
	typed("\x1b")
	expect.That(t, l.on.filter == "" && l.on.offset == 0, "%+v", l.on)
	typed("/WEB-1\r") // pasted; also the IDs of the last leaders are found
	shows("c-released")
	typed("/" + strings.Repeat("x", 1000))
	expect.Equal(t, len(l.on.filter), mostFilter, "a filter of %d bytes")
	for _, quits := range []string{"\x03", "\rq", "Q"} {
		err := l.typed(quits)
		expect.That(t, errors.Is(err, errQuit), "%q: %v", quits, err)
	}
}
