package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
)

// liveView is a table that is drawn again every second, and at every change.
type liveView struct {
	bucket string
	screen screen
	err    error // of the connection
	drawn  time.Time
	fresh  bool // nothing has changed since
}

func (v *liveView) told([]change) error {
	v.fresh = false
	return nil
}

func (v *liveView) trouble(err error) { v.err, v.fresh = err, false }

func (v *liveView) shown(f *watcher) error {
	now := f.s.clock.now()
	if v.fresh && v.drawn.Truncate(time.Second).Equal(now.Truncate(time.Second)) {
		return nil
	}
	v.drawn, v.fresh = now, true
	return v.screen.draw(func(width, height int) []string { return v.lines(f, now, width, height) })
}

// screen is a terminal on which one view is drawn over the other.
type screen struct{ cleared bool }

// draw draws the lines that lines returns for the size of the terminal.
func (s *screen) draw(lines func(width, height int) []string) error {
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	var b strings.Builder
	if !s.cleared {
		s.cleared = true
		b.WriteString("\x1b[2J")
	}
	b.WriteString("\x1b[H")
	for _, line := range lines(width, height-1) { // the last line is for the cursor
		b.WriteString(line)
		b.WriteString("\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	_, err = os.Stdout.WriteString(b.String())
	return err
}

// lines returns the view, in at most height lines.
func (v *liveView) lines(f *watcher, now time.Time, width, height int) []string {
	head := fmt.Sprintf("Elections in bucket %s at %s", v.bucket, formatTime(now))
	if v.err != nil {
		head = fmt.Sprintf("NOT UP TO DATE since %s: %s", formatTime(f.opened), errorText(v.err))
	}
	var all []*watched
	for _, x := range f.elections {
		if x.last != nil {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b *watched) int { return strings.Compare(a.now.election, b.now.election) })
	const around = 3 // the head, a line below it, and the head of the table
	more := 0
	if room := max(1, height-around); len(all) > room {
		more = len(all) - room + 1
		all = all[:len(all)-more]
	}
	rows := [][]string{overviewHead()}
	for _, x := range all {
		rows = append(rows, x.now.overview(x.as, now))
	}
	table := columns(rows, 0)
	if slices.ContainsFunc(table, func(s string) bool { return cells(s) > width }) {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 3, 4) // SINCE: FOR says it, too
		}
		table = columns(rows, width)
	}
	lines := append([]string{shorten(head, width), ""}, table...)
	if more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", more))
	}
	return lines
}
