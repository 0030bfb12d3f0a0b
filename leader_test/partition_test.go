package leader_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The last renewal before 3.5s is that of 3s. So a leader that is cut off then
// is fenced at 3s + deadline, and replaced at 3s + lease.

// pair returns a leader and a waiting candidate, at 3.5s.
func (w *world) pair() (a, b *candidate) {
	w.Helper()
	a = w.stand("a")
	w.at(500 * time.Millisecond)
	b = w.stand("b")
	w.at(3500 * time.Millisecond)
	a.saw(w.T, "0s pending", "0s elected")
	b.saw(w.T, "500ms observed a")
	return a, b
}

// lone returns a leader, at 3.5s.
func (w *world) lone() *candidate {
	w.Helper()
	a := w.stand("a")
	w.at(3500 * time.Millisecond)
	a.news()
	return a
}

// behind returns a candidate whose link has that rule.
func (w *world) behind(rule func(frame) treatment) *candidate {
	w.Helper()
	cl := w.dial("a")
	cl.filter(rule)
	return w.campaign(w.Context(), cl, "e", leader.Config{ID: "a"})
}

// A leader that crashes is replaced one lease after its last renewal.
func TestCrashedLeader_IsReplaced(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.pair()
		a.cut()
		w.at(30 * time.Second)
		a.saw(t, "4s faulted unreachable", "7.8s fenced expired")
		b.saw(t, "9s observed nobody", "9s pending", "9s elected")
		a.open()
		w.at(31 * time.Second)
		// It connects again at its client's next try.
		a.saw(t, "30.1s deposed expired", "30.1s observed b")
		b.saw(t)
		w.leads(a, b)
	})
}

// A leader that crashes in an unprotected bucket is replaced one lease after its last
// renewal.
func TestCrashedLeader_Unprotected(t *testing.T) {
	for _, k := range []func(*world){(*world).expiring, (*world).ordinary} {
		in(k)(t, func(w *world) {
			a, b := w.veterans()
			a.cut()
			w.at(time.Minute)
			b.saw(t, "26s observed nobody", "26s pending", "26s elected")
		})
	}
}

// nats.go ends a flush that waits for its reply with nats.ErrConnectionClosed when the
// connection is lost, although it connects again. A candidate that opens its feed at that
// moment goes on.
func TestOutage_WhileFeedOpens(t *testing.T) {
	bubble(t, func(w *world) {
		w.create(leader.BucketConfig{MaxLease: 10 * time.Second})
		a := w.behind(treat(hold, func(f frame) bool { return f.dir == down && bytes.HasPrefix(f.raw, []byte("PONG")) }))
		w.at(500 * time.Millisecond)
		a.cut()
		w.at(700 * time.Millisecond)
		a.open()
		w.at(20 * time.Second)
		err := a.Err()
		check.That(t, err == nil && a.IsLeader(), "the candidate has ended with %v, or does not lead", err)
	})
}

// The context of a partitioned leader ends before another candidate can lead. Fault 3 of
// docs/faults.md.
func TestPartition_EndsContext(t *testing.T) {
	for _, k := range []struct {
		name    string
		dirs    []direction
		elected string // when the other one is
	}{
		{"nothing passes", []direction{up, down}, "9s"},
		{"requests are lost", []direction{up}, "9s"},
		// The renewal in flight at 4s is stored, and other candidates receive it.
		{"replies are lost", []direction{down}, "10s"},
	} {
		inSealed.run(t, k.name, func(t *testing.T, w *world) {
			a, b := w.pair()
			term := a.lastTerm(t)
			w.at(3900 * time.Millisecond)
			a.blackhole(k.dirs...) // the renewal of 4s is in flight
			w.at(7799999999)
			check.That(t, term.Err() == nil && a.IsLeader() && term.Remaining() == 1,
				"%v: the term has ended with %v", w.now(), term.Err())
			w.at(7800 * time.Millisecond)
			check.That(t, errors.Is(context.Cause(term.Context()), leader.ErrLeaseExpired),
				"%v: the context ended with %v", w.now(), context.Cause(term.Context()))
			w.at(30 * time.Second)
			b.saw(t, k.elected+" observed nobody", k.elected+" pending", k.elected+" elected")
			a.turned(t, "7.8s fenced expired")
			a.open()
			w.at(40 * time.Second)
			got := a.transitions()
			check.That(t, len(got) == 1, "a saw %q", got)
			w.leads(a, b)
		})
	}
}

