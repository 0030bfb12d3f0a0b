package view

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	expect "github.com/natsleader/natsleader/internal/check"
)

// A source that was silent is opened anew before it is up to date again, and is silent while that fails.
func TestPulse_OpensAgain(t *testing.T) {
	p := newPulse(nil, textLines{LineLog: front.NewLineLog(io.Discard, "", front.LogText)})
	opened := 0
	hear := func(err, fails error) {
		p.heard(t.Context(), err, func(context.Context) error { opened++; return fails })
	}
	for _, step := range []struct {
		err, fails error
		opened     int
		troubled   bool
	}{
		{nil, nil, 0, false},
		{errors.New("no answer"), nil, 0, true},
		{nil, errors.New("it cannot be opened"), 1, true},
		{nil, nil, 2, false},
		{nil, nil, 2, false},
	} {
		hear(step.err, step.fails)
		expect.Equal(t, opened, step.opened, "it was opened %d times")
		expect.Equal(t, p.Troubled, step.troubled, "in trouble: %v")
	}
}
