package view

import (
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/roster"
)

// A write that was denied again is no change of the roster. The table shows the last one.
func TestLineup_SameAfterAnotherDenial(t *testing.T) {
	at := func(s int64) Lineup {
		return Lineup{Election: "e", candidates: []roster.Entry{{ID: "a", Denied: true, DeniedAt: time.Unix(s, 0)}}}
	}
	first := at(1)
	w := rosterWatcher{reported: &first}
	expect.OK(t, w.update(at(5), true)) // without a renderer
	expect.Equal(t, w.newest.next(time.Unix(8, 0)), "a (denied 3s ago)", "%s; want %s")
	expect.Equal(t, denial(roster.Entry{Denied: true}, time.Unix(8, 0)), "denied", "%s; want %s")
}
