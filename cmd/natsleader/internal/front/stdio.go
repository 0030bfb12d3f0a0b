package front

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

// WebListener is where a command serves.
type WebListener interface{ net.Listener }

// Stdio is what a command has of the process around it. A field that is not set is the
// process's own. Commands that supervise use the process's own always.
type Stdio struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Dial           []nats.Option                 // of each connection, after all others: tests connect to a server in their process
	Life           context.Context               // whose end interrupts a command, in place of a signal
	Synced         func() (bool, error)          // reports whether the clock of the host is synchronised
	Listener       func(flag string) WebListener // on which a command serves, in place of the address of a flag
}

// ClockSynced reports whether something keeps the clock of the host synchronised.
func (s Stdio) ClockSynced() (bool, error) {
	if s.Synced == nil {
		return hostSync()
	}
	return s.Synced()
}

// Width is that of the terminal to which the output goes, and 0 if it goes elsewhere.
func (s Stdio) Width() int {
	if f, ok := s.Out().(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// UntilInterrupted returns a context that ends with SIGINT or SIGTERM.
func (s Stdio) UntilInterrupted() (context.Context, context.CancelFunc) {
	if s.Life != nil {
		return context.WithCancel(s.Life)
	}
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

func (s Stdio) in() io.Reader { return cmp.Or[io.Reader](s.Stdin, os.Stdin) }

// Out is the standard output.
func (s Stdio) Out() io.Writer { return cmp.Or[io.Writer](s.Stdout, os.Stdout) }

// Errs is the standard error.
func (s Stdio) Errs() io.Writer { return cmp.Or[io.Writer](s.Stderr, os.Stderr) }

// answering is a standard input that is no file and answers questions.
type answering interface{ AnswersQuestions() }

// CanAsk reports whether an operator can answer a question.
func (s Stdio) CanAsk() bool {
	switch in := s.in().(type) {
	case *os.File:
		return term.IsTerminal(int(in.Fd()))
	case answering:
		return true
	}
	return false
}

// Words is where a command explains itself and asks: beside the JSON, if it prints any.
type Words struct {
	in io.Reader
	w  io.Writer
}

// WordsOf returns where a command explains itself.
func (s Stdio) WordsOf(asJSON bool) Words {
	if asJSON {
		return Words{s.in(), s.Errs()}
	}
	return Words{s.in(), s.Out()}
}

// Say prints a line. A reader that has gone away does not end the command.
func (w Words) Say(format string, args ...any) { _, _ = fmt.Fprintf(w.w, format+"\n", args...) }

// Confirm asks the operator a question whose default answer is no, unless --yes was given. After that answer it
// returns an error with the text otherwise.
func (w Words) Confirm(yes bool, question, otherwise string) error {
	if yes {
		return nil
	}
	_, _ = fmt.Fprintf(w.w, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(w.in).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return Exitf(ExitFailed, "%s", otherwise)
}
