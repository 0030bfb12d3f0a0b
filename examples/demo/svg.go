package main

import (
	"fmt"
	"html"
	"strings"
	"time"
)

// The measures of the picture, in its own units.
const (
	svgWidth  = 760
	svgFrom   = 130 // where the time line begins, right of the names
	svgTo     = 580 // and ends, left of the figures
	svgLane   = 34
	svgTop    = 64
	svgBefore = 500 * time.Millisecond // shown before a fault
)

const svgHead = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" font-family="system-ui, sans-serif" font-size="12" role="img">
<title>%[3]s</title>
<style>
  .bg { fill: #ffffff } .t { fill: #1f2328 } .n { fill: #59636e } .a { fill: #0969da } .b { fill: #1a7f37 } .v { fill: #ffebe9; stroke: #cf222e } .l { stroke: #59636e; stroke-dasharray: 3 3 }
  @media (prefers-color-scheme: dark) {
    .bg { fill: #0d1117 } .t { fill: #e6edf3 } .n { fill: #9198a1 } .a { fill: #4493f8 } .b { fill: #3fb950 } .v { fill: #25171c; stroke: #f85149 } .l { stroke: #9198a1 }
  }
</style>
<rect class="bg" width="%[1]d" height="%[2]d"/>
`

// svg is a picture of the first fault of each kind: who led before it, for how long nobody did, and
// who led then.
func (t *tally) svg(lease time.Duration) string {
	after := lease // shown after a fault
	for _, k := range t.kinds {
		for _, at := range []time.Time{k.first.healed, k.first.elected} {
			if !at.IsZero() {
				after = max(after, at.Sub(k.first.struck)+lease/4)
			}
		}
	}
	x := func(d time.Duration) float64 {
		return svgFrom + (svgTo-svgFrom)*(d+svgBefore).Seconds()/(after+svgBefore).Seconds()
	}
	var b strings.Builder
	text := func(x float64, y int, class, anchor, s string) {
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" class=\"%s\" text-anchor=\"%s\">%s</text>\n", x, y, class, anchor, html.EscapeString(s))
	}
	bar := func(y int, class string, from, to time.Duration) {
		fmt.Fprintf(&b, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"16\" class=\"%s\"/>\n", x(from), y-12, max(1, x(to)-x(from)), class)
	}
	title := fmt.Sprintf("Who leads when a leader meets a fault, with a lease of %v", lease)
	text(12, 24, "t", "start", title)
	bottom := svgTop + svgLane*len(t.kinds)
	fmt.Fprintf(&b, "<path class=\"l\" d=\"M%.1f %dV%d\"/>\n", x(0), svgTop-16, bottom-10)
	text(x(0), svgTop-22, "n", "middle", "the fault")
	for i, k := range t.kinds {
		y := svgTop + svgLane*i + 10
		text(12, y, "t", "start", k.name)
		o := k.first
		figure := "the same leader goes on"
		if o.led {
			led := o.elected.Sub(o.struck)
			bar(y, "a", -svgBefore, led-o.vacant)
			bar(y, "v", led-o.vacant, led)
			bar(y, "b", led, after)
			figure = fmt.Sprintf("nobody leads for %s s", seconds(o.vacant))
		} else {
			bar(y, "a", -svgBefore, after)
		}
		if !o.healed.IsZero() {
			fmt.Fprintf(&b, "<path class=\"l\" d=\"M%.1f %dv24\"/>\n", x(o.healed.Sub(o.struck)), y-16)
		}
		text(svgTo+12, y, "n", "start", figure)
	}
	for d := time.Duration(0); d <= after; d += time.Second {
		text(x(d), bottom+6, "n", "middle", fmt.Sprintf("%d s", d/time.Second))
	}
	y, at := bottom+30, 12.0
	for _, key := range []struct {
		class, name string
		width       float64
	}{{"a", "the leader", 110}, {"v", "nobody leads", 125}, {"b", "the next term", 130}} {
		fmt.Fprintf(&b, "<rect x=\"%.1f\" y=\"%d\" width=\"12\" height=\"12\" class=\"%s\"/>\n", at, y-10, key.class)
		text(at+18, y, "n", "start", key.name)
		at += key.width
	}
	text(at, y, "n", "start", "the second dashed line is the end of the fault")
	height := y + 16
	return fmt.Sprintf(svgHead, svgWidth, height, html.EscapeString(title)) + b.String() + "</svg>\n"
}

// seconds shows a duration with three digits that count.
func seconds(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%.3f", d.Seconds())
	}
	return fmt.Sprintf("%.2f", d.Seconds())
}
