//go:build field && linux

package main

import (
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/run"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// notifications receives what a service is expected to send.
type notifications struct {
	*testing.T
	socket *net.UnixConn
}

func newNotifications(t *testing.T) (n notifications, address string) {
	t.Helper()
	address = filepath.Join(t.TempDir(), "notify")
	socket := expect.Got(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"}))(t)
	t.Cleanup(func() { _ = socket.Close() })
	return notifications{t, socket}, address
}

// next returns the next message.
func (n notifications) next() string {
	n.Helper()
	b := make([]byte, 1000)
	_ = n.socket.SetReadDeadline(time.Now().Add(testworld.Patience))
	k := expect.Got(n.socket.Read(b))(n.T)
	return string(b[:k])
}

// await returns when a message matches.
func (n notifications) await(pattern string) {
	n.Helper()
	for limit := time.Now().Add(testworld.Patience); !regexp.MustCompile(pattern).MatchString(n.next()); {
		expect.Must(n.T, !time.Now().After(limit), "no %s", pattern)
	}
}

// A service with Type=notify is ready when it stands, shows its state, and gives signs of life. The
// command does not get the variables of systemd.
func TestRun_NotifiesSystemd(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{})
	n, address := newNotifications(t)
	cmd := natsleader(t, "run", "jobs", "--id", "a", "-s", s.ClientURL(), "--shell", "--", `echo "environment: $NOTIFY_SOCKET$WATCHDOG_USEC$WATCHDOG_PID."; exec sleep 1000`)
	cmd.Env = append(cmd.Environ(), run.NotifySocket+"="+address, run.WatchdogTime+"=200000")
	out := started(t, cmd)
	n.await(`^READY=1\nSTATUS=stands in jobs$`)
	n.await(`^STATUS=leads jobs with token \d+$`)
	n.await(`^WATCHDOG=1$`)
	n.await(`^WATCHDOG=1$`)
	testworld.Eventually(t, "the command has begun", func() bool { return strings.Contains(out.text(), "environment: .") })
	expect.OK(t, cmd.Process.Signal(unix.SIGTERM))
	n.await(`^STOPPING=1$`)
	code := endOf(t, cmd)
	expect.That(t, code == front.ExitSignal+int(unix.SIGTERM), "exit code %d", code)
}

// A command that gives signs of life goes on, also beside other messages, and while natsleader itself is stopped
// for a while. One that ceases to is ended, and another candidate leads.
func TestRun_Stall(t *testing.T) {
	s := newRunFixture(t, 0)
	const longer = 6 * time.Second // than the limit
	a := s.start("a", "--stall", "5s", "--drain", "1s", "--", "sh", "-c", `echo "signs: $WATCHDOG_USEC at $NOTIFY_SOCKET."; trap '' TERM; while :; do sleep 0.1; done`)
	asked := regexp.MustCompile(`signs: 5000000 at (\S+)\.\n`)
	testworld.Eventually(t, "the command has begun", func() bool { return asked.MatchString(a.text()) })
	socket := expect.Got(net.Dial("unixgram", asked.FindStringSubmatch(a.text())[1]))(t)
	defer func() { _ = socket.Close() }()
	works := func() (rests func()) { // from now on, whatever the test waits for
		quit, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				if _, err := socket.Write([]byte("STATUS=works\nWATCHDOG=1\n")); err != nil {
					t.Error(err)
				}
				select {
				case <-quit:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		}()
		return func() { close(quit); <-done }
	}
	rests := works()
	s.waits()
	time.Sleep(longer)
	rests()
	a.signal(unix.SIGSTOP)
	time.Sleep(longer)
	a.signal(unix.SIGCONT)
	rests = works()
	time.Sleep(longer)
	rests()
	expect.That(t, !strings.Contains(a.text(), "lost"), "a has said:\n%s", a.text())
	testworld.Eventually(t, "b leads", func() bool { return s.count("begin b ") == 1 })
	expect.That(t, strings.Contains(a.text(), "lost: the command has given no sign of life for 5s (--stall)"), "a has said:\n%s", a.text())
	a.noneLeft()
	a.terminated()
	left, _ := filepath.Glob(filepath.Join(a.cmd.Dir, "natsleader-*"))
	expect.That(t, len(left) == 0, "left behind: %v", left)
}

// With --retry-connect it is ready, and alive, before there is a server.
func TestRun_NotifiesUnconnected(t *testing.T) {
	t.Parallel()
	n, address := newNotifications(t)
	cmd := natsleader(t, "run", "jobs", "-s", "nats://127.0.0.1:1", "--retry-connect", "--", "true")
	cmd.Env = append(cmd.Environ(), run.NotifySocket+"="+address, run.WatchdogTime+"=200000")
	started(t, cmd)
	n.await(`^READY=1\nSTATUS=connecting$`)
	n.await(`^WATCHDOG=1$`)
	expect.OK(t, cmd.Process.Signal(unix.SIGTERM))
	code := endOf(t, cmd)
	expect.That(t, code == front.ExitSignal+int(unix.SIGTERM), "exit code %d", code)
}
