package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/history"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/webpage"
)

// The newest spans or lines of a past are those that a page gets.
const (
	mostSpans   = 1000
	mostLines   = 200
	namesInLine = 10 // of elections in a line
	longestPast = 7 * 24 * time.Hour

	mostUnworked = 100 // elections that are named
)

// past reads for a page who led an election, or what has changed in all of them.
func (u *State) past(ctx context.Context, asked webpage.Asked) (webpage.Past, error) {
	s := u.inspector()
	if s == nil || asked.Election != "" && inspect.CheckElection(asked.Election) != nil {
		return webpage.Past{}, errNoElection
	}
	// The watcher changes the clock of its own inspector.
	kept := facts.HistoryStream(s.Name)
	r := history.Reader{S: &inspect.Inspector{
		Nc: s.Nc, Bucket: s.Bucket, Js: s.Js, Name: s.Name, Limit: s.Limit, Denials: s.Denials, Streams: append([]string{kept}, s.Streams...),
	}, Most: history.MostReading}
	u.Mu.Lock()
	oneShot := u.oneShot[asked.Election]
	u.Mu.Unlock()
	past, err := pastOf(ctx, &r, asked, oneShot)
	switch {
	case errors.Is(err, history.ErrNoHistory):
		return webpage.Past{}, nil
	case errors.Is(err, history.ErrLost):
		return webpage.Past{Notes: []string{front.ErrorText(err)}}, nil
	case inspect.AboutStream(err, kept):
		return webpage.Past{Notes: []string{"The user of natsleader serve may not read the history of the bucket."}}, nil
	case err != nil:
		return webpage.Past{}, errors.New(front.ErrorText(err))
	}
	return past, nil
}

// pastOf reads the past of an election, which may be that of a one-shot job, or of all if there is no name.
func pastOf(ctx context.Context, r *history.Reader, asked webpage.Asked, oneShot bool) (past webpage.Past, err error) {
	if asked.Election == "" {
		return pastOfAll(ctx, r, asked)
	}
	p, err := r.OpenFor(ctx, asked.Election)
	if err != nil {
		return past, err
	}
	from := r.S.Clock.Now().Add(-asked.Last)
	line, err := r.Read(ctx, p, from)
	for i := range line.Spans {
		line.Spans[i].Value, line.Spans[i].Value64 = "", "" // the picture does not show what leaders publish
	}
	changes := slices.DeleteFunc(line.Changes(oneShot), func(c history.Changed) bool { return !c.In(from) })
	slices.Reverse(changes)
	lines := linesOf(history.Changes{All: changes})
	past.Lines = lines[max(0, len(lines)-mostLines):]
	past.Spans = newest(r, line.Spans, mostSpans)
	return noted(r, past), err
}

// pastOfAll reads what has changed in all elections, and for how long nobody worked.
func pastOfAll(ctx context.Context, r *history.Reader, asked webpage.Asked) (past webpage.Past, err error) {
	found, err := r.OpenAll(ctx)
	if err != nil {
		return past, err
	}
	from := r.S.Clock.Now().Add(-asked.Last)
	all, err := r.ReadAll(ctx, found, earliest(from, asked.Since))
	if err != nil {
		return past, err
	}
	if since := asked.Since; !since.IsZero() {
		if all.From.After(since) { // not all was read, or the history begins there
			past.From, past.Unknown = all.From, min(all.From.Sub(since), r.S.Clock.Now().Sub(since)).Milliseconds()
		}
		common := past.Unknown
		if r.Blind() {
			past.Unknown = r.S.Clock.Now().Sub(since).Milliseconds()
		}
		for _, p := range found {
			if _, _, ofGroup := group.NameOf(p.Election); ofGroup {
				continue
			}
			x := r.Unworked(p, since, earliest(from, since))
			is := webpage.Unworked{Election: p.Election, Least: x.Least.Milliseconds(), Most: x.Most.Milliseconds(), Unknown: x.Unknown.Milliseconds(), Blind: x.Blind}
			if x.Goes {
				is.Goes = 1
			}
			if past.Unknown, past.Blind = max(past.Unknown, is.Unknown), past.Blind || is.Blind; is.Most > 0 || is.Unknown > common || is.Blind {
				past.Unworked = append(past.Unworked, is)
			}
		}
		past.Unworked = worst(past.Unworked)
	}
	all.All = slices.DeleteFunc(all.All, func(c history.Changed) bool { return !c.In(from) })
	past.Spans = newest(r, linesOf(all), mostLines)
	return noted(r, past), nil
}

// earliest returns the earlier of two times. The zero time is none, and a week before the other is the limit.
func earliest(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	if limit := a.Add(-longestPast); b.Before(limit) {
		return limit
	}
	return b
}

// worst returns those elections for which nobody worked longest, and then those of which least is known. The others are one.
func worst(all []webpage.Unworked) []webpage.Unworked {
	slices.SortFunc(all, func(a, b webpage.Unworked) int {
		return cmp.Or(cmp.Compare(b.Most, a.Most), cmp.Compare(b.Unknown, a.Unknown), strings.Compare(a.Election, b.Election))
	})
	if len(all) <= mostUnworked {
		return all
	}
	var others webpage.Unworked
	for _, x := range all[mostUnworked:] {
		others = webpage.Unworked{
			Others: others.Others + 1, Least: others.Least + x.Least, Most: others.Most + x.Most, Goes: others.Goes + x.Goes,
			Unknown: max(others.Unknown, x.Unknown), Blind: others.Blind || x.Blind,
		}
	}
	return append(all[:mostUnworked], others)
}

// newest returns the last of some spans or lines, and notes what it leaves out.
func newest[T any](r *history.Reader, all []T, most int) []T {
	if left := len(all) - most; left > 0 {
		r.Note("Only the newest %d changes are shown.", most)
		return all[left:]
	}
	return all
}

func noted(r *history.Reader, past webpage.Past) webpage.Past {
	past.Kept, past.Notes = true, append([]string{}, r.Notes...)
	return past
}

// PastLine is a change as pages show it.
type PastLine struct {
	At        time.Time `json:"at"`
	Text      string    `json:"text"`
	Trouble   bool      `json:"trouble,omitempty"`
	Election  string    `json:"election,omitempty"`  // the key, if it is one
	Elections string    `json:"elections,omitempty"` // if they are more
}

// linesOf returns changes as lines, the oldest first.
func linesOf(all history.Changes) []PastLine {
	lines := []PastLine{}
	for _, c := range slices.Backward(all.All) {
		x := PastLine{At: c.At, Text: c.Text(), Trouble: c.Trouble}
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
