package machine

import (
	"strings"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

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
	case "works":
		return Input{Kind: InTick, Works: true}
	case "stalled":
		return Input{Kind: InStalled}
	case "loop":
		return Input{Kind: InLoop}
	case "unloop":
		return Input{Kind: InNoLoop}
	}
	in := Input{Kind: InDrained, Term: s.m.term.number}
	if word == "worked" {
		in.Kind = InWorked
	}
	if of, ok := s.termOf(rest); ok {
		in.Term = of
	}
	return in
}

// termOf returns the number of the term that an input is for, if that is "this" or "earlier".
func (s *script) termOf(rest []string) (uint64, bool) {
	switch strings.Join(rest, "") {
	case "this":
		return s.m.term.number, true
	case "earlier":
		return s.m.term.number - 1, true
	}
	return 0, false
}
