package leader_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// clockStart is the time that every new leadertest.Clock shows.
var clockStart = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// tcpLimit is how long a test in real time waits for what must happen.
const tcpLimit = time.Minute

// maxValue is the size of the largest value that a candidate may publish with its lease.
const maxValue = 64 << 10

// Faults that only a store in memory can have.

// The texts of errors that only operators distinguish.
const (
	notStanding     = "leader: not standing in the election"
	guardTaken      = "leader: the guard is another election's"
	guardDeleted    = "leader: the guard was deleted"
	tokensExhausted = "leader: a token is too great to be followed"
	otherSeats      = "leader: the candidates disagree on the number of seats"
)

// faulted matches a Faulted event with an Err of that kind that has the text.
func faulted(kind error, text string) leadertest.Matcher {
	return leadertest.Match("Faulted with "+text, func(e leader.Event) bool {
		f, ok := e.(leader.Faulted)
		return ok && errors.Is(f.Err, kind) && strings.Contains(f.Err.Error(), text)
	})
}

type kit struct {
	*testing.T
	clock *leadertest.Clock
	store *leadertest.Store
	mark  mark // of the stores of its candidates
}

func newKit(t *testing.T, opts ...leadertest.Option) kit {
	clock := leadertest.NewClock()
	return kit{t, clock, leadertest.NewStore(clock, opts...), nil}
}

// stand starts a candidate on the link of its name.
func (k kit) stand(id string, cfg leader.Config) (*leader.Candidate, *leadertest.Watcher) {
	k.Helper()
	cfg.ID = id
	link := k.store.Link(id)
	c := check.Got(leader.Campaign(k.Context(), k.mark.of(link), "e", cfg))(k)
	k.Cleanup(func() {
		link.Close()
		<-c.Done()
	})
	return c, leadertest.Watch(k, k.clock, c)
}

// lead starts candidate "a", which is elected at once.
func (k kit) lead(cfg leader.Config) (*leader.Candidate, *leadertest.Watcher) {
	k.Helper()
	c, w := k.stand("a", cfg)
	w.Expect(leadertest.Elected())
	return c, w
}

// A win with a lost reply counts with the deadline that it was sent with. Other
// candidates wait for the lease in its record, whatever the bucket allows by now.
func TestLateWin_LeaseOfItsRecord(t *testing.T) { story(t) }

// A feed that stays deaf is reported once, and the candidate polls. It takes over when the leader is gone.
func TestDeafFeed_LastingIsPolled(t *testing.T) { story(t) }

// A deaf feed is opened anew in time although the first read fails.
func TestDeafFeed_FirstReadFails(t *testing.T) {
	k := newKit(t)
	k.lead(leader.Config{})
	k.clock.Advance(time.Second)
	k.stand("b", leader.Config{})
	k.clock.Advance(time.Second)
	link := k.store.Link("b")
	link.DeafFeeds()
	link.FailReads(1, leader.ErrUnreachable)
	before := link.Requests().Watches
	k.clock.Advance(7500 * time.Millisecond) // half a lease
	if link.Requests().Watches == before {
		k.clock.Advance(time.Second) // the pause after the failure
	}
	check.That(t, link.Requests().Watches != before, "not rebuilt")
}

// A leader that was deposed because the store regressed does not report itself as the
// leader.
func TestRegressedStore_NoLeader(t *testing.T) { story(t) }

// Stop does not wait for a pending write by which no candidate may lead.
func TestStop_PendingWrite(t *testing.T) { story(t) }

// A candidate that resigns while it is cut off, from a bucket that is made anew
// meanwhile, gets an answer and campaigns again. The read after a lost release finds no
// record, and that answer may be from the past. The next try of the release settles it.
func TestResign_RecreatedBucket(t *testing.T) {
	const (
		pause = 2500 * time.Millisecond / 16 // between tries, a quarter more or less
		step  = time.Millisecond
	)
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t)
		c, w := k.lead(leader.Config{})
		before := w.Term().Token()
		k.clock.Advance(31 * time.Second)
		link := k.store.Link("a")
		link.Cut()
		resigned := make(chan error, 1)
		go func() { resigned <- leadertest.Resign(t.Context(), c) }()
		synctest.Wait()
		w.Expect(leadertest.Deposed(leader.ErrResigned))
		k.store.Recreate()
		link.Restore()

		k.clock.Advance(pause * 3 / 4)
		synctest.Wait()
		for tries := pause / 2 / step; len(resigned) == 0 && tries >= 0; tries-- {
			k.clock.Advance(step)
			synctest.Wait()
		}
		select {
		case err := <-resigned:
			check.Is(t, err, nil)
		default:
			t.Fatalf("Resign has not returned at %v; it has asked for %+v", k.clock.Elapsed(), link.Requests())
		}
		w.Expect(leadertest.Faulted(leader.ErrRegressed))
		k.clock.Advance(15*time.Second - step)
		check.That(t, !c.IsLeader(), "it leads, and the lease that was forgotten may be running")
		k.clock.Advance(step)
		w.Expect(leadertest.Elected())
		token := w.Term().Token()
		check.That(t, token > before, "token %d after %d", token, before)
	})
}

// A waiting candidate further away than one interval learns of the leader and takes over.
// A candidate waits for as long as a round trip takes in the end, even if it waits for
// one interval at first.
func TestWaiter_FarAway(t *testing.T) { story(t) }

// A leader whose link becomes slower than a leader waits for a reply is fenced. Then it waits for as
// long as a round trip takes in the end, learns who leads, and waits for its turn.
func TestFenced_FarAway(t *testing.T) {
	k := newKit(t)
	cfg := leader.Config{LeaseDuration: 3 * time.Second} // renewed each 500ms, of which a reply may take all
	a, wa := k.lead(cfg)
	b, wb := k.stand("b", cfg)
	wb.Expect(leadertest.Observed("a"))
	k.clock.Advance(time.Second) // both have renewed and read
	k.store.Link("a").Delay(500 * time.Millisecond)
	k.clock.Advance(4500 * time.Millisecond) // its writes still arrive, so b waits for longer than from the first one that failed
	check.Must(t, a.State() == leader.StateFenced && b.IsLeader(), "a is %v, b is %v", a.State(), b.State())
	k.clock.Advance(1500 * time.Millisecond)
	if a.State() != leader.StateCandidate {
		t.Errorf("a is %v after %+v", a.State(), wa.Events())
	}
	// Where all links are as slow, terms are short, but nobody is stuck.
	k.store.Link("b").Delay(500 * time.Millisecond)
	before := a.Stats().Elected + b.Stats().Elected
	k.clock.Advance(time.Minute)
	terms := a.Stats().Elected + b.Stats().Elected - before
	check.That(t, terms >= 5, "%d terms in a minute", terms)
	k.store.Link("a").Delay(0)
	k.store.Link("b").Delay(0)
	k.clock.Advance(10 * time.Second)
	check.That(t, a.IsLeader() || b.IsLeader(), "a is %v, b is %v", a.State(), b.State())
}
