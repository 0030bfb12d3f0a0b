// Package timeline prints the output of the examples: one line for each event,
// coloured on a terminal.
package timeline

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Style is how text looks on a terminal (ECMA-48, SGR).
type Style string

// The styles.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Good   Style = "1;32"
	Mild   Style = "32"
	Wait   Style = "36"
	Warn   Style = "33"
	Bad    Style = "31"
	Alarm  Style = "1;37;41"
	Strike Style = "1;35" // of other verbs in capitals: faults and requests
)

// verbs are the styles of events.
var verbs = map[string]Style{
	"elected":   Good,
	"goes on":   Mild,
	"pending":   Wait,
	"fenced":    Warn,
	"deposed":   Warn,
	"refused":   Bad,
	"faulted":   Bad,
	"observed":  Dim,
	"VIOLATION": Alarm,
}

// Timeline prints lines in the order in which Say is called, from anywhere.
type Timeline struct {
	mu     sync.Mutex
	w      io.Writer
	colour bool
	start  time.Time
}

// New returns a timeline that begins now.
func New(w io.Writer, colour bool) *Timeline {
	return &Timeline{w: w, colour: colour, start: time.Now()}
}

// Coloured reports whether w is a terminal that wants colours (no-color.org).
func Coloured(w io.Writer, getenv func(string) string) bool {
	f, ok := w.(*os.File)
	if !ok || getenv("NO_COLOR") != "" || getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Begin sets the clock to zero and prints the headings of the columns.
func (tl *Timeline) Begin() {
	tl.mu.Lock()
	defer tl.mu.Unlock()
	tl.start = time.Now()
	tl.line(Dim, fmt.Sprintf("%8s  %-9s  %s", "time", "who", "what"))
}

// Say prints an event of one actor.
func (tl *Timeline) Say(who, verb, format string, args ...any) {
	tl.mu.Lock()
	defer tl.mu.Unlock()
	style, known := verbs[verb]
	if !known && verb == strings.ToUpper(verb) {
		style = Strike
	}
	tl.line(Plain, fmt.Sprintf("%s  %-9s  %s  %s",
		tl.paint(Dim, fmt.Sprintf("%8.3f", time.Since(tl.start).Seconds())), who,
		tl.paint(style, fmt.Sprintf("%-9s", verb)), fmt.Sprintf(format, args...)))
}

// Line prints a line without a time.
func (tl *Timeline) Line(style Style, format string, args ...any) {
	tl.mu.Lock()
	defer tl.mu.Unlock()
	tl.line(style, fmt.Sprintf(format, args...))
}

// line prints a line. The lock is held.
func (tl *Timeline) line(style Style, text string) {
	_, _ = fmt.Fprintln(tl.w, tl.paint(style, strings.TrimRight(text, " ")))
}

func (tl *Timeline) paint(style Style, text string) string {
	if !tl.colour || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// Seconds formats a duration for a timeline.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// Reason returns the text of an error without the name of package leader.
func Reason(err error) string { return strings.TrimPrefix(err.Error(), "leader: ") }
