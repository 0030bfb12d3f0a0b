package health_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/health"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

type kit struct {
	*testing.T
	clock *leadertest.Clock
	store *leadertest.Store
}

func newKit(t *testing.T) kit {
	clock := leadertest.NewClock()
	return kit{t, clock, leadertest.NewStore(clock)}
}

// stand starts a candidate on the link of its name.
func (k kit) stand(id string, cfg leader.Config) *leader.Candidate {
	k.Helper()
	cfg.ID = id
	link := k.store.Link(id)
	c, err := leader.Campaign(k.Context(), link, "billing", cfg)
	check.OK(k, err)
	k.Cleanup(func() {
		link.Close()
		<-c.Done()
	})
	k.clock.Settle()
	return c
}

// get asks the handler and expects the status and exactly these fields.
func (k kit) get(h http.Handler, status int, body map[string]any) {
	k.Helper()
	w := ask(h, http.MethodGet)
	check.Equal(k, w.Code, status, "status %d, not %d: %s", status, w.Body)
	var got map[string]any
	check.OK(k, json.Unmarshal(w.Body.Bytes(), &got))
	check.That(k, reflect.DeepEqual(got, body), "%s\nnot %v", w.Body, body)
	for key, want := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store"} {
		if got := w.Result().Header.Get(key); got != want { //nolint:bodyclose // a recorder's
			k.Errorf("%s: %q was sent", key, got)
		}
	}
}

func ask(h http.Handler, method string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "/", http.NoBody))
	return w
}

type fields = map[string]any

// Leader answers 200 until the instant at which the lease ends.
func TestLeader_200UntilLeaseEnds(t *testing.T) {
	k := newKit(t)
	h := health.Leader(k.stand("a", leader.Config{}))
	leading := fields{
		"election": "billing", "id": "a", "state": "leader", "is_leader": true,
		"token": 1., "lease_remaining_seconds": 12.,
	}
	k.get(h, 200, leading)
	k.store.Link("a").Cut()
	k.clock.Advance(12*time.Second - 1)
	leading["lease_remaining_seconds"] = 1e-9
	k.get(h, 200, leading)
	k.clock.Advance(1)
	k.get(h, 503, fields{"election": "billing", "id": "a", "state": "fenced", "is_leader": false})
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
	over := fields{"election": "billing", "id": "a", "state": "fenced", "is_leader": false}
	clock.by = 12 * time.Second
	k.get(h, 503, over)
	clock.by, clock.more = 12*time.Second-2, 1 // it ends while the handler looks
	k.get(h, 503, over)
}

// Leader names the candidate that leads instead.
func TestLeader_NamesOtherLeader(t *testing.T) {
	k := newKit(t)
	k.clock.Advance(time.Minute)
	a := k.stand("a", leader.Config{Value: []byte("http://<a>")})
	h := health.Leader(k.stand("b", leader.Config{}))
	k.clock.Advance(10 * time.Second) // renewals
	other := fields{"id": "a", "value": "http://<a>", "token": 1., "since": "2000-01-01T00:01:00Z"}
	waiting := fields{"election": "billing", "id": "b", "state": "candidate", "is_leader": false, "leader": other}
	k.get(h, 503, waiting)

	check.OK(t, a.Proclaim(t.Context(), []byte{0xff, 0}))
	k.clock.Settle()
	delete(other, "value")
	other["value64"] = "/wA="
	k.get(h, 503, waiting)

	k.store.Link("a").Close()
	k.store.Link("b").Cut() // so that b does not take over
	k.clock.Advance(15 * time.Second)
	delete(waiting, "leader")
	k.get(h, 503, waiting)
}

// Leader names another candidate of the same ID as the leader.
func TestLeader_NamesOtherOfSameID(t *testing.T) {
	k := newKit(t)
	k.stand("a", leader.Config{Value: []byte("first")})
	link := k.store.Link("second")
	second, err := leader.Campaign(t.Context(), link, "billing", leader.Config{ID: "a"})
	check.OK(t, err)
	t.Cleanup(func() {
		link.Close()
		<-second.Done()
	})
	k.clock.Settle()
	k.get(health.Leader(second), 503, fields{
		"election": "billing", "id": "a", "state": "candidate", "is_leader": false,
		"leader": fields{"id": "a", "value": "first", "token": 1., "since": "2000-01-01T00:00:00Z"},
	})
}

// Leader does not name a candidate that holds the key without leading.
func TestLeader_NamesNoPendingHolder(t *testing.T) {
	k := newKit(t)
	k.stand("a", leader.Config{PendingPeriod: time.Minute})
	k.get(health.Leader(k.stand("b", leader.Config{})), 503,
		fields{"election": "billing", "id": "b", "state": "candidate", "is_leader": false})
}

