package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/internal/webpage"
)

// The newest spans or lines of a past are those that a page gets.
const (
	mostSpans   = 1000
	mostLines   = 200
	namesInLine = 10 // of elections in a line
)

// past reads for a page who led an election in the last hours, or what has changed in all of them.
func (u *uiState) past(ctx context.Context, election string, hours int) (webpage.Past, error) {
	s := u.inspector()
	if s == nil || election != "" && checkElection(election) != nil {
		return webpage.Past{}, errNoElection
	}
	// The watcher changes the clock of its own inspector.
	kept := historyStream(s.name)
	r := historyReader{s: &inspector{
		nc: s.nc, bucket: s.bucket, js: s.js, name: s.name, limit: s.limit, denials: s.denials, streams: append([]string{kept}, s.streams...),
	}, most: mostReading}
	past, err := r.pastOf(ctx, election, time.Duration(hours)*time.Hour)
	switch {
	case errors.Is(err, errNoHistory):
		return webpage.Past{}, nil
	case aboutStream(err, kept):
		return webpage.Past{Notes: []string{"The user of natsleader ui may not read the history of the bucket."}}, nil
	case err != nil:
		return webpage.Past{}, errors.New(errorText(err))
	}
	return past, nil
}

// pastOf reads the past of an election, or of all if there is no name.
func (r *historyReader) pastOf(ctx context.Context, election string, last time.Duration) (past webpage.Past, err error) {
	if election == "" {
		var found pasts
		var all changes
		if found, err = r.openAll(ctx); err == nil {
			all, err = r.readAll(ctx, found, r.s.clock.now().Add(-last))
		}
		past.Spans = newest(r, linesOf(all), mostLines)
		return r.noted(past), err
	}
	p, err := r.openFor(ctx, election)
	if err != nil {
		return past, err
	}
	line, err := r.read(ctx, p, r.s.clock.now().Add(-last))
	for i := range line.Spans { // the picture does not show what leaders publish
		line.Spans[i].Value, line.Spans[i].Value64 = "", ""
	}
	past.Spans = newest(r, line.Spans, mostSpans)
	return r.noted(past), err
}

// newest returns the last of some spans or lines, and notes what it leaves out.
func newest[T any](r *historyReader, all []T, most int) []T {
	if left := len(all) - most; left > 0 {
		r.note("Only the newest %d changes are shown.", most)
		return all[left:]
	}
	return all
}

func (r *historyReader) noted(past webpage.Past) webpage.Past {
	past.Kept, past.Notes = true, append([]string{}, r.notes...)
	return past
}

// pastLine is a change as pages show it.
type pastLine struct {
	At        time.Time `json:"at"`
	Text      string    `json:"text"`
	Trouble   bool      `json:"trouble,omitempty"`
	Election  string    `json:"election,omitempty"`  // the key, if it is one
	Elections string    `json:"elections,omitempty"` // if they are more
}

// linesOf returns changes as lines, the oldest first.
func linesOf(all changes) []pastLine {
	lines := []pastLine{}
	for _, c := range slices.Backward(all.All) {
		x := pastLine{At: c.At, Text: c.text(), Trouble: c.Trouble}
		if n := len(c.Elections); n == 1 {
			x.Election = c.Elections[0]
		} else {
			x.Elections = strings.Join(c.Elections[:min(n, namesInLine)], ", ")
			if n > namesInLine {
				x.Elections += fmt.Sprintf(" and %d more", n-namesInLine)
			}
		}
		lines = append(lines, x)
	}
	return lines
}
