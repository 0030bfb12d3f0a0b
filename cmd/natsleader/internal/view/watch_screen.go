package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
)

// view is what a terminal shows.
type view struct {
	title   string
	at      time.Time
	trouble string // why the view may be out of date, in short; empty: it is not
	why     string
	summary front.Line
	head    []string
	rows    []front.TableRow
	total   int // rows without the filter
	narrow  []narrowing
	recent  [][]string // changes: the time, the name and the event, the newest first
}

// narrowing makes a table narrower: it cuts a column to so many cells, 0 removes it.
type narrowing struct{ column, to int }

// screen is a terminal, and what the user has chosen.
type screen struct {
	width, height int
	filter        string
	editing       bool // the user types the filter
	help          bool // the last line names all keys
	offset        int  // the rows that are scrolled out at the top
}

// draw returns the lines of a terminal, at most its height, none wider than it. Nothing
// but the view and the screen has an influence.
func (v view) draw(on screen) []front.Line {
	lines := append(v.heading(on.width), nil)
	lines = append(lines, v.table(on)...)
	if left := on.height - len(lines) - footer; len(v.recent) > 0 && left > recentHead {
		lines = append(lines, nil, front.Line{{Text: "Recent changes", Style: front.StyleStrong}})
		lines = append(lines, recentLines(v.recent[:min(len(v.recent), left-recentHead)])...)
	}
	lines = lines[:max(0, min(len(lines), on.height-footer))]
	for len(lines) < on.height-footer {
		lines = append(lines, nil)
	}
	if on.height > 0 {
		lines = append(lines, v.footer(on))
	}
	for i := range lines {
		lines[i] = lines[i].Cut(on.width)
	}
	return lines
}

const (
	footer     = 1
	recentHead = 2 // with the line above
)

// room returns how many lines there are for the rows of the table.
func (v view) room(on screen) int {
	const tableHead, worthwhile = 2, 9 // with the line above
	room := on.height - len(v.heading(on.width)) - tableHead - footer
	if len(v.recent) > 0 && room >= worthwhile {
		room -= recentHead + min(len(v.recent), room/3)
	}
	return max(0, room)
}

// lastOffset returns the offset that shows the last row.
func (v view) lastOffset(on screen) int {
	if most := v.room(on); len(v.rows) > most {
		return len(v.rows) - max(0, most-1)
	}
	return 0
}

// heading has the title, the summary, and the trouble. The time is beside the title or the
// summary, where there is room for it.
func (v view) heading(width int) []front.Line {
	lines := []front.Line{{{Text: v.title, Style: front.StyleStrong}}}
	if v.trouble != "" {
		lines = append(lines, front.Line{{Text: v.trouble, Style: front.StyleAlarm}}, front.Line{{Text: v.why, Style: front.StyleBad}})
	}
	if v.summary != nil {
		lines = append(lines, v.summary)
	}
	for _, i := range []int{0, len(lines) - 1} {
		for _, at := range []string{front.FormatZoned(v.at), v.at.Local().Format("15:04:05 MST")} {
			if gap := width - lines[i].Cells() - front.Cells(at); gap >= front.Between {
				lines[i] = append(slices.Clip(lines[i]), front.Styled{Text: strings.Repeat(" ", gap) + at, Style: front.StyleDim})
				return lines
			}
		}
	}
	return lines
}

// table returns the head, the rows that fit, and a line about the rows that do not.
func (v view) table(on screen) []front.Line {
	rows, offset := v.rows, 0
	if most := v.room(on); len(rows) > most {
		offset = min(on.offset, v.lastOffset(on))
		rows = rows[offset : offset+max(0, most-1)]
	}
	table := [][]string{slices.Clone(v.head)}
	for _, r := range rows {
		table = append(table, slices.Clone(r.Cells))
	}
	widths := v.fit(table, on.width)
	lines := make([]front.Line, len(table))
	for i, cells := range table {
		r := front.TableRow{Style: front.StyleDim}
		if i > 0 {
			r = rows[i-1]
		}
		lines[i] = r.Line(cells, widths)
	}
	if below := len(v.rows) - len(rows) - offset; offset > 0 {
		lines = append(lines, front.Line{{Text: fmt.Sprintf("… %d above and %d more", offset, below), Style: front.StyleDim}})
	} else if below > 0 {
		lines = append(lines, front.Line{{Text: fmt.Sprintf("… and %d more", below), Style: front.StyleDim}})
	}
	return lines
}

// fit cuts and removes columns until the table is not wider than so many cells. It returns
// the widths of the columns, -1 for one that is removed.
func (v view) fit(table [][]string, width int) []int {
	widths := front.Widest(table)
	over := func() int {
		sum := -front.Between - width
		for _, w := range widths {
			if w >= 0 {
				sum += w + front.Between
			}
		}
		return sum
	}
	for _, n := range v.narrow {
		excess := over()
		if excess <= 0 {
			break
		}
		w := &widths[n.column]
		switch {
		case *w < 0:
		case n.to == 0:
			*w = -1
		default:
			*w = min(*w, max(n.to, *w-excess))
		}
	}
	return widths
}

func recentLines(changes [][]string) []front.Line {
	when, name := 0, 0
	for _, c := range changes {
		when, name = max(when, front.Cells(c[0])), max(name, front.Cells(c[1]))
	}
	name = min(name, 20)
	lines := make([]front.Line, len(changes))
	for i, c := range changes {
		pad := func(s string, to int) string { return s + strings.Repeat(" ", max(0, to-front.Cells(s))+front.Between) }
		lines[i] = front.Line{{Text: pad(c[0], when), Style: front.StyleDim}, {Text: pad(front.Shorten(c[1], name), name), Style: front.StylePlain}, {Text: c[2], Style: front.StylePlain}}
	}
	return lines
}

// footer names the keys, or shows the filter.
func (v view) footer(on screen) front.Line {
	switch {
	case on.editing:
		return front.Line{{Text: "/" + front.Printable(on.filter), Style: front.StyleStrong}, {Text: "█", Style: front.StylePlain}, {Text: "  Enter keeps it, Esc removes it", Style: front.StyleDim}}
	case on.filter != "":
		return front.Line{
			{Text: "/" + front.Printable(on.filter), Style: front.StyleStrong},
			{Text: fmt.Sprintf("  %d of %d", len(v.rows), v.total), Style: front.StylePlain},
			{Text: "  Esc removes the filter  q quits", Style: front.StyleDim},
		}
	}
	if on.help {
		return front.Line{{Text: "q quits  / filters  ↑↓ j k a line  PgUp PgDn half a screen  g Home first  G End last", Style: front.StyleDim}}
	}
	return front.Line{{Text: "q quits  / filters  ↑↓ scroll  ? all keys", Style: front.StyleDim}}
}
