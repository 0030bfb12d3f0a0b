package health_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/health"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/golden"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// kit is a fake clock, a store, and what handlers have answered. At the end of the test the answers must
// be those of testdata.
type kit struct {
	*testing.T
	clock *leadertest.Clock
	store *leadertest.Store
	said  *strings.Builder
	seats int // of the election
}

func newKit(t *testing.T) kit {
	clock := leadertest.NewClock()
	k := kit{t, clock, leadertest.NewStore(clock), new(strings.Builder), 1}
	t.Cleanup(func() {
		if k.said.Len() > 0 {
			golden.Check(t, k.said.String())
		}
	})
	return k
}

// stand starts a candidate on the link of its name.
func (k kit) stand(id string, cfg leader.Config) *leader.Candidate {
	k.Helper()
	return k.standOn(id, id, cfg)
}

func (k kit) standOn(name, id string, cfg leader.Config) *leader.Candidate {
	k.Helper()
	cfg.ID = id
	link := k.store.Link(name)
	c := check.Got(leader.Campaign(k.Context(), seats.Of(link, k.seats), "billing", cfg))(k)
	k.Cleanup(func() {
		link.Close()
		<-c.Done()
	})
	k.clock.Settle()
	return c
}

// get asks handlers of one candidate, and writes their answers down.
func (k kit) get(handlers ...http.Handler) {
	k.Helper()
	for _, h := range handlers {
		w := ask(h, http.MethodGet)
		fmt.Fprintf(k.said, "%v: %d %s", k.clock.Elapsed(), w.Code, w.Body)
		for key, want := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store"} {
			check.Equal(k, w.Result().Header.Get(key), want, "%q was sent as %s", key) //nolint:bodyclose // a recorder's
		}
	}
}

// is asks a handler and expects the status, and the text in the body.
func (k kit) is(h http.Handler, status int, text string) {
	k.Helper()
	w := ask(h, http.MethodGet)
	check.That(k, w.Code == status && strings.Contains(w.Body.String(), text), "%d %s", w.Code, w.Body)
}

func ask(h http.Handler, method string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "/", http.NoBody))
	return w
}

// Leader answers 200 until the instant at which the lease ends.
func TestLeader_200UntilLeaseEnds(t *testing.T) {
	k := newKit(t)
	h := health.Leader(k.stand("a", leader.Config{}))
	k.get(h)
	k.store.Link("a").Cut()
	k.clock.Advance(12*time.Second - 1)
	k.get(h)
	k.clock.Advance(1)
	k.get(h)
}

// late is a clock that is ahead of its timers, as after a pause of the process. With each
// call of Now it is further ahead.
type late struct {
	leader.Clock
	by, more time.Duration
}

func (c *late) Now() time.Time {
	c.by += c.more
	return c.Clock.Now().Add(c.by)
}

// Leader asks the clock, and not the timers.
func TestLeader_AsksTheClock(t *testing.T) {
	k := newKit(t)
	clock := &late{Clock: k.clock}
	h := health.Leader(k.stand("a", leader.Config{Clock: clock}))
	clock.by = 12 * time.Second
	k.get(h)
	clock.by, clock.more = 12*time.Second-2, 1 // it ends while the handler looks
	k.get(h)
}

// Leader names the candidate that leads instead.
func TestLeader_NamesOtherLeader(t *testing.T) {
	k := newKit(t)
	k.clock.Advance(time.Minute)
	a := k.stand("a", leader.Config{Value: []byte("http://<a>")})
	h := health.Leader(k.stand("b", leader.Config{}))
	k.clock.Advance(10 * time.Second) // renewals
	k.get(h)

	check.OK(t, leadertest.Led(a).Proclaim(t.Context(), []byte{0xff, 0}))
	k.clock.Settle()
	k.get(h)

	k.store.Link("a").Close()
	k.store.Link("b").Cut() // so that b does not take over
	k.clock.Advance(15 * time.Second)
	k.get(h)
}

