package view

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	"github.com/natsleader/natsleader/internal/backend"
	expect "github.com/natsleader/natsleader/internal/check"
)

// theMoment is when the views of these tests are drawn.
var theMoment = time.Date(2026, 11, 23, 9, 2, 11, 0, time.UTC)

// watcherHolds adds an election to a watcher: its candidate leads for since, and its record is as old as written.
func (w *Watcher) watcherHolds(election, state, id string, since, written time.Duration) *Watched {
	value := fmt.Appendf(nil, `{"v":1,"state":%q,"id":%q,"session":"s","n":1,"lease":"15s","token":1795420907113241,"since":%q,"value":"10.0.0.1:8080"}`,
		state, id, theMoment.Add(-since).Format(time.RFC3339))
	if state == "" {
		value = []byte("hello")
	}
	return w.shows(facts.NewElectionStatus(election, backend.Entry{Revision: 7, Value: value, Created: theMoment.Add(-written)}))
}

func (w *Watcher) shows(s facts.ElectionStatus) *Watched {
	x := &Watched{Now: s, Last: &s, As: s.At(theMoment)}
	w.Elections[s.Election] = x
	return x
}

// someElections returns a watcher of elections in all sorts of trouble.
func someElections() *Watcher {
	w := newWatcher(&inspect.Inspector{Name: "elections"}, "", recorder{})
	w.Fresh = theMoment.Add(-12 * time.Second)
	w.watcherHolds("a-led", "leading", "worker-1", time.Minute, time.Second)
	w.watcherHolds("b-old", "released", "gone", 0, 25*time.Hour)
	w.watcherHolds("c-released", "released", "web-1", 0, time.Minute)
	expired := w.watcherHolds("d-expired", "leading", "pod-7c9f5b6d4-x2x9q", time.Hour, time.Minute+15*time.Second)
	w.watcherHolds("e-pending", "pending", "b", 0, time.Second)
	w.watcherHolds("f-foreign", "", "", 0, time.Second)
	w.watcherHolds("g-led", "leading", "請求", time.Hour, time.Second)
	w.shows(facts.ElectionStatus{Election: "h-never"})
	w.shows(facts.NewElectionStatus("i-deleted", backend.Entry{Revision: 8, Marker: true, Created: theMoment.Add(-time.Minute)}))
	w.recent = []ElectionChange{{At: theMoment.Add(-time.Minute), Now: expired.Now, State: facts.Expired}}
	return w
}

// screenOf returns what a terminal shows. [ and ] are around what is in a colour.
func screenOf(v view, on screen, colour bool) string {
	var lines []string
	for _, l := range v.draw(on) {
		lines = append(lines, strings.TrimRight(l.Paint(colour), " "))
	}
	return strings.NewReplacer("\x1b[0m", "]", "\x1b", "").Replace(strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n")
}

// A view shows the elections in trouble first, also without colours. On a narrow terminal the columns
// that matter remain. A lease that is over by the last record that came is not called led while nothing comes.
func TestScreen(t *testing.T) {
	testworld.Alone(t, func(w *testworld.World) {
		e := someElections()
		lost := fmt.Errorf("%w: the connection was lost", front.ErrUnreachable)
		for _, x := range []struct {
			after         time.Duration
			failure       error
			filter        string
			width, height int
			colour        bool
		}{
			{width: 80, height: 18},
			{width: 40, height: 11, failure: lost},
			{width: 200, height: 18, colour: true},
			{width: 80, height: 9, failure: lost, filter: "a-led"},
			{width: 80, height: 9, failure: lost, filter: "a-led", after: time.Minute},
		} {
			w.Notef("# %d columns\n", x.width)
			w.Notef("%s", screenOf(e.view(theMoment.Add(x.after), x.failure, x.filter), screen{width: x.width, height: x.height}, x.colour))
		}
	})
}

// No size of the terminal breaks a view.
func TestScreen_FitsEverySize(t *testing.T) {
	w := someElections()
	w.watcherHolds("請求請求請求請求請求請求請求", "leading", strings.Repeat("請", 60), time.Hour, time.Second)
	evil := w.watcherHolds("evil\x1b[2J", "leading", "x", time.Hour, time.Minute)
	evil.Now.Holder.ID, evil.Now.Holder.Value = "\x1b]0;title\a", []byte("\r\n\u202e\x1b[31m")
	for _, failure := range []error{nil, errors.New("\x1b[2Jno")} {
		v := w.view(theMoment, failure, "")
		for size := range 130 * 30 {
			on := screen{width: size/30 + 1, height: size%30 + 1}
			on.offset, on.editing, on.filter = on.height%4, on.height%5 == 0, strings.Repeat("x", on.height%3)
			lines := v.draw(on)
			expect.Must(t, len(lines) == on.height, "%d lines of %d", len(lines), on.height)
			for _, l := range lines {
				text := l.Paint(false)
				expect.Must(t, front.Cells(text) <= on.width && !rawIn(text), "%d cells of %d: %q", front.Cells(text), on.width, text)
			}
		}
	}
}

// Keys filter, scroll and quit. Scrolling shows every row, and the last line counts what is hidden.
func TestLiveView_Keys(t *testing.T) {
	testworld.Alone(t, func(w *testworld.World) {
		e := someElections()
		l := newLiveView()
		l.on = screen{width: 50, height: 9}
		for _, keys := range []string{
			"/", "L", "e", "q", // a letter of the filter
			"\x7f", "d\r", "\x1b",
			"/WEB-1\r", "\x1b", // pasted; the IDs of the last leaders are found, too
			"j", "j", "k", "\x1b[6~", "\x1b[1;5C", "\x1b[6~",
			"g", "G", "\x1b[H", "\x1b[F", "k", "?", "?",
			"/" + strings.Repeat("x", mostFilter+1),
			"\x03", "\rq", "Q",
		} {
			err := l.typed(keys)
			v := e.view(theMoment, nil, l.on.filter)
			l.on.offset = min(l.on.offset, v.lastOffset(l.on))
			w.Notef("# typed %.20q: %v, offset %d, a filter of %d bytes\n%s", keys, err, l.on.offset, len(l.on.filter), screenOf(v, l.on, false))
		}
	})
}
