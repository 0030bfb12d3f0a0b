package main

import (
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

const (
	svgWidth   = 760
	svgLabel   = 110 // the names of systems
	svgBar     = 480 // the longest bar
	svgLine    = 18
	svgHeading = 30
)

const svgHead = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, sans-serif" font-size="12" role="img">
<title>%s</title>
<style>
  .bg { fill: #ffffff } .t { fill: #1f2328 } .n { fill: #59636e } .b { fill: #8c959f } .o { fill: #0969da }
  @media (prefers-color-scheme: dark) {
    .bg { fill: #0d1117 } .t { fill: #e6edf3 } .n { fill: #9198a1 } .b { fill: #6e7681 } .o { fill: #4493f8 }
  }
</style>
<rect class="bg" width="%d" height="%d"/>
`

// svg is the report as bars: one group for each figure that can be compared.
func (r *report) svg() string {
	var b strings.Builder
	y := 24
	text := func(x int, class, s string) {
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>\n", x, y, class, html.EscapeString(s))
	}
	title := fmt.Sprintf("natsleader and other libraries, %s, %d cores", r.Date.Format("2006-01-02"), r.Cores)
	text(12, "t", title+"; shorter is better")
	for _, row := range r.Rows {
		for _, c := range columns(row.Measure) {
			if c.value == nil {
				continue
			}
			most := 0.0
			for _, s := range r.Systems {
				if cell := row.Cells[s.Name]; cell.Note+cell.Error == "" {
					most = max(most, c.value(cell.Figures))
				}
			}
			y += svgHeading
			text(12, "t", row.Measure+": "+c.title)
			for _, s := range r.Systems {
				y += svgLine
				text(12, "n", s.Name)
				cell := row.Cells[s.Name]
				if cell.Note+cell.Error != "" {
					text(svgLabel, "n", "-")
					continue
				}
				width := 1.0
				if most > 0 {
					width = max(1, svgBar*c.value(cell.Figures)/most)
				}
				class := "b"
				if s.Name == "natsleader" {
					class = "o"
				}
				fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"12\" rx=\"2\" class=\"%s\"/>\n", svgLabel, y-10, width, class)
				text(svgLabel+int(width)+8, "n", c.of(cell.Figures)+", lease "+cell.Figures.Lease.String())
			}
		}
	}
	height := y + 20
	return fmt.Sprintf(svgHead, svgWidth, height, svgWidth, height, html.EscapeString(title), svgWidth, height) + b.String() + "</svg>\n"
}