// Leader names another candidate of the same ID as the leader.
func TestLeader_NamesOtherOfSameID(t *testing.T) {
	k := newKit(t)
	k.stand("a", leader.Config{Value: []byte("first")})
	k.get(health.Leader(k.standOn("second", "a", leader.Config{})))
}

// Leader does not name a candidate that holds the key without leading.
func TestLeader_NamesNoPendingHolder(t *testing.T) {
	k := newKit(t)
	k.stand("a", leader.Config{PendingPeriod: time.Minute})
	k.get(health.Leader(k.stand("b", leader.Config{})))
}

// Leader names the leader of another seat to a candidate that is pending on its own.
func TestLeader_NamesOtherSeatWhilePending(t *testing.T) {
	k := newKit(t)
	k.seats = 2
	k.stand("a", leader.Config{})
	k.get(health.Leader(k.stand("b", leader.Config{PendingPeriod: time.Minute})))
}

// Connected answers 200 until the bucket has not answered for half a lease, before the candidate is
// fenced. It answers 503 until a renewal is acknowledged.
func TestConnected_200UntilCutOff(t *testing.T) {
	k := newKit(t)
	h := health.Connected(k.stand("a", leader.Config{LeaseDuration: 6 * time.Second}))
	k.get(h)
	k.store.Link("a").Cut()
	k.clock.Advance(3 * time.Second) // since the acknowledgement of the first write
	k.get(h)
	k.clock.Advance(1)
	k.get(h)
	k.clock.Advance(2 * time.Second)
	k.get(h)
	k.store.Link("a").Restore()
	k.clock.Advance(time.Second)
	k.is(h, 200, "")
}

// Connected answers 503 from the instant at which a lease could not be renewed, however short the
// silence is, and without one.
func TestConnected_503WhenLeaseIsOver(t *testing.T) {
	for _, paused := range []bool{false, true} {
		k := newKit(t)
		clock := &late{Clock: k.clock}
		pass := k.clock.Advance
		if paused {
			pass = func(d time.Duration) { clock.by += d }
		}
		h := health.Connected(k.stand("a", leader.Config{RenewDeadline: 5 * time.Second, RenewInterval: time.Second, Clock: clock}))
		if !paused {
			k.store.Link("a").Cut()
		}
		pass(5*time.Second - 1)
		k.is(h, 200, `"state":"leader"`)
		pass(1)
		k.is(h, 503, `"state":"fenced"`)
		clock.by = 0
	}
}

// Connected answers 200 for a leader that steps down: it is fenced, and its bucket answers.
func TestConnected_200WhileDraining(t *testing.T) {
	k := newKit(t)
	a := k.stand("a", leader.Config{GracePeriod: time.Minute})
	term := leadertest.Led(a)
	end, _ := leadertest.Work(term)
	defer end()
	check.OK(t, term.Resign(t.Context()))
	k.clock.Advance(30 * time.Second) // many renewals
	k.get(health.Connected(a))
}

// Connected answers 503 before the bucket has answered, so that a roll-out stops at a pod that has
// never reached it.
func TestConnected_503BeforeTheFirstAnswer(t *testing.T) {
	k := newKit(t)
	k.store.Link("a").Cut()
	h := health.Connected(k.stand("a", leader.Config{}))
	k.get(h)
	k.store.Link("a").Restore()
	k.clock.Advance(5 * time.Second)
	k.is(h, 200, "")
}

