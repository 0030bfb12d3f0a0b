package main

import (
	"bytes"
	"io"
	"strings"

	"github.com/nats-io/nats.go"
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
	code := execute(strings.Fields(line), stdio{
		stdin: operator{meanwhile, answer, &screen}, stdout: &screen, stderr: &screen,
		dial: []nats.Option{nats.InProcessServer(w.s)},
	})
	w.notef("$ natsleader %s\n%s", line, tokens.ReplaceAllString(screen.String(), "TOKEN"))
	if code != 0 {
		w.notef("[exit code %d]\n", code)
	}
}
