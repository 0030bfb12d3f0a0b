package leader_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// bench is a number of candidates for the seats of one election.
type bench struct {
	kit
	seats int
	ids   []string
	cs    map[string]*leader.Candidate
	ws    map[string]*leadertest.Watcher
}

// newBench starts the candidates one after the other, so that the first ones take the
// seats.
func newBench(t *testing.T, seats int, ids string, opts ...leadertest.Option) *bench {
	t.Helper()
	b := &bench{newKit(t, opts...), seats, strings.Fields(ids), map[string]*leader.Candidate{}, map[string]*leadertest.Watcher{}}
	for _, id := range b.ids {
		b.stand(id, leader.Config{})
		b.clock.Settle()
	}
	return b
}

func (b *bench) stand(id string, cfg leader.Config) {
	b.Helper()
	b.mark = seated(b.seats)
	b.cs[id], b.ws[id] = b.kit.stand(id, cfg)
}

// leading returns the leaders by seat: "1:a 2:b". No candidate may lead twice, and no
// two may lead on one seat.
func (b *bench) leading() string {
	b.Helper()
	b.clock.Settle()
	var all []string
	for id, c := range b.cs {
		if term, ok := c.Term(); ok {
			all = append(all, fmt.Sprintf("%d:%s", term.Seat(), id))
			check.That(b, c.State() == leader.StateLeader && c.IsLeader(), "%s leads and is %v", id, c.State())
		}
	}
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		check.That(b, all[i][0] != all[i-1][0], "two lead on one seat: %v", all)
	}
	return strings.Join(all, " ")
}

// on returns the leader on a seat, or "".
func (b *bench) on(seat int) string {
	b.Helper()
	for _, one := range strings.Fields(b.leading()) {
		if id, ok := strings.CutPrefix(one, fmt.Sprint(seat, ":")); ok {
			return id
		}
	}
	return ""
}

func (b *bench) full() {
	b.Helper()
	n := len(strings.Fields(b.leading()))
	check.That(b, n == b.seats, "at %v %d lead: %s", b.clock.Elapsed(), n, b.leading())
}

// As many candidates lead as there are seats, and each leads on another seat.
func TestSeats_EachHasOneLeader(t *testing.T) {
	b := newBench(t, 3, "a b c d e")
	b.full()
	check.That(t, b.clock.Elapsed() == 0, "it took %v", b.clock.Elapsed())
	for id, c := range b.cs {
		all := c.Leaders()
		check.Must(t, len(all) == 3, "%s sees %v", id, all)
		for i, h := range all {
			check.That(t, h.Seat == i+1 && h.ID == b.on(i+1),
				"%s sees %v and %s leads on seat %d", id, h, b.on(i+1), i+1)
		}
		h := c.Leader()
		check.That(t, h.State == leader.HolderLeading && h.Seat == 1 && h.ID == all[0].ID,
			"%s: the leader of the lowest seat is %v", id, h)
		check.That(t, c.ID() == id && c.Election() == "e", "%s is %s in %s", id, c.ID(), c.Election())
	}
	for range 20 { // nothing changes without a cause
		before := b.leading()
		b.clock.Advance(time.Minute / 10)
		now := b.leading()
		check.Must(t, now == before, "at %v %s lead instead of %s", b.clock.Elapsed(), now, before)
	}
}

// Candidates that come at the same time take all seats.
func TestSeats_ConcurrentStart(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Millisecond} {
		b := newBench(t, 3, "", leadertest.WithLatency(latency))
		for _, id := range strings.Fields("a b c d e") {
			b.stand(id, leader.Config{})
		}
		b.clock.Advance(time.Second)
		b.full()
	}
}

// The seat of a leader that dies is taken one lease after its last renewal.
func TestSeats_CrashedLeader(t *testing.T) { story(t) }

// A candidate that resigns its seat waits five turns before it campaigns for any seat.
func TestSeats_ResignWaitsOnAll(t *testing.T) { story(t) }

