package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// style is how a terminal draws a text.
type style int

const (
	stylePlain style = iota
	styleStrong
	styleGood
	styleWarn
	styleBad
	styleAlarm
	styleDim
)

// sgr returns the parameters that select the style on a terminal.
func (s style) sgr() string {
	return [...]string{stylePlain: "", styleStrong: "1", styleGood: "32", styleWarn: "33", styleBad: "1;31", styleAlarm: "1;37;41", styleDim: "2"}[s]
}

// styled is a text in one style, and a line is made of such texts.
type (
	styled struct {
		text  string
		style style
	}
	line []styled
)

func (l line) cells() int {
	n := 0
	for _, s := range l {
		n += cells(s.text)
	}
	return n
}

// cut cuts a line to so many cells.
func (l line) cut(width int) line {
	if l.cells() <= width {
		return l
	}
	var kept line
	for _, s := range l {
		n := cells(s.text)
		if n >= width { // the rest, or what is cut after it, ends with an ellipsis
			if width > 0 {
				kept = append(kept, styled{shorten(s.text+"…", width), s.style})
			}
			return kept
		}
		width -= n
		kept = append(kept, s)
	}
	return kept
}

// paint returns the line for a terminal.
func (l line) paint(colour bool) string {
	var b strings.Builder
	for _, s := range l {
		if sgr := s.style.sgr(); colour && sgr != "" && s.text != "" {
			b.WriteString("\x1b[" + sgr + "m" + s.text + "\x1b[0m")
		} else {
			b.WriteString(s.text)
		}
	}
	return b.String()
}

// view is what a terminal shows.
type view struct {
	title   string
	at      time.Time
	trouble string // why the view may be out of date, in short; empty: it is not
	why     string
	summary line
	head    []string
	rows    []tableRow
	total   int // rows without the filter
	narrow  []narrowing
	recent  [][]string // changes: the time, the name and the event, the newest first
}

// tableRow is a row of a table. A cell may have a style of its own.
type tableRow struct {
	cells  []string
	style  style
	marked int
	mark   style // of the cell marked
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
func (v view) draw(on screen) []line {
	lines := append(v.heading(on.width), nil)
	lines = append(lines, v.table(on)...)
	if left := on.height - len(lines) - footer; len(v.recent) > 0 && left > recentHead {
		lines = append(lines, nil, line{{"Recent changes", styleStrong}})
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
		lines[i] = lines[i].cut(on.width)
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
func (v view) heading(width int) []line {
	lines := []line{{{v.title, styleStrong}}}
	if v.trouble != "" {
		lines = append(lines, line{{v.trouble, styleAlarm}}, line{{v.why, styleBad}})
	}
	if v.summary != nil {
		lines = append(lines, v.summary)
	}
	for _, i := range []int{0, len(lines) - 1} {
		for _, at := range []string{formatZoned(v.at), v.at.Local().Format("15:04:05 MST")} {
			if gap := width - lines[i].cells() - cells(at); gap >= between {
				lines[i] = append(slices.Clip(lines[i]), styled{strings.Repeat(" ", gap) + at, styleDim})
				return lines
			}
		}
	}
	return lines
}

// table returns the head, the rows that fit, and a line about the rows that do not.
func (v view) table(on screen) []line {
	rows, offset := v.rows, 0
	if most := v.room(on); len(rows) > most {
		offset = min(on.offset, v.lastOffset(on))
		rows = rows[offset : offset+max(0, most-1)]
	}
	table := [][]string{slices.Clone(v.head)}
	for _, r := range rows {
		table = append(table, slices.Clone(r.cells))
	}
	widths := v.fit(table, on.width)
	lines := make([]line, len(table))
	for i, cells := range table {
		r := tableRow{style: styleDim}
		if i > 0 {
			r = rows[i-1]
		}
		lines[i] = r.line(cells, widths)
	}
	if below := len(v.rows) - len(rows) - offset; offset > 0 {
		lines = append(lines, line{{fmt.Sprintf("… %d above and %d more", offset, below), styleDim}})
	} else if below > 0 {
		lines = append(lines, line{{fmt.Sprintf("… and %d more", below), styleDim}})
	}
	return lines
}

const between = 2 // cells between two columns

// fit cuts and removes columns until the table is not wider than so many cells. It returns
// the widths of the columns, -1 for one that is removed.
func (v view) fit(table [][]string, width int) []int {
	widths := widest(table)
	over := func() int {
		sum := -between - width
		for _, w := range widths {
			if w >= 0 {
				sum += w + between
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

// line returns the row's cells, cut and padded to the widths of the columns.
func (r tableRow) line(texts []string, widths []int) line {
	var l line
	for i, text := range texts {
		if widths[i] < 0 {
			continue
		}
		text = shorten(text, widths[i])
		s := r.style
		if i == r.marked && r.mark != stylePlain {
			s = r.mark
		}
		l = append(l, styled{text, s}, styled{strings.Repeat(" ", max(0, widths[i]-cells(text))+between), stylePlain})
	}
	for len(l) > 0 && strings.TrimSpace(l[len(l)-1].text) == "" {
		l = l[:len(l)-1]
	}
	return l
}

func recentLines(changes [][]string) []line {
	when, name := 0, 0
	for _, c := range changes {
		when, name = max(when, cells(c[0])), max(name, cells(c[1]))
	}
	name = min(name, 20)
	lines := make([]line, len(changes))
	for i, c := range changes {
		pad := func(s string, to int) string { return s + strings.Repeat(" ", max(0, to-cells(s))+between) }
		lines[i] = line{{pad(c[0], when), styleDim}, {pad(shorten(c[1], name), name), stylePlain}, {c[2], stylePlain}}
	}
	return lines
}

// footer names the keys, or shows the filter.
func (v view) footer(on screen) line {
	switch {
	case on.editing:
		return line{{"/" + printable(on.filter), styleStrong}, {"█", stylePlain}, {"  Enter keeps it, Esc removes it", styleDim}}
	case on.filter != "":
		return line{
			{"/" + printable(on.filter), styleStrong},
			{fmt.Sprintf("  %d of %d", len(v.rows), v.total), stylePlain},
			{"  Esc removes the filter  q quits", styleDim},
		}
	}
	if on.help {
		return line{{"q quits  / filters  ↑↓ j k a line  PgUp PgDn half a screen  g Home first  G End last", styleDim}}
	}
	return line{{"q quits  / filters  ↑↓ scroll  ? all keys", styleDim}}
}
