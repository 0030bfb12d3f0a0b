package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// canAsk reports whether an operator can answer a question.
func canAsk() bool { return term.IsTerminal(int(os.Stdin.Fd())) }

// words is where a command explains itself and asks: beside the JSON, if it prints any.
type words struct{ w io.Writer }

func wordsOf(asJSON bool) words {
	if asJSON {
		return words{os.Stderr}
	}
	return words{os.Stdout}
}

// say prints a line. A reader that has gone away does not end the command.
func (w words) say(format string, args ...any) { _, _ = fmt.Fprintf(w.w, format+"\n", args...) }

// confirmed asks the operator a question whose default answer is no.
func (w words) confirmed(question string) bool {
	_, _ = fmt.Fprintf(w.w, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
}
