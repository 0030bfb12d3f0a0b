package machine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// An own write shows the server's time, if it was sent once and the store dates it. It dates a term whose first write the
// feed did not deliver, and only that.
func TestServerClock_DatesTerm(t *testing.T) {
	var s termState
	s.claim(7, 9, epoch.Add(2*tick), epoch.Add(tick))
	s.begin(epoch)
	var c serverClock
	once, twice := batch{first: 2, last: 2, at: epoch.Add(tick)}, batch{first: 2, last: 3, at: epoch.Add(tick)}
	c.set(ownEntry{revision: 8}, once)
	c.set(ownEntry{revision: 8, created: 5 + int64(tick)}, twice)
	s.dateBy(c)
	check.That(t, s.since == 0 && c.reckon(epoch) == 0 && !c.fresh(epoch), "%+v, since %d", c, s.since)
	c.set(ownEntry{revision: 8, created: 5 + int64(tick)}, once)
	s.dateBy(c)
	check.Equal(t, s.since, 5, "%d")
	check.That(t, c.fresh(epoch.Add(tick+drifts-1)) && !c.fresh(epoch.Add(tick+drifts)), "%+v", c)
	c.set(ownEntry{revision: 9, created: 7 + int64(tick)}, once)
	s.dateBy(c)
	check.That(t, s.since == 5 && c.reckon(epoch) == 7, "%+v, since %d", c, s.since)
}

// A claim becomes a term, whose end clears all but its number.
func TestTermState_ClaimToEnd(t *testing.T) {
	var s termState
	s.claim(7, 9, epoch.Add(2*tick), epoch.Add(tick))
	s.date(ownEntry{revision: 6, created: 1})
	check.That(t, s.since == 0, "the echo of another write dates the term")
	s.date(ownEntry{revision: 7, created: 5})
	s.begin(epoch)
	s.extend(epoch.Add(tick))
	if s.number != 1 || s.since != 5 || !s.guardDeadline.IsZero() || !s.leaseUntil.Equal(epoch.Add(2*tick)) || s.broken() != "" {
		t.Errorf("%+v, %q", s, s.broken())
	}
	s.fence(errors.New("cause"))
	s.drain(epoch.Add(tick))
	check.Equal(t, s.broken(), "", "%v")
	s.end()
	check.That(t, s == (termState{number: 1, began: epoch}), "%+v", s)
}

func (t *termState) broken() string {
	claimed := t.token != 0
	switch {
	case claimed != (t.elected != 0):
		return fmt.Sprintf("token %d of a term elected at %d", t.token, t.elected)
	case claimed != !t.leaseUntil.IsZero():
		return fmt.Sprintf("token %d with a lease until %v", t.token, t.leaseUntil)
	case t.draining && (t.drainBy.IsZero() || !claimed):
		return "it drains without a time or a token"
	case !claimed && !t.guardDeadline.IsZero():
		return "guards are to be raised for no token"
	}
	return ""
}

func (d *departure) broken() string {
	if d.mode == Staying && d.to != "" {
		return "a successor of a candidate that stays"
	}
	return ""
}
