package leader_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/checker"
	"github.com/natsleader/natsleader/internal/contract"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// gallery is an election with several leaders, with faults that are drawn from a seed,
// and its checker.
type gallery struct {
	*testing.T
	rng    *rand.Rand
	clock  *leadertest.Clock
	store  *leadertest.Store
	sealed bool
	seats  int
	trace  []string

	mu       sync.Mutex
	lives    []*sitter // all candidates that ever stood
	election contract.Election
	looked   int64 // when all events had been read

	terms int
}

// sitter is one candidate.
type sitter struct {
	*leader.Candidate
	unread  func() (event any, ok bool)
	checker checker.Candidate
	link    *leadertest.Link
	gone    bool // it is ending
}

const galleryLease = 15 * time.Second

// Handle checks at every election that no seat has two leaders, and no candidate leads
// two seats. A gallery is the handler of its candidates' logs.
func (g *gallery) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "elected" {
		g.check()
	}
	return nil
}

func (g *gallery) Enabled(context.Context, slog.Level) bool { return true }
func (g *gallery) WithAttrs([]slog.Attr) slog.Handler       { return g }
func (g *gallery) WithGroup(string) slog.Handler            { return g }

// check returns how many candidates lead, and checks the seats that they lead on.
func (g *gallery) check() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	leads := make(map[string]bool)
	g.broken(g.election.Sample(len(g.lives), func(i int) (contract.Term, bool) {
		l := g.lives[i]
		term, ok := l.Term()
		if !ok {
			return contract.Term{}, false
		}
		leads[l.checker.Name] = true
		return l.checker.Named(term), true
	})...)
	return len(leads)
}

func (g *gallery) broken(vs ...*contract.Violation) { report(g.T, g.clock.Elapsed(), vs...) }

// look reads the events of all candidates, and whether they lead.
func (g *gallery) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.lives {
		for e, ok := l.unread(); ok; e, ok = l.unread() {
			g.told(l, e.(leader.Event))
		}
		if l.checker.Alive() && l.checker.Term.Context().Err() == nil {
			if now, ok := l.Term(); ok && now != l.checker.Term {
				g.Errorf("%s leads seat %d, and its term on seat %d is open", l.checker.Name, now.Seat(), l.checker.Term.Seat())
			}
		}
	}
	g.looked = g.election.Now()
}

// told checks an event that came since the last look.
func (g *gallery) told(l *sitter, e leader.Event) {
	g.broken(l.checker.Next(e, g.clock.Now()))
	if e, ok := e.(leader.Elected); ok {
		g.terms++
		g.broken(g.election.Elected(l.checker.Named(e.Term), g.looked, g.election.Now())...)
	}
}

func (g *gallery) stand(n int) {
	link := g.store.Link(fmt.Sprintf("%d-%d", n, len(g.lives)))
	c, err := leader.Campaign(g.Context(), link, "e", leader.Config{ID: fmt.Sprint("c", n), Seats: g.seats, Logger: slog.New(g)})
	expect.OK(g, err)
	unread, _ := backend.EventsOf(c)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lives = append(g.lives, &sitter{Candidate: c, unread: unread, checker: checker.Candidate{Name: fmt.Sprintf("c%d.%d", n, len(g.lives)+1)}, link: link})
}

func (g *gallery) chance(n int) bool { return g.rng.IntN(n) == 0 }

// upTo draws a duration.
func (g *gallery) upTo(most time.Duration) time.Duration {
	return time.Duration(g.rng.Int64N(int64(most) + 1))
}

