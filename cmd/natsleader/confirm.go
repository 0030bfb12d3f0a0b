package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

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