// A body contradicts neither its status nor itself, whenever the link is cut and restored, and for
// however long. No candidate that was cut off is connected when another leads in its place.
func TestHandlers_NoContradiction(t *testing.T) {
	type answer struct {
		State     string  `json:"state"`
		IsLeader  bool    `json:"is_leader"`
		Connected bool    `json:"connected"`
		Silent    float64 `json:"silent_seconds"`
		Remains   float64 `json:"lease_remaining_seconds"`
		Token     uint64  `json:"token"`
		Error     string  `json:"error"`
		Leader    *struct{ ID string }
	}
	const lease = 6
	seen := make(map[string]int)
	for seed := range uint64(4) {
		k, rng := newKit(t), rand.New(rand.NewPCG(seed, 1))
		ids := []string{"a", "b"}
		cut, c := make(map[string]bool), make(map[string]*leader.Candidate)
		for _, id := range ids {
			c[id] = k.stand(id, leader.Config{LeaseDuration: lease * time.Second})
		}
		for range 60 {
			id := ids[rng.IntN(2)]
			if cut[id] = !cut[id]; cut[id] {
				k.store.Link(id).Cut()
			} else {
				k.store.Link(id).Restore()
			}
			k.clock.Advance(time.Duration(rng.Int64N(int64(2 * lease * time.Second))))
			leads := ""
			for _, id := range ids {
				if c[id].IsLeader() {
					leads = id
				}
			}
			for _, id := range ids {
				for name, h := range map[string]http.Handler{"Leader": health.Leader(c[id]), "Connected": health.Connected(c[id])} {
					w := ask(h, http.MethodGet)
					var a answer
					check.OK(t, json.Unmarshal(w.Body.Bytes(), &a))
					ok := a.IsLeader
					if name == "Connected" {
						ok = a.Connected
						seen[fmt.Sprint(a.State, " connected ", a.Connected)]++
						check.That(t, !cut[id] || leads == "" || leads == id || a.State != "fenced" || !a.Connected,
							"seed %d: %s leads, and %s has the answer %s", seed, leads, id, w.Body)
						if a.Connected && (a.Silent > lease/2. || a.Error != "" || a.State == "fenced") || !a.Connected && a.Error == "" {
							t.Errorf("seed %d: %s", seed, w.Body)
						}
					}
					if ok != (w.Code == http.StatusOK) || a.IsLeader != (a.State == "leader") || a.IsLeader != (a.Remains > 0) || a.IsLeader != (a.Token > 0) || a.IsLeader && a.Leader != nil {
						t.Errorf("seed %d: %s: %d %s", seed, name, w.Code, w.Body)
					}
				}
			}
		}
	}
	for _, situation := range []string{"leader connected true", "leader connected false", "fenced connected false", "candidate connected true", "candidate connected false"} {
		check.That(t, seen[situation] != 0, "it never came to: %s, but to %v", situation, seen)
	}
}

// Connected answers 503 after the end of the candidate, and says why. The body names no leader, because
// nothing reads the key any more.
func TestConnected_503AfterTheEnd(t *testing.T) {
	k := newKit(t)
	a := k.stand("a", leader.Config{})
	b := k.stand("b", leader.Config{})
	check.OK(t, b.Stop()) // while a leads
	k.store.Link("a").Close()
	<-a.Done()
	k.get(health.Connected(a), health.Leader(b), health.Connected(b))
}

// Only GET and HEAD are served.
func TestHandlers_OnlyGETAndHEAD(t *testing.T) {
	k := newKit(t)
	c := k.stand("a", leader.Config{})
	for name, h := range map[string]http.Handler{"Leader": health.Leader(c), "Live": health.Live(c), "Connected": health.Connected(c)} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			w := ask(h, method)
			sent := w.Result().Header //nolint:bodyclose // a recorder's
			if w.Code != http.StatusMethodNotAllowed || sent.Get("Allow") != "GET, HEAD" || strings.Contains(w.Body.String(), "{") {
				t.Errorf("%s: %s: %d %s, Allow: %s", name, method, w.Code, w.Body, sent.Get("Allow"))
			}
			check.That(t, sent.Get("Cache-Control") == "no-store",
				"%s: the answer to %s may be cached", name, method)
		}
		w := ask(h, http.MethodHead)
		check.Equal(t, w.Code, http.StatusOK, "HEAD has the answer %d of "+name)
	}
}

// Leader answers 200 for the leader of each seat.
func TestLeader_200ForEachSeat(t *testing.T) {
	k := newKit(t)
	k.seats = 2
	for _, id := range []string{"a", "b", "c"} {
		c := k.stand(id, leader.Config{})
		k.get(health.Leader(c), health.Live(c), health.Connected(c))
	}
}

// Each handler reports that there is no candidate.
func TestHandlers_NilCandidate(t *testing.T) {
	newKit(t).get(health.Leader(nil), health.Connected(nil), health.Live(nil))
}
