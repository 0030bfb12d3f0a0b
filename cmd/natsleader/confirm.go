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

// confirmed asks the operator a question whose default answer is no.
func confirmed(w io.Writer, question string) bool {
	fmt.Fprintf(w, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
}

// forPeople is where a command prints its words: beside the JSON, if it prints any.
func forPeople(asJSON bool) io.Writer {
	if asJSON {
		return os.Stderr
	}
	return os.Stdout
}
