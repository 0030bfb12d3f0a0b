package leader

import (
	"log/slog"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/machine"
)

// The clock of a virtual machine stands still while the machine is paused. Afterwards its hypervisor, or an NTP client, sets
// the time of day. So a time of day that has run ahead of the clock is a hint of a pause. An operator may also have set it, and
// thus a candidate does no more than machine.InPaused says. A candidate looks for the hint before it reads its mail, which may
// have waited meanwhile, and at each tick, of which there is one whenever the work of its term sees the hint.

// noticePause steps on the hint. Pauses of less than the margin are within what the lease
// allows for, and are summed up.
//
//go:noinline
func (a *actor) noticePause() {
	a.now() // Ahead is as of then
	ahead, t := backend.Ahead(a.clock), a.status.Times
	by := ahead - a.ahead
	if 0 <= by && by <= t.Lease-t.RenewDeadline {
		return
	}
	a.ahead = ahead
	if by < 0 {
		return
	}
	if a.status.Holds {
		a.c.log.LogAttrs(a.values, slog.LevelWarn, "the time of day has run ahead of the clock: renews at once",
			slog.Duration("by", by.Round(time.Millisecond)))
	}
	a.step(&machine.Input{Kind: machine.InPaused, By: by}, nil)
}

// noticePause wakes the candidate if the time of day has moved against the clock.
func (t *Term) noticePause() {
	for t.within != nil {
		t = t.within
	}
	seen, ahead := t.ahead.Load(), int64(backend.Ahead(t.clock))
	if seen != ahead && t.ahead.CompareAndSwap(seen, ahead) {
		t.tick()
	}
}

// tick has a frame of its own: with it in that of Err the stack of each goroutine that asks a context would be twice as large.
//
//go:noinline
func (t *Term) tick() { t.send(machine.InTick) }
