package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/webpage"
)

// mostSpans is how many spans of a past a page gets: the newest.
const mostSpans = 1000

// past reads who led an election in the last hours, for a page.
func (u *uiState) past(ctx context.Context, election string, hours int) (webpage.Past, error) {
	s, err := u.inspectorOf(election)
	if err != nil {
		return webpage.Past{}, err
	}
	// The watcher changes the clock of its own inspector.
	r := historyReader{election: election, s: &inspector{nc: s.nc, bucket: s.bucket, js: s.js, name: s.name, limit: s.limit, denied: s.denied}}
	err = r.open(ctx)
	if errors.Is(err, errNoHistory) {
		return webpage.Past{}, nil
	}
	var line timeline
	if err == nil {
		line, err = r.read(ctx, r.s.clock.now().Add(-time.Duration(hours)*time.Hour))
	}
	if err != nil {
		return webpage.Past{}, errors.New(errorText(err))
	}
	past := webpage.Past{Kept: true, Notes: append([]string{}, r.notes...)}
	if more := len(line.Spans) - mostSpans; more > 0 {
		line.Spans = line.Spans[more:]
		past.Notes = append(past.Notes, fmt.Sprintf("Only the newest %d changes are shown.", mostSpans))
	}
	for i := range line.Spans { // the picture does not show what leaders publish
		line.Spans[i].Value, line.Spans[i].Value64 = "", ""
	}
	past.Spans = line.Spans
	return past, nil
}
