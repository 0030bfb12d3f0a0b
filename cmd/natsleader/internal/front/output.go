package front

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"

	"github.com/natsleader/natsleader/internal/plain"
)

// Printable is what a terminal gets of the text of others.
func Printable(s string) string { return plain.Text(s) }

// Cells returns the width of a printable text on a terminal.
func Cells(s string) int {
	n := 0
	for _, r := range s {
		n += cellsOf(r)
	}
	return n
}

func cellsOf(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) { // drawn over what precedes it
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	case width.Neutral, width.EastAsianAmbiguous, width.EastAsianNarrow, width.EastAsianHalfwidth:
	}
	return 1
}

// Shorten cuts a text to so many cells at most.
func Shorten(s string, most int) string {
	if Cells(s) <= most {
		return s
	}
	room := most - 1
	for i, r := range s {
		if room -= cellsOf(r); room < 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// IsTerminal reports whether a writer is a terminal that understands escape sequences.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// Colourful reports whether a writer is a terminal that shows colours, and the user wants them.
func Colourful(w io.Writer) bool { return IsTerminal(w) && os.Getenv("NO_COLOR") == "" }

// PrintLines writes all lines in one call.
func PrintLines(w io.Writer, lines []string) error {
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// PrintJSON writes a value as JSON, indented or in one line. It escapes unprintable
// characters, because the output may also reach a terminal.
func PrintJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(plain.JSON(b.Bytes()))
	return err
}

// PrintResult prints a value for programs, or lines for people.
func PrintResult(w io.Writer, asJSON bool, v any, lines []string) error {
	if asJSON {
		return PrintJSON(w, v, "  ")
	}
	return PrintLines(w, lines)
}

// FormatTime formats a time for people, in the zone that a head names. In another one, as of the summer in winter, it
// has the offset: an hour that clocks have had twice is there in two of them.
func FormatTime(t time.Time) string {
	_, then := t.Local().Zone()
	if _, now := time.Now().Zone(); now != then {
		return t.Local().Format(ShownWithOffset)
	}
	return t.Local().Format(time.DateTime)
}

// ShownWithOffset is the layout of a time with its offset.
const ShownWithOffset = time.DateTime + " -07:00"

// InZone is what a head says of the zone in which times are shown.
func InZone(now time.Time) string { return " (" + now.Local().Format("MST") + ")" }

// FormatZoned formats a time for people, with the zone that it is shown in.
func FormatZoned(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }

// FormatRecent formats a time for people, without its date if it is on the same day as now.
func FormatRecent(t, now time.Time) string {
	const day = "2006-01-02"
	if t.Local().Format(day) == now.Local().Format(day) {
		return t.Local().Format("15:04:05")
	}
	return FormatTime(t)
}

// FormatAge formats the duration of a state for people.
func FormatAge(d time.Duration) string {
	d = max(0, d)
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < day:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", d/day, int(d.Hours())%24)
}

// Left formats the remaining time of a lease for people.
func Left(d time.Duration) string { return fmt.Sprintf("%.1fs", max(0, d).Seconds()) }

// YesNo is a switch in words.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
