package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// Work is awaited from the first loop on, and a candidate that has left its last loop is idle.
func TestWorkState_LoopsComeAndGo(t *testing.T) {
	var w workState
	w.begin(false)
	w.leave()
	check.That(t, w == (workState{}), "an application without loops: %+v", w)
	w.take(true)
	check.That(t, w == (workState{loops: true, awaited: true, going: true}), "a loop that finds a leader: %+v", w)
	if w.leave(); w != (workState{loops: true, idle: true, awaited: true, going: true}) || w.broken() != "" {
		t.Errorf("after the loop: %+v, %q", w, w.broken())
	}
	w.end()
	if w.take(false); w != (workState{loops: true, awaited: true}) || w.broken() != "" {
		t.Errorf("the next loop: %+v, %q", w, w.broken())
	}
}

func (w *workState) broken() string {
	switch {
	case w.idle && !w.loops:
		return "it is idle and never looped"
	case w.going && !w.awaited:
		return "work goes on, and nothing awaits its end"
	}
	return ""
}

// parseWork reads an input about the work of the application, and a stop, which may limit it.
func (s *script) parseWork(word string, rest []string) Input {
	s.t.Helper()
	switch word {
	case "stop":
		in := Input{Kind: InStop}
		if text, ok := strings.CutPrefix(strings.Join(rest, ""), "drain-by="); ok {
			by, err := time.ParseDuration(text)
			check.OK(s.t, err)
			in.Until = scriptOrigin.Add(by)
		}
		return in
	case "loop":
		return Input{Kind: InLoop}
	case "unloop":
		return Input{Kind: InNoLoop}
	}
	in := Input{Kind: InDrained, Term: s.m.term.number}
	if word == "worked" {
		in.Kind = InWorked
	}
	if strings.Join(rest, "") == "earlier" {
		in.Term--
	}
	return in
}