// transitions are the news without Observed and Faulted.
func (c *candidate) transitions() []string {
	return c.without(" observed ", " faulted ")
}

// turned is saw for the transitions.
func (c *candidate) turned(t *testing.T, want ...string) {
	t.Helper()
	got := c.transitions()
	check.That(t, slices.Equal(got, want), "%s saw\n  %q\nwant\n  %q", c.ID(), got, want)
}

// A short outage costs no leadership.
func TestOutage_ShortKeepsLeader(t *testing.T) {
	for _, dirs := range [][]direction{{up, down}, {up}, {down}} {
		for _, late := range []bool{false, true} {
			inSealed(t, func(w *world) {
				a, b := w.pair()
				w.at(3900 * time.Millisecond)
				if late {
					a.detain(dirs...)
				} else {
					a.blackhole(dirs...)
				}
				w.at(7 * time.Second) // fenced at 7.8s
				a.open()
				w.at(time.Minute)
				a.saw(t, "4.25s faulted unreachable")
				b.saw(t)
				w.leads(a, b)
			})
		}
	}
}

// An outage is reported once.
func TestOutage_IsReportedOnce(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.stand("a")
		for i := range 3 {
			from := time.Duration(i)*time.Hour + 3500*time.Millisecond
			w.at(from)
			a.news()
			a.blackhole(up)
			w.at(from + time.Minute)
			got := a.without(" pending", " elected", " fenced ", " deposed ")
			check.That(t, len(got) == 1, "%v: a saw %q", w.now(), got)
			a.open()
		}
	})
}

// The partition of a waiting candidate disturbs no other candidate.
func TestPartition_OfWaiter(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.pair()
		b.cut()
		w.at(30 * time.Second)
		// It has received the renewal of 3s.
		b.saw(t, "6s faulted unreachable", "9s observed nobody")
		a.saw(t)
		b.open()
		w.at(31 * time.Second)
		b.saw(t, "30.1s observed a")
		a.saw(t)
		w.leads(a, b)
		w.ok(a.Resign(w.Context())) // its feed works again
		b.saw(t, "31s observed nobody", "31s pending", "31s elected")
	})
}

// A waiting candidate that receives nothing takes nothing, although its requests arrive.
func TestWaiter_DeafTakesNothing(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.pair()
		b.blackhole(down) // its requests arrive
		w.at(30 * time.Second)
		a.saw(t)
		b.open()
		w.at(40 * time.Second)
		a.saw(t)
		w.leads(a, b)
	})
}

// A partition of all candidates ends with one leader.
func TestPartition_OfAll(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.pair()
		all := []*candidate{a, b, w.stand("c"), w.stand("d")}
		w.at(3500 * time.Millisecond)
		for _, c := range all {
			c.cut()
		}
		w.at(30 * time.Second)
		a.saw(t, "4s faulted unreachable", "7.8s fenced expired")
		for _, c := range all {
			_, ok := c.Leader()
			check.That(t, !ok && !c.IsLeader(), "%s believes in a leader", c.ID())
			c.open()
		}
		w.at(30100 * time.Millisecond)
		w.leads(all...)
	})
}

// A fenced leader that no candidate replaced is elected again.
func TestFencedLeader_Returns(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.stand("a")
		w.at(3500 * time.Millisecond)
		first := a.lastTerm(t)
		a.news()
		a.cut()
		w.at(time.Hour)
		a.saw(t, "4s faulted unreachable", "7.8s fenced expired")
		a.open()
		w.at(time.Hour + time.Minute)
		a.saw(t, "1h0m0.1s deposed expired", "1h0m0.1s pending", "1h0m0.1s elected")
		second := a.lastTerm(t)
		check.That(t, second.Token() > first.Token() && first.Err() != nil,
			"tokens %d, %d", first.Token(), second.Token())
	})
}

// The accessors of a candidate return at once during an outage. Fault 5 of
// docs/faults.md.
func TestAccessors_ReturnDuringOutage(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.pair()
		for _, c := range []*candidate{a, b} {
			c.blackhole(up, down)
		}
		w.at(4100 * time.Millisecond) // a renewal is in flight
		for ; w.now() < 20*time.Second; time.Sleep(333 * time.Millisecond) {
			at := w.now()
			for _, c := range []*candidate{a, b} {
				_, _ = c.Term()
				_, _ = c.Leader()
				_, _, _, _, _ = c.State(), c.IsLeader(), c.ID(), c.Err(), c.Done()
			}
			term := a.lastTerm(t)
			_, _, _ = term.Err(), term.Remaining(), term.Token()
			w.isAt(at, "answered")
		}
	})
}