// Connected answers 200 until the bucket has not answered for half a lease, before the candidate is
// fenced. It answers 503 until a renewal is acknowledged.
func TestConnected_200UntilCutOff(t *testing.T) {
	k := newKit(t)
	h := health.Connected(k.stand("a", leader.Config{LeaseDuration: 6 * time.Second}))
	body := fields{
		"election": "billing", "id": "a", "state": "leader", "is_leader": true,
		"token": 1., "lease_remaining_seconds": 4.8, "connected": true,
	}
	k.get(h, 200, body)
	k.store.Link("a").Cut()
	k.clock.Advance(3 * time.Second) // since the acknowledgement of the first write
	body["lease_remaining_seconds"], body["silent_seconds"] = 1.8, 3.
	k.get(h, 200, body)
	k.clock.Advance(1)
	body["connected"], body["lease_remaining_seconds"], body["silent_seconds"] = false, 1.799999999, 3.000000001
	body["error"] = leader.ErrUnreachable.Error() + " for more than half of the lease of 6s"
	k.get(h, 503, body)
	k.clock.Advance(2 * time.Second)
	body = fields{
		"election": "billing", "id": "a", "state": "fenced", "is_leader": false, "connected": false, "silent_seconds": 5.000000001,
		"error": leader.ErrLeaseExpired.Error() + ", and no write has been acknowledged since",
	}
	k.get(h, 503, body)

	k.store.Link("a").Restore()
	k.clock.Advance(time.Second)
	w := ask(h, http.MethodGet)
	check.That(t, w.Code == 200, "reconnected, and yet %d: %s", w.Code, w.Body)
}

// Connected answers 503 from the instant at which a lease could not be renewed, however short the
// silence is, and without one.
func TestConnected_503WhenLeaseIsOver(t *testing.T) {
	for _, paused := range []bool{false, true} {
		k := newKit(t)
		clock := &late{Clock: k.clock}
		h := health.Connected(k.stand("a", leader.Config{RenewDeadline: 5 * time.Second, RenewInterval: time.Second, Clock: clock}))
		if paused {
			clock.by = 5*time.Second - 1
		} else {
			k.store.Link("a").Cut()
			k.clock.Advance(5*time.Second - 1)
		}
		w := ask(h, http.MethodGet)
		check.That(t, w.Code == 200 && strings.Contains(w.Body.String(), `"state":"leader"`),
			"paused %v: %d %s", paused, w.Code, w.Body)
		if paused {
			clock.by++
		} else {
			k.clock.Advance(1)
		}
		if w := ask(h, http.MethodGet); w.Code != 503 || !strings.Contains(w.Body.String(), `"state":"fenced"`) {
			t.Errorf("paused %v: %d %s", paused, w.Code, w.Body)
		}
		clock.by = 0
	}
}

// Connected answers 200 for a leader that steps down: it is fenced, and its bucket answers.
func TestConnected_200WhileDraining(t *testing.T) {
	k := newKit(t)
	a := k.stand("a", leader.Config{DrainTimeout: time.Minute})
	resigned := make(chan error, 1)
	go func() { resigned <- a.Resign(t.Context()) }()
	for a.IsLeader() {
		runtime.Gosched()
	}
	k.clock.Advance(30 * time.Second) // many renewals
	k.get(health.Connected(a), 200, fields{
		"election": "billing", "id": "a", "state": "fenced", "is_leader": false, "connected": true,
	})
	k.clock.Advance(time.Minute)
	err := <-resigned
	check.That(t, err == nil, "%v", err)
}

// Connected answers 503 before the bucket has answered, so that a roll-out stops at a pod that has
// never reached it.
func TestConnected_503BeforeTheFirstAnswer(t *testing.T) {
	k := newKit(t)
	k.store.Link("a").Cut()
	c := k.stand("a", leader.Config{})
	body := fields{
		"election": "billing", "id": "a", "state": "candidate", "is_leader": false,
		"connected": false, "error": "leader: the settings of the bucket are not known yet",
	}
	k.get(health.Connected(c), 503, body)
	k.store.Link("a").Restore()
	k.clock.Advance(5 * time.Second)
	w := ask(health.Connected(c), http.MethodGet)
	check.That(t, w.Code == 200, "%d %s", w.Code, w.Body)
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
	if err := b.Stop(t.Context()); err != nil { // while a leads
		t.Fatal(err)
	}
	k.store.Link("a").Close()
	<-a.Done()
	k.get(health.Connected(a), 503, fields{
		"election": "billing", "id": "a", "state": "ended", "is_leader": false,
		"connected": false, "error": leader.ErrConnectionClosed.Error(),
	})
	stopped := fields{"election": "billing", "id": "b", "state": "ended", "is_leader": false}
	k.get(health.Leader(b), 503, stopped)
	stopped["connected"] = false
	k.get(health.Connected(b), 503, stopped)
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
	}
}

// Leader answers 200 for the leader of each seat.
func TestLeader_200ForEachSeat(t *testing.T) {
	k := newKit(t)
	for i, id := range []string{"a", "b", "c"} {
		c := k.stand(id, leader.Config{Seats: 2})
		want := http.StatusOK
		if i == 2 {
			want = http.StatusServiceUnavailable
		}
		w := ask(health.Leader(c), http.MethodGet)
		check.That(t, w.Code == want, "%s: %d %s", id, w.Code, w.Body)
		check.That(t, i != 2 || strings.Contains(w.Body.String(), `"leader":{"id":"a"`),
			"the leader on the lowest seat is not named: %s", w.Body)
		for name, h := range map[string]http.Handler{"Live": health.Live(c), "Connected": health.Connected(c)} {
			w := ask(h, http.MethodGet)
			check.That(t, w.Code == http.StatusOK, "%s: %s: %d %s", id, name, w.Code, w.Body)
		}
	}
}

// A nil candidate is treated as one that has ended.
func TestHandlers_NilCandidate(t *testing.T) {
	k := newKit(t)
	none := fields{"election": "", "id": "", "state": "ended", "is_leader": false}
	k.get(health.Leader(nil), 503, none)
	none["connected"] = false
	k.get(health.Connected(nil), 503, none)
	k.get(health.Live(nil), 503, fields{"election": "", "id": "", "live": false, "error": "there is no candidate"})
}
