package leader_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// denying returns the options of a server with a user x that may not publish to a subject.
func denying(subject string) func() *server.Options {
	return func() *server.Options {
		return &server.Options{NoAuthUser: "all", Users: []*server.User{
			{Username: "all", Password: "x"},
			{Username: "x", Password: "x", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{subject}}}},
		}}
	}
}

// candidates returns that many silent candidates of one process, in elections whose names begin so.
func (w *world) candidates(n int, b *leader.Bucket, prefix string) []*leader.Candidate {
	w.Helper()
	all := make([]*leader.Candidate, n)
	for i := range all {
		var err error
		all[i], err = leader.Campaign(w.Context(), b, fmt.Sprint(prefix, i), leader.Config{})
		w.ok(err)
	}
	return all
}

// Candidates that are denied their writes do not hold up one that is not, however many they
// are: when all of them begin, and when they try again.
func TestDeniedCrowd_HoldsNobodyUp(t *testing.T) {
	proof.NotRaced(t) // Go 1.26.8 crashes in the timers of so many goroutines in a bubble, in time.go (maybeRunChan) or tsan_rtl.cpp
	bubbleOf(t, denying("$KV.E.denied.>"), func(w *world) {
		w.create(leader.BucketConfig{})
		b := w.dial("x", nats.UserInfo("x", "x")).bucket(w.T)
		crowd := w.candidates(500, b, "denied.") // more than the most slots
		for _, rest := range []time.Duration{0, time.Millisecond, 700 * time.Millisecond, time.Second} {
			time.Sleep(rest)
			begun := time.Now()
			c := check.Got(leader.Campaign(w.Context(), b, fmt.Sprint("sound.", rest), leader.Config{}))(w)
			w.ok(c.Ready(w.Context()))
			for e := range c.Events(w.Context()) {
				if _, ok := e.(leader.Elected); ok {
					break
				}
			}
			d := time.Since(begun)
			check.That(w, d <= 50*time.Millisecond, "%v later, a sound candidate waits for %v", rest, d)
			w.ok(c.Stop())
		}
		denied := 0
		for _, c := range crowd {
			err := c.Stop() // a write may be in flight, whose denial nats.go does not tell
			check.That(w, err == nil || errors.Is(err, leader.ErrUnreachable), "%v", err)
			for e := range c.Events(w.Context()) {
				if f, ok := e.(leader.Faulted); ok && errors.Is(f.Err, leader.ErrPermission) {
					denied++
				}
			}
		}
		check.That(w, denied != 0, "none reports the permission") // nats.go keeps one error of all
	})
}

// A candidate that may not create the roster creates no bucket. It tries less and less often: each
// try is a violation that the application's error handler gets. It reports one fault.
func TestEnsure_DeniedTriesSlowDown(t *testing.T) {
	bubbleOf(t, denying("$JS.API.STREAM.CREATE.KV_E_roster"), func(w *world) {
		var violations atomic.Int32
		cl := w.dial("x", nats.UserInfo("x", "x"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) { violations.Add(1) }))
		c := w.standOn(cl, cl.ensured(w, leader.BucketConfig{Roster: true}), leader.Config{})
		w.at(time.Hour)
		if n := violations.Load(); n < 200 || n > 260 { // a wait of 15 s for each, after the first few
			w.Errorf("%d violations in an hour", n)
		}
		check.Equal(w, w.streams(), "", "there are %s without the roster")
		c.saw(w.T, "2.5s faulted permission")
		check.Equal(w, c.Stats().Faults[leader.ErrPermission], 1, "%d faults")
	})
}

// A thousand candidates that find no bucket at the same time create it with a few requests: those
// that have a slot when the first is answered. No candidate's time runs out in line.
func TestEnsure_CrowdSharesCreation(t *testing.T) {
	bubble(t, func(w *world) {
		var requests atomic.Int32
		check.Got(w.ops.nc.Subscribe("$JS.API.STREAM.CREATE.KV_E", func(*nats.Msg) { requests.Add(1) }))(w)
		w.ok(w.ops.nc.Flush())
		crowd := w.candidates(1000, w.dial("a").ensured(w, leader.BucketConfig{}), "e.")
		time.Sleep(time.Second)
		n := requests.Load()
		check.That(w, n >= 1 && n <= 16, "%d requests", n)
		for _, c := range crowd {
			check.That(w, c.IsLeader() && len(c.Stats().Faults) <= 0,
				"%s is %v, with the faults %v", c.Election(), c.State(), c.Stats().Faults)
			w.ok(c.Stop())
		}
	})
}
