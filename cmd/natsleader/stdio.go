package main

import (
	"context"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/nats-io/nats.go"
	"golang.org/x/term"
)

// stdio is what a command has of the process around it. A field that is not set is the
// process's own. Commands that supervise use the process's own always.
type stdio struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	dial           []nats.Option        // of each connection, after all others: tests connect to a server in their process
	life           context.Context      // whose end interrupts a command, in place of a signal
	synced         func() (bool, error) // reports whether the clock of the host is synchronised
	listener       net.Listener         // on which a command serves, in place of its address
}

// clockSynced reports whether something keeps the clock of the host synchronised.
func (s stdio) clockSynced() (bool, error) {
	if s.synced == nil {
		return hostSync()
	}
	return s.synced()
}

// width is that of the terminal to which the output goes, and 0 if it goes elsewhere.
func (s stdio) width() int {
	if f, ok := s.out().(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// untilInterrupted returns a context that ends with SIGINT or SIGTERM.
func (s stdio) untilInterrupted() (context.Context, context.CancelFunc) {
	if s.life != nil {
		return context.WithCancel(s.life)
	}
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

func (s stdio) in() io.Reader {
	if s.stdin == nil {
		return os.Stdin
	}
	return s.stdin
}

func (s stdio) out() io.Writer {
	if s.stdout == nil {
		return os.Stdout
	}
	return s.stdout
}

func (s stdio) errs() io.Writer {
	if s.stderr == nil {
		return os.Stderr
	}
	return s.stderr
}
