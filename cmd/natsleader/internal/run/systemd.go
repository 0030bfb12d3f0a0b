//go:build unix

package run

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/natsleader/natsleader/internal/plain"
	"github.com/natsleader/natsleader/leader"
)

// With --stall the command finds the environment of sd_notify(3) and sd_watchdog_enabled(3), and gives
// its signs of life as a service of systemd does. Each is a sign that the work of the term goes on.

// signSocket is the name of the socket, in the directory of the lease file.
const signSocket = "notify"

// listenForSigns opens the socket.
func listenForSigns(dir string) (*net.UnixConn, error) {
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, signSocket), Net: "unixgram"})
	if err != nil {
		err = fmt.Errorf("no socket for the signs of life of the command (--stall), set TMPDIR: %w", err)
	}
	return socket, err
}

// signsOn returns the channel on which the signs of life arrive that the socket receives.
func signsOn(socket *net.UnixConn) <-chan struct{} {
	signs := make(chan struct{}, 1)
	go func() {
		message := make([]byte, 4096)
		for {
			n, err := socket.Read(message)
			if err != nil {
				return
			}
			if isSign(string(message[:n])) {
				select {
				case signs <- struct{}{}:
				default:
				}
			}
		}
	}()
	return signs
}

// isSign reports whether a message has the line of a sign of life.
func isSign(message string) bool { return slices.Contains(strings.Split(message, "\n"), signOfLife) }

// needsNoSign reports whether no command is there that could give signs of life while it leads.
func (c *runLoop) needsNoSign() bool {
	return c.signs != nil && c.term != nil && (c.current == nil || !c.current.begun || c.current.ending)
}

// sign shows the candidate that the work of its term goes on.
func (c *runLoop) sign() {
	if c.term != nil {
		_ = leader.Err(c.term.Context())
	}
}

// serviceManager tells systemd, or another service manager with the protocol of sd_notify(3), that
// this process is ready, its state in words, and that it is alive. nil: none asks.
type serviceManager struct {
	socket *net.UnixConn
	said   chan string
	pings  chan *leader.Candidate // the run loop answers each with its candidate, which may be nil
	every  time.Duration          // between two signs of life; 0: none is wanted
}

// The environment of sd_notify(3) and sd_watchdog_enabled(3). The command gets
// none of it but by --stall.
const (
	NotifySocket = "NOTIFY_SOCKET"
	WatchdogTime = "WATCHDOG_USEC"
	watchdogPID  = "WATCHDOG_PID"
	signOfLife   = "WATCHDOG=1"
)

// newServiceManager returns nil where no service manager asks.
func newServiceManager() *serviceManager {
	address, usec, pid := os.Getenv(NotifySocket), os.Getenv(WatchdogTime), os.Getenv(watchdogPID)
	for _, name := range []string{NotifySocket, WatchdogTime, watchdogPID} {
		_ = os.Unsetenv(name)
	}
	if address == "" {
		return nil
	}
	socket, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		return nil // what does not listen is not waiting
	}
	m := &serviceManager{socket: socket, said: make(chan string, 16), pings: make(chan *leader.Candidate), every: signsOfLife(usec, pid)}
	go m.run()
	return m
}

// signsOfLife returns the time between two signs of life: half of what the manager allows, or 0 where
// it wants none of this process.
func signsOfLife(usec, pid string) time.Duration {
	n, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || n <= 0 || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	return time.Duration(min(n, int64(time.Hour/time.Microsecond))) * time.Microsecond / 2
}

// say sends a message soon. It never blocks: of many at once some are lost.
func (m *serviceManager) say(message string) {
	if m == nil {
		return
	}
	select {
	case m.said <- message:
	default:
	}
}

// status sends a state in words. What others have named may not add a line to the message.
func (m *serviceManager) status(text string) {
	m.say("STATUS=" + plain.Text(text))
}

// pinged returns the channel on which the run loop shows that it works.
func (m *serviceManager) pinged() chan<- *leader.Candidate {
	if m == nil {
		return nil
	}
	return m.pings
}

// run sends messages for as long as the process lives.
func (m *serviceManager) run() {
	var tick <-chan time.Time
	if m.every > 0 {
		tick = time.Tick(max(m.every, time.Millisecond))
	}
	for {
		select {
		case message := <-m.said:
			m.send(message)
		case <-tick:
			if m.alive() {
				m.send(signOfLife)
			}
		}
	}
}

// send gives up soon where the manager reads nothing.
func (m *serviceManager) send(message string) {
	_ = m.socket.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = m.socket.Write([]byte(message))
}

// alive reports whether the run loop and the candidate's goroutine answer.
func (m *serviceManager) alive() bool {
	select {
	case c := <-m.pings:
		if c == nil {
			return true // it connects
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return c.Ping(ctx) == nil
	case <-time.After(m.every):
		return false
	}
}
