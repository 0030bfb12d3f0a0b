package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// An attempt that fails leaves no connection: with --retry-connect there are many.
func TestConnect_FailedAttemptClosesConnection(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		in := func(bucket string) *front.Globals {
			g := w.Globals()
			g.Bucket = bucket
			return g
		}
		attempt := func(bucket string, s succession, want error) {
			w.Helper()
			s.seats = 1
			log := newRunLog(io.Discard, "jobs", front.LogText, false)
			c := &runLoop{run: &run{Globals: in(bucket), election: "jobs", succession: s}, log: log}
			defer c.log.close()
			_, _, err := c.attempt()
			expect.That(w.T, errors.Is(err, want), "%+v: %v, not %v", s, err, want)
		}
		attempt("nowhere", succession{kind: byRace}, leader.ErrNoBucket)
		attempt("elections", succession{kind: byRace, roster: true}, leader.ErrNoRoster)
		attempt("elections", succession{kind: byQueue}, leader.ErrNoRoster)
		attempt("elections", succession{kind: byPriority}, leader.ErrNoRoster)
		_, _, _, err := in("a b").Open()
		expect.That(w, err != nil, "a bucket of that name can be opened")
		if _, err := inspect.New(w.Context(), in("nowhere")); !errors.Is(err, leader.ErrNoBucket) {
			w.Errorf("no bucket: %v", err)
		}
		synctest.Wait()
		if n := w.S.NumClients(); n != 1 { // of the test itself
			w.Errorf("%d connections are open", n)
		}
	})
}

// A signal that ends a run, and the end of --wait, interrupt the connecting. Other signals do not.
func TestReach_Interrupted(t *testing.T) {
	reach := func(signals []os.Signal, waited bool) error {
		c := &runLoop{
			run: &run{Globals: testworld.GlobalsOf("nats://127.0.0.1:1", "none"), retryConnect: true, wait: time.Hour},
			log: newRunLog(io.Discard, "jobs", front.LogText, false),
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
	expect.That(t, front.CodeOf(err) == 128+2, "interrupted: %v", err)
	if err := reach(nil, true); front.CodeOf(err) != front.ExitWaited || !strings.HasPrefix(err.Error(), "not connected within 1h0m0s") {
		t.Errorf("--wait is over: %v", err)
	}
}

// away is a server that no connection reaches: at the first three attempts for one reason, then for another.
type away struct{ attempts []time.Time }

func (a *away) Dial(string, string) (net.Conn, error) {
	if a.attempts = append(a.attempts, time.Now()); len(a.attempts) > 3 {
		return nil, unix.EHOSTDOWN
	}
	return nil, unix.ECONNREFUSED
}

// The pauses between attempts grow to 5 s, half more or less, so that not all processes try at once. Each reason is logged once, and --wait ends
// with the last one.
func TestReach_TriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		g, server := testworld.GlobalsOf("nats://server", "elections"), new(away)
		g.Dial = []nats.Option{nats.SetCustomDialer(server), nats.SkipHostLookup()}
		c := &runLoop{
			run: &run{Globals: g, retryConnect: true, wait: time.Minute},
			log: newRunLog(&said, "jobs", front.LogText, false), waited: time.After(time.Minute),
		}
		_, _, err := c.reach()
		c.log.close()
		expect.Equal(t, fmt.Sprint(err), "not connected within 1m0s (--wait): cannot connect to nats://server: host is down", "%s")
		expect.Equal(t, front.CodeOf(err), front.ExitWaited, "exit code %d")
		pauses, exact := 0, 0
		for pause, i := 200*time.Millisecond, 1; i < len(server.attempts); pause, i = min(2*pause, 5*time.Second), i+1 {
			got := server.attempts[i].Sub(server.attempts[i-1])
			expect.That(t, pause/2 <= got && got < pause*3/2, "the pause before attempt %d is %v, and not about %v", i+1, got, pause)
			if pauses++; got == pause {
				exact++
			}
		}
		expect.That(t, pauses >= 12 && exact < pauses/2, "%d of %d pauses are exact", exact, pauses)
		expect.That(t, strings.Count(said.String(), "(--retry-connect)") == 2, "it has said:\n%s", &said)
	})
}
