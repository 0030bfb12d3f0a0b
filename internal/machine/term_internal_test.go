package machine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/record"
)

// An answer of the server shows its time, the more exactly the faster it was. It dates a term whose first write the feed
// did not deliver, and only that.
func TestServerClock_DatesTerm(t *testing.T) {
	var s termState
	s.claim(7, 9, epoch.Add(2*tick), epoch.Add(tick))
	s.begin(epoch)
	var c serverClock
	at := func(d time.Duration) time.Time { return epoch.Add(d) }
	shows := func(what string, ok bool) {
		t.Helper()
		check.That(t, ok, "%s; it is now %+v, and the term has begun at %d", what, c, s.since)
	}
	c.set(0, at(0), at(tick))
	s.dateBy(c)
	shows("a store without times shows its time", s.since == 0 && c.reckon(epoch) == 0 && !c.fresh(epoch))
	c.set(8+int64(tick), at(tick), at(tick+exact+1))
	shows("a slow answer is fresh, or does not count", c.reckon(epoch) == 8 && !c.fresh(at(tick)))
	c.set(9+int64(tick), at(tick), at(tick+exact))
	shows("an answer is not fresh for a minute", c.reckon(epoch) == 9 && c.fresh(at(tick+drifts-1)) && !c.fresh(at(tick+drifts)))
	c.set(5+int64(2*tick), at(2*tick), at(3*tick))
	s.dateBy(c)
	shows("a faster answer does not count", s.since == 5)
	c.set(7+int64(3*tick), at(3*tick), at(4*tick))
	s.dateBy(c)
	shows("a slower answer counts", s.since == 5 && c.reckon(epoch) == 5)
	c.set(7+int64(2*tick+drifts), at(2*tick+drifts), at(2*tick+drifts))
	s.dateBy(c)
	shows("an old answer counts", s.since == 5 && c.reckon(epoch) == 7)
	c.set(7+int64(2*tick)+int64(3*tick+drifts), at(3*tick+drifts), at(4*tick+drifts))
	shows("a clock that has stood still counts", c.reckon(epoch) == 7+int64(2*tick))
}

// The feed may deliver forgeries. They take the server's time back by no more than a second, and once a minute.
func TestServerClock_HearsForgeries(t *testing.T) {
	var c serverClock
	hears := func(after time.Duration, shows int64, want int64) {
		t.Helper()
		at := epoch.Add(after)
		c.hear(shows+int64(after), at, at.Add(tick))
		check.Equal(t, c.reckon(epoch), want, "a forgery shows the time; it is now %d")
	}
	first := int64(time.Hour)
	hears(0, first, first)
	hears(drifts-1, first-1, first)
	hears(drifts, first-int64(exact)-1, first)
	hears(drifts, first-int64(exact), first-int64(exact))
	hears(drifts, first-int64(exact)-1, first-int64(exact))
	hears(drifts, first+2*int64(tick), first+2*int64(tick))
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

// An own write that the feed delivers shows the server's time.
func TestHeard_OwnWriteShowsTime(t *testing.T) {
	m := New(Params{ID: "a", Session: "S"}, "")
	m.writes.sent[0] = batch{first: 1, last: 1, at: epoch}
	own := record.Record{Phase: record.PhasePending, Session: "S", Counter: 1}
	m.heard(epoch.Add(tick), record.Observation{Kind: record.EntryRecord, Revision: 5, Created: 5, Rec: own}, &Effects{})
	got := m.Status(epoch.Add(tick)).Server
	check.That(t, got == 5+int64(tick), "an own write does not show the time; it is now %d", got)
}