// A leader whose seat is deleted keeps away from all seats.
func TestSeats_DeletedSeat(t *testing.T) {
	b := newBench(t, 2, "a b")
	b.clock.Advance(time.Second)
	check.OK(t, b.cs[b.on(1)].Stop()) // seat 1 is free, and there is no candidate to take it
	id := b.on(2)
	b.store.Delete(seats.Key("e", 2))
	b.clock.Settle()
	b.ws[id].Expect(leadertest.Deposed(leader.ErrDeleted))
	if b.cs[id].State() != leader.StateCandidate {
		t.Errorf("%s is %v at once", id, b.cs[id].State())
	}
	b.clock.Advance(2500*time.Millisecond - 1)
	if b.cs[id].State() != leader.StateCandidate {
		t.Errorf("%s is %v before a renew interval has passed", id, b.cs[id].State())
	}
	b.clock.Advance(1)
	if b.clock.Settle(); b.cs[id].State() == leader.StateCandidate { // seat 2 has to be waited for
		t.Errorf("%s takes no seat when it has passed", id)
	}
	b.clock.Advance(15 * time.Second)
	check.That(t, b.on(1) == id || b.on(2) == id, "%s does not lead", id)
}

// Stop ends a candidate on all seats.
func TestSeats_StopEndsAll(t *testing.T) { story(t) }

// A candidate whose context ends, or whose connection closes, ends on all seats.
func TestSeats_ContextEndsAll(t *testing.T) { story(t) }

// A value that was published on one seat goes to the next.
func TestSeats_Proclaim(t *testing.T) { story(t) }

// The leader of one seat can be asked to hand over.
func TestSeats_StepDownOfOneSeat(t *testing.T) { story(t) }

// Observed names the seat of the leader.
func TestSeats_ObservedNamesSeat(t *testing.T) {
	b := newBench(t, 2, "a b c")
	seat := 1
	if b.on(2) == "a" {
		seat = 2
	}
	b.ws["c"].Expect(leadertest.Observed())
	check.OK(t, b.cs["a"].Stop())
	b.ws["c"].Expect(leadertest.Match("nobody there", func(e leader.Event) bool {
		o, ok := e.(leader.Observed)
		return ok && o.Holder.ID == "" && o.Holder.Seat == seat
	}), leadertest.Match("elected there", func(e leader.Event) bool {
		o, ok := e.(leader.Elected)
		return ok && o.Term.Seat() == seat && (seat == 1 || strings.Contains(o.String(), "on seat 2"))
	}))
}

// No events are read, and there are many. Terms are never dropped while the candidate
// lives, and it ends all the same.
func TestSeats_WaitForNoReader(t *testing.T) {
	b := newBench(t, 2, "a")
	const terms = 30 // Pending, Elected, Deposed, Observed each
	for range terms {
		check.OK(t, leadertest.Resign(t.Context(), b.cs["a"]))
		b.clock.Advance(15 * time.Second)
		check.Must(t, b.cs["a"].IsLeader(), "it does not lead again")
	}
	open, elected := (*leader.Term)(nil), 0
	b.stand("b", leader.Config{})
	for _, e := range b.ws["a"].Events() {
		if e, ok := e.(leader.Elected); ok {
			check.That(t, open == nil, "elected while a term is open")
			open = e.Term
			elected++
		}
		if e, ok := e.(leader.Deposed); ok {
			check.That(t, open == e.Term, "deposed of another term")
			open = nil
		}
	}
	check.That(t, elected == terms+1, "%d terms told", elected)
	for range terms {
		check.OK(t, leadertest.Resign(t.Context(), b.cs["a"]))
		b.clock.Advance(15 * time.Second)
	}
	check.OK(t, b.cs["a"].Stop())
	<-b.cs["a"].Done()
	left := 0
	for range b.cs["a"].Events(t.Context()) {
		left++
	}
	check.That(t, left != 0 && left <= 32, "%d events left", left)
}

// Totals never fall, whichever seat the candidate is on.
func TestSeats_StatsAreTotals(t *testing.T) {
	b := newBench(t, 2, "a b")
	writes, terms := uint64(0), uint64(1)
	for range 6 {
		check.OK(t, leadertest.Resign(t.Context(), b.cs["a"]))
		b.clock.Advance(15 * time.Second)
		s := b.cs["a"].Stats()
		term, ok := b.cs["a"].Term()
		if !ok || s.State != leader.StateLeader || s.Token != term.Token() || s.Remaining <= 0 || s.LeaseDuration != 15*time.Second {
			t.Fatalf("%+v", s)
		}
		n := uint64(0)
		for _, c := range s.WriteCounts {
			n += c
		}
		elected := s.Elected
		check.That(t, n > writes && elected == terms+1,
			"%d writes after %d, %d terms after %d", n, writes, elected, terms)
		writes, terms = n, elected
	}
}
