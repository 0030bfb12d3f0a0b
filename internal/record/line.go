package record

import "strings"

// Line is the head of the order in which other candidates follow. It is a plain value:
// the sessions, separated by blanks. It is a hint, and may be of the past.
type Line string

// MaxLine is the greatest number of sessions in a line. Every renewal carries them. The
// candidates that are not among them follow after them.
const MaxLine = 8

// LineOf returns the line of the first of these sessions.
func LineOf(sessions []string) Line {
	return Line(strings.Join(sessions[:min(len(sessions), MaxLine)], " "))
}

// unfitForLine reports whether a session would be taken for none, or for two, or would
// fill the records of all holders that follow.
func unfitForLine(session string) bool {
	return session == "" || len(session) > maxSession || strings.Contains(session, " ") || !plain(session)
}

const maxSession = 64

func (l Line) sessions() []string {
	if l == "" {
		return nil
	}
	return strings.Split(string(l), " ")
}

// First returns the session that follows next, or an empty string.
func (l Line) First() string {
	first, _, _ := strings.Cut(string(l), " ")
	return first
}

// Place returns the number of sessions before this one, and whether it is in line itself.
func (l Line) Place(session string) (ahead int, in bool) {
	rest := string(l)
	for rest != "" {
		var next string
		next, rest, _ = strings.Cut(rest, " ")
		if next == session {
			return ahead, true
		}
		ahead++
	}
	return ahead, false
}

// Without returns the line after the session has left it.
func (l Line) Without(session string) Line {
	if _, in := l.Place(session); !in {
		return l
	}
	var left []string
	for _, s := range l.sessions() {
		if s != session {
			left = append(left, s)
		}
	}
	return Line(strings.Join(left, " "))
}
