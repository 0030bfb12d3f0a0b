package front

import "strings"

// Columns aligns the cells of rows.
func Columns(rows [][]string) []string {
	widths := Widest(rows)
	lines := make([]string, len(rows))
	for i, row := range rows {
		lines[i] = strings.TrimRight(TableRow{}.Line(row, widths).Paint(false), " ")
	}
	return lines
}

// Widest returns the widths of the columns.
func Widest(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		widths = append(widths, make([]int, max(0, len(row)-len(widths)))...)
		for i, cell := range row {
			widths[i] = max(widths[i], Cells(cell))
		}
	}
	return widths
}

// Style is how a terminal draws a text.
type Style int

// The styles.
const (
	StylePlain Style = iota
	StyleStrong
	StyleGood
	StyleWarn
	StyleBad
	StyleAlarm
	StyleDim
)

// sgr returns the parameters that select the style on a terminal.
func (s Style) sgr() string {
	return [...]string{StylePlain: "", StyleStrong: "1", StyleGood: "32", StyleWarn: "33", StyleBad: "1;31", StyleAlarm: "1;37;41", StyleDim: "2"}[s]
}

type (
	// Styled is a text in one style, and a line is made of such texts.
	Styled struct {
		Text  string
		Style Style
	}
	// Line is several.
	Line []Styled
)

// Cells returns the width on a terminal.
func (l Line) Cells() int {
	n := 0
	for _, s := range l {
		n += Cells(s.Text)
	}
	return n
}

// Cut cuts a line to so many cells.
func (l Line) Cut(width int) Line {
	if l.Cells() <= width {
		return l
	}
	var kept Line
	for _, s := range l {
		n := Cells(s.Text)
		if n >= width { // the rest, or what is cut after it, ends with an ellipsis
			if width > 0 {
				kept = append(kept, Styled{Shorten(s.Text+"…", width), s.Style})
			}
			return kept
		}
		width -= n
		kept = append(kept, s)
	}
	return kept
}

// Paint returns the line for a terminal.
func (l Line) Paint(colour bool) string {
	var b strings.Builder
	for _, s := range l {
		if sgr := s.Style.sgr(); colour && sgr != "" && s.Text != "" {
			b.WriteString("\x1b[" + sgr + "m" + s.Text + "\x1b[0m")
		} else {
			b.WriteString(s.Text)
		}
	}
	return b.String()
}

// TableRow is a row of a table. A cell may have a style of its own.
type TableRow struct {
	Cells  []string
	Style  Style
	Marked int
	Mark   Style // of the cell marked
}

// Between is how many cells are between two columns.
const Between = 2 // cells between two columns

// Line returns the row's cells, cut and padded to the widths of the columns.
func (r TableRow) Line(texts []string, widths []int) Line {
	var l Line
	for i, text := range texts {
		if widths[i] < 0 {
			continue
		}
		text = Shorten(text, widths[i])
		s := r.Style
		if i == r.Marked && r.Mark != StylePlain {
			s = r.Mark
		}
		l = append(l, Styled{text, s}, Styled{strings.Repeat(" ", max(0, widths[i]-Cells(text))+Between), StylePlain})
	}
	for len(l) > 0 && strings.TrimSpace(l[len(l)-1].Text) == "" {
		l = l[:len(l)-1]
	}
	return l
}
