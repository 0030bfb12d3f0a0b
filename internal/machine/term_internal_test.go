package machine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// A later write dates a term whose first one the feed did not deliver, and only then.
func TestTermState_DatedByLaterWrite(t *testing.T) {
	var s termState
	s.claim(7, 9, epoch.Add(2*tick), epoch.Add(tick))
	s.begin(epoch)
	s.dateBy(ownEntry{revision: 8}, epoch.Add(tick))
	check.That(t, s.since == 0, "a store without times dates the term")
	s.dateBy(ownEntry{revision: 8, created: 5 + int64(tick)}, epoch.Add(tick))
	check.Equal(t, s.since, 5, "%d")
	s.dateBy(ownEntry{revision: 9, created: 7 + int64(tick)}, epoch.Add(tick))
	check.That(t, s.since == 5, "a later entry dates the term again; it is now %d", s.since)
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
