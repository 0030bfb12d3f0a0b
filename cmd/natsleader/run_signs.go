//go:build unix

package main

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

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
