package main

import (
	"bytes"
	"io"
	"strings"
)

// operator answers one question at a terminal. Something else happens before that.
type operator struct {
	meanwhile func()
	answer    string
	screen    io.Writer
}

func (operator) answersQuestions() {}

func (o operator) Read(b []byte) (int, error) {
	if o.meanwhile != nil {
		o.meanwhile()
	}
	n := copy(b, o.answer+"\n")
	return o.screen.Write(b[:n]) // the terminal shows it
}

// answers is prompt at a terminal, for a command that asks a question.
func (w *world) answers(line, answer string, meanwhile func()) {
	var screen bytes.Buffer
	process := stdio{stdin: operator{meanwhile, answer, &screen}, stdout: &screen, stderr: &screen, dial: w.inProcess()}
	code := execute(strings.Fields(line), process)
	w.notef("$ natsleader %s\n%s", line, screen.String())
	w.ended(code)
}
