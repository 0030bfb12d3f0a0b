package run

import (
	"os"
	"os/signal"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// A sign of life needs the run loop, and its candidate as soon as there is one.
func TestServiceManager_Alive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &serviceManager{said: make(chan string, 1), pings: make(chan *leader.Candidate), every: 5 * time.Second}
		begun := time.Now()
		expect.That(t, !m.alive() && time.Since(begun) == m.every, "without a run loop, after %v", time.Since(begun))
		link := leadertest.NewStore(nil).Link("a")
		c := expect.Got(leader.Campaign(t.Context(), link, "jobs", leader.Config{ID: "a"}))(t)
		for _, candidate := range []*leader.Candidate{nil, c} {
			go func() { m.pinged() <- candidate }()
			expect.That(t, m.alive(), "it does not live with %v", candidate)
		}
		link.Close()
		<-c.Done()
		go func() { m.pinged() <- c }()
		expect.That(t, !m.alive(), "it lives with a candidate that has ended")
	})
}

// Of too many messages to a manager that reads none, some are lost. A text that others have chosen
// stays one line.
func TestServiceManager_NeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a send blocks
		m := &serviceManager{said: make(chan string, 1)}
		m.status("a\nWATCHDOG=1")
		m.status("lost")
		expect.Equal(t, <-m.said, `STATUS=a\nWATCHDOG=1`, "%q")
	})
	var none *serviceManager
	none.say("nobody asks")
	expect.That(t, none.pinged() == nil, "nobody pings")
}

// A signal that the parent has set to be ignored stays so.
func TestCatch_LeavesIgnoredSignals(t *testing.T) {
	signal.Ignore(unix.SIGWINCH)
	defer signal.Reset(unix.SIGWINCH)
	all := make(chan os.Signal, 2)
	catch(all, unix.SIGWINCH, unix.SIGURG)
	defer signal.Stop(all)
	expect.That(t, signal.Ignored(unix.SIGWINCH) && !signal.Ignored(unix.SIGURG), "an ignored signal is caught")
}

// A signal is given by its name or its number.
func TestParseSignal(t *testing.T) {
	for text, want := range map[string]unix.Signal{"usr1": unix.SIGUSR1, "SIGTERM": unix.SIGTERM, " 9 ": unix.SIGKILL, "64": 64, "1": unix.SIGHUP} {
		got, err := parseSignal(text)
		expect.That(t, err == nil && got == want, "%q: %v, %v", text, got, err)
	}
	for _, text := range []string{"", "0", "65", "-1", "1x", "NONE"} {
		got, err := parseSignal(text)
		expect.That(t, front.CodeOf(err) == front.ExitUsage, "%q: %v, %v", text, got, err)
	}
}