// The application may close the connection of a leader, which is deposed at once.
func TestClosedConnection_DeposesLeader(t *testing.T) {
	kinds(t, func(w *world) {
		a, b := w.veterans()
		a.nc.Close()
		a.saw(t, "20.5s fenced closed", "20.5s deposed closed")
		a.ended(t, leader.ErrConnectionClosed)
		w.at(time.Minute)
		b.saw(t, "26s observed nobody", "26s pending", "26s elected")
	})
}

// The application may close the connection of a waiting candidate, which then ends.
func TestClosedConnection_EndsCandidate(t *testing.T) {
	kinds(t, func(w *world) {
		a := w.stand("a")
		w.at(500 * time.Millisecond)
		b := w.stand("b")
		c := w.stand("c")
		w.at(20500 * time.Millisecond)
		a.news()
		b.news()
		b.nc.Close()
		b.saw(t)
		b.ended(t, leader.ErrConnectionClosed)
		c.cut()
		w.at(22 * time.Second)
		c.nc.Close()
		c.ended(t, leader.ErrConnectionClosed)
		a.saw(t)
	})
}

// A closed connection is found when a campaign begins.
func TestClosedConnection_EndsCampaign(t *testing.T) {
	inSealed(t, func(w *world) {
		cl := w.dial("a")
		b := cl.bucket(t)
		cl.nc.Close()
		a := check.Got(leader.Campaign(w.Context(), b, "e", leader.Config{}))(w)
		<-a.Done()
		w.isAt(0, "ended")
		check.Is(t, a.Err(), leader.ErrConnectionClosed)
	})
}

// jumpy is a clock whose timers do not know that it has jumped ahead, as after a pause
// of the process.
type jumpy struct {
	leader.Clock
	ahead atomic.Int64
}

func (c *jumpy) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.ahead.Load())) }

// A process that was paused finds at once that its lease is over. Fault 6 of
// docs/faults.md.
func TestPausedProcess_IsFenced(t *testing.T) {
	inSealed(t, func(w *world) {
		clock := &jumpy{Clock: leader.SystemClock()}
		a := w.standAs(leader.Config{ID: "a", Clock: clock})
		w.at(3500 * time.Millisecond)
		a.news()
		term := a.lastTerm(t)
		clock.ahead.Store(int64(4300*time.Millisecond - 1)) // 7.8s less 1ns
		check.That(t, term.Err() == nil && a.IsLeader() && term.Remaining() == 1,
			"the term has ended with %v, %v remain", term.Err(), term.Remaining())
		clock.ahead.Add(1)
		check.That(t, errors.Is(term.Err(), leader.ErrLeaseExpired) && !a.IsLeader() && term.Remaining() == 0,
			"Err is %v, %v remain", term.Err(), term.Remaining())
		_, ok := a.Term()
		check.That(t, !ok, "Term returns a term that is over")
		check.Is(t, context.Cause(term.Context()), leader.ErrLeaseExpired)
		a.saw(t) // its goroutine has not run yet
		// Its next timer is that of the renewal at 4s. There is no other candidate, so
		// it is elected again. (Pending.Until is by its clock, which is ahead.)
		w.at(4 * time.Second)
		a.saw(t, "4s fenced expired", "4s deposed expired", "4s pending for 4.3s", "4s elected")
	})
}

// A process that was paused while another was elected is deposed.
func TestPausedProcess_IsDeposed(t *testing.T) {
	inSealed(t, func(w *world) {
		clock := &jumpy{Clock: leader.SystemClock()}
		a := w.standAs(leader.Config{ID: "a", Clock: clock})
		w.at(500 * time.Millisecond)
		b := w.stand("b")
		w.at(3500 * time.Millisecond)
		a.news()
		term := a.lastTerm(t)
		// While it is paused its clock goes on, and nothing else of it does: so it has
		// renewed at 4s for the last time, before the pause by the clock of all others.
		clock.ahead.Store(int64(time.Minute))
		a.blackhole(up, down)
		check.That(t, term.Err() != nil, "a believes that it leads")
		w.at(20 * time.Second)
		a.open()
		w.at(30 * time.Second)
		got := a.transitions()
		check.That(t, len(got) == 2 && got[0] == "4s fenced expired", "a saw %q", got)
		w.leads(a, b)
	})
}
