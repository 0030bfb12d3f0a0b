package main

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// An attempt that fails leaves no connection: with --retry-connect there are many.
func TestConnect_FailedAttemptClosesConnection(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		in := func(bucket string) *globals {
			g := w.globals()
			g.bucket = bucket
			return g
		}
		attempt := func(bucket string, s succession, want error) {
			w.Helper()
			s.seats = 1
			log := newRunLog(new(lockedText), "jobs", logText, false)
			c := &runLoop{run: &run{globals: in(bucket), election: "jobs", succession: s}, log: log}
			defer c.log.close()
			_, _, err := c.attempt()
			expect.That(w.T, errors.Is(err, want), "%+v: %v, not %v", s, err, want)
		}
		attempt("nowhere", succession{kind: byRace}, leader.ErrNoBucket)
		attempt("elections", succession{kind: byRace, roster: true}, leader.ErrNoRoster)
		attempt("elections", succession{kind: byQueue}, leader.ErrNoRoster)
		attempt("elections", succession{kind: byPriority}, leader.ErrNoRoster)
		_, _, _, err := in("a b").open()
		expect.That(w, err != nil, "a bucket of that name can be opened")
		if _, err := in("nowhere").newInspector(w.Context()); !errors.Is(err, leader.ErrNoBucket) {
			w.Errorf("no bucket: %v", err)
		}
		synctest.Wait()
		if n := w.s.NumClients(); n != 1 { // of the test itself
			w.Errorf("%d connections are open", n)
		}
	})
}

// A signal that ends a run, and the end of --wait, interrupt the connecting. Other signals do not.
func TestReach_Interrupted(t *testing.T) {
	reach := func(signals []os.Signal, waited bool) error {
		c := &runLoop{
			run: &run{globals: globalsOf("nats://127.0.0.1:1", "none"), retryConnect: true, wait: time.Hour},
			log: newRunLog(new(lockedText), "jobs", logText, false),
		}
		defer c.log.close()
		all := make(chan os.Signal, len(signals))
		for _, sig := range signals {
			all <- sig
		}
		c.signals = all
		if waited {
			over := make(chan time.Time)
			close(over)
			c.waited = over
		}
		_, _, err := c.reach()
		return err
	}
	err := reach([]os.Signal{unix.SIGUSR1, unix.SIGWINCH, unix.SIGINT}, false)
	expect.That(t, codeOf(err) == 128+2, "interrupted: %v", err)
	if err := reach(nil, true); codeOf(err) != exitWaited || !strings.HasPrefix(err.Error(), "not connected within --wait 1h0m0s") {
		t.Errorf("--wait is over: %v", err)
	}
}
