package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"
	"golang.org/x/term"
)

// webListener is where a command serves.
type webListener interface{ net.Listener }

// stdio is what a command has of the process around it. A field that is not set is the
// process's own. Commands that supervise use the process's own always.
type stdio struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	dial           []nats.Option                 // of each connection, after all others: tests connect to a server in their process
	life           context.Context               // whose end interrupts a command, in place of a signal
	synced         func() (bool, error)          // reports whether the clock of the host is synchronised
	listener       func(flag string) webListener // on which a command serves, in place of the address of a flag
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

func (s stdio) in() io.Reader   { return cmp.Or[io.Reader](s.stdin, os.Stdin) }
func (s stdio) out() io.Writer  { return cmp.Or[io.Writer](s.stdout, os.Stdout) }
func (s stdio) errs() io.Writer { return cmp.Or[io.Writer](s.stderr, os.Stderr) }

// answering is a standard input that is no file and answers questions.
type answering interface{ answersQuestions() }

// canAsk reports whether an operator can answer a question.
func (s stdio) canAsk() bool {
	switch in := s.in().(type) {
	case *os.File:
		return term.IsTerminal(int(in.Fd()))
	case answering:
		return true
	}
	return false
}

// words is where a command explains itself and asks: beside the JSON, if it prints any.
type words struct {
	in io.Reader
	w  io.Writer
}

func (s stdio) wordsOf(asJSON bool) words {
	if asJSON {
		return words{s.in(), s.errs()}
	}
	return words{s.in(), s.out()}
}

// say prints a line. A reader that has gone away does not end the command.
func (w words) say(format string, args ...any) { _, _ = fmt.Fprintf(w.w, format+"\n", args...) }

// confirm asks the operator a question whose default answer is no, unless --yes was given. After that answer it
// returns an error with the text otherwise.
func (w words) confirm(yes bool, question, otherwise string) error {
	if yes {
		return nil
	}
	_, _ = fmt.Fprintf(w.w, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(w.in).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return exitf(exitFailed, "%s", otherwise)
}