// seatFaults are all faults of a candidate or a seat.
var seatFaults = map[string]func(g *gallery, l *sitter, ended context.Context){
	"cut":         func(_ *gallery, l *sitter, _ context.Context) { l.link.Cut() },
	"restore":     func(_ *gallery, l *sitter, _ context.Context) { l.link.Restore() },
	"freeze":      func(_ *gallery, l *sitter, _ context.Context) { l.link.Freeze() },
	"thaw":        func(_ *gallery, l *sitter, _ context.Context) { l.link.Thaw() },
	"heal":        func(_ *gallery, l *sitter, _ context.Context) { l.link.Heal() },
	"reconnect":   func(_ *gallery, l *sitter, _ context.Context) { l.link.Reconnect() },
	"lose reply":  func(g *gallery, l *sitter, _ context.Context) { l.link.LoseReplies(1 + g.rng.IntN(2)) },
	"lose write":  func(g *gallery, l *sitter, _ context.Context) { l.link.LoseWrites(1 + g.rng.IntN(2)) },
	"lose reads":  func(g *gallery, l *sitter, _ context.Context) { l.link.LoseReads(1 + g.rng.IntN(2)) },
	"stale reads": func(g *gallery, l *sitter, _ context.Context) { l.link.StaleReads(1 + g.rng.IntN(2)) },
	"late write": func(g *gallery, l *sitter, _ context.Context) {
		l.link.ApplyLate(1+g.rng.IntN(2), g.upTo(2*galleryLease))
	},
	"refuse":    func(g *gallery, l *sitter, _ context.Context) { l.link.Refuse(1, g.chance(2)) },
	"lose feed": func(g *gallery, l *sitter, _ context.Context) { l.link.LoseFeed(1 + g.rng.IntN(3)) },
	"deaf":      func(_ *gallery, l *sitter, _ context.Context) { l.link.DeafFeeds() },
	"delay":     func(g *gallery, l *sitter, _ context.Context) { l.link.Delay(g.upTo(galleryLease)) },
	"resign":    func(_ *gallery, l *sitter, ended context.Context) { _ = l.Resign(ended) },
	"proclaim":  func(_ *gallery, l *sitter, ended context.Context) { _ = l.Proclaim(ended, []byte("x")) },
	"stop": func(g *gallery, l *sitter, _ context.Context) {
		l.gone = true
		go func() { _ = l.Stop(g.Context()) }()
	},
	"crash": func(_ *gallery, l *sitter, ended context.Context) {
		l.gone = true
		l.link.Cut()
		_ = l.Stop(ended)
	},
	"delete": func(g *gallery, _ *sitter, _ context.Context) {
		g.store.Delete(leader.SeatKey("e", 1+g.rng.IntN(g.seats)))
	},
	"erase": func(g *gallery, _ *sitter, _ context.Context) {
		if !g.sealed {
			_ = g.store.Erase(leader.SeatKey("e", 1+g.rng.IntN(g.seats)))
		}
	},
}

// weighted holds the faults by weight, in an order that is always the same.
var weighted = strings.Split("cut,cut,restore,restore,restore,freeze,thaw,thaw,heal,heal,heal,heal,heal,reconnect,reconnect,"+
	"lose reply,lose reply,lose reply,lose write,lose reads,stale reads,late write,late write,late write,refuse,lose feed,deaf,delay,"+
	"resign,resign,resign,proclaim,stop,crash,crash,delete,erase,erase", ",")

func (g *gallery) run() {
	ended, cancel := context.WithCancel(g.Context())
	cancel()
	most := g.seats + g.rng.IntN(4)
	for n := range most {
		g.stand(n)
	}
	for range 60 + g.rng.IntN(60) {
		n := g.rng.IntN(len(g.lives))
		l := g.lives[n]
		what := weighted[g.rng.IntN(len(weighted))]
		if l.gone {
			l.link.Heal()
			g.stand(n)
			continue
		}
		g.trace = append(g.trace, fmt.Sprintf("%v %s %s", g.clock.Elapsed(), l.ID(), what))
		seatFaults[what](g, l, ended)
		g.clock.Advance([]time.Duration{0, time.Millisecond, g.upTo(time.Second), g.upTo(galleryLease), g.upTo(2 * galleryLease)}[g.rng.IntN(5)])
		g.check()
		g.look()
	}
	up := 0
	for _, l := range g.lives {
		if l.link.Heal(); !l.gone {
			up++
		}
	}
	for ; up < g.seats; up++ {
		g.stand(up)
	}
	// Delayed messages arrive, a key that was emptied has to be waited for, and a
	// candidate that resigned waits before it campaigns again.
	g.clock.Advance(6 * galleryLease)
	g.look()
	expect.Equal(g, g.check(), g.seats, "%d lead on %d seats after calm", g.seats)
	before := g.terms
	g.clock.Advance(10 * galleryLease)
	g.look()
	expect.That(g, g.terms == before, "%d elections after calm", g.terms-before)
	for _, l := range g.lives {
		l.link.Close()
		<-l.Done()
	}
	g.look()
	for _, l := range g.lives {
		g.broken(l.checker.End())
	}
}

// In spite of all faults, each seat has at most one leader, and no candidate leads two
// seats. When all is calm again, all seats are taken.
func TestWhateverHappens_OneSeatEach(t *testing.T) {
	terms, n := 0, seeds(40)
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(seed, 11))
		clock := leadertest.NewClock()
		g := &gallery{
			T: t, rng: rng, clock: clock, sealed: rng.IntN(2) == 0, seats: 2 + rng.IntN(3),
		}
		g.election.Seats = g.seats
		opts := []leadertest.Option{leadertest.WithMaxLease(galleryLease), leadertest.WithLatency([]time.Duration{0, time.Millisecond, 20 * time.Millisecond}[rng.IntN(3)])}
		if !g.sealed {
			opts = append(opts, leadertest.WithoutPurgeProtection())
		}
		g.store = leadertest.NewStore(clock, opts...)
		g.run()
		terms += g.terms
		expect.Must(t, !t.Failed(),
			"seed %d, %d seats, sealed: %v\n%s", seed, g.seats, g.sealed, strings.Join(g.trace, "\n"))
	}
	t.Logf("%d terms in %d elections", terms, n)
	expect.That(t, terms >= 5*n, "not much has happened")
}
