package history_test

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/history"
	expect "github.com/natsleader/natsleader/internal/check"
)

// For how long nobody worked since a moment is what is trouble and known: not a handover, not a key that nobody wants. A leader
// that has died, or whose key was deleted, may have worked until its renew deadline. What the history misses is not known, and
// neither is how a time began of which it has only the end.
func TestUnworked(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const h, m, s = time.Hour, time.Minute, time.Second
	term := func(since, until time.Duration, ended history.TermEnd, renewed time.Duration) history.Span {
		x := history.Span{State: facts.Leading, ID: "a", Since: ago(since), Until: ago(until), Ended: ended, Lease: 15 * s}
		if renewed > 0 {
			x.Renewed = ago(renewed)
		}
		return x
	}
	none := func(state facts.State, since, until time.Duration) history.Span {
		x := history.Span{State: state, Since: ago(since)}
		if until > 0 {
			x.Until = ago(until)
		}
		return x
	}
	led := history.Span{State: facts.Leading, ID: "b", Since: ago(10 * m)}
	free := none(facts.Released, 30*m, 10*m)
	missed := none(history.StateUnknown, 30*m, 10*m)
	for what, c := range map[string]struct {
		spans            []history.Span
		since, known     time.Duration
		oneShot, expires bool
		want             history.Unworked
	}{
		"handed over":                {spans: []history.Span{term(20*m, 10*m+5*time.Millisecond, history.EndedReleased, 0), led}},
		"slowly":                     {spans: []history.Span{term(20*m, 11*m, history.EndedReleased, 0), none(facts.Released, 11*m, 10*m), led}, want: history.Unworked{Least: m, Most: m}},
		"slowly, for a job":          {spans: []history.Span{term(20*m, 11*m, history.EndedReleased, 0), none(facts.Released, 11*m, 10*m), led}, oneShot: true},
		"idle":                       {spans: []history.Span{term(40*m, 30*m, history.EndedReleased, 0), free, led}},
		"given up":                   {spans: []history.Span{term(40*m, 2*m, history.EndedReleased, 0), none(facts.Released, 2*m, 0)}},
		"given up, its key lapsed":   {spans: []history.Span{term(40*m, 2*m, history.EndedReleased, 0), none(facts.Released, 2*m, m), none(facts.Deleted, m, 0)}},
		"given up, and overwritten":  {spans: []history.Span{term(40*m, 2*m, history.EndedReleased, 0), none(facts.Released, 2*m, m), none(facts.Foreign, m, 0)}, want: history.Unworked{Least: m, Most: m, Goes: true}},
		"deleted":                    {spans: []history.Span{term(40*m, 11*m, history.EndedDeleted, 0), none(facts.Deleted, 11*m, 10*m), led}, want: history.Unworked{Least: 48 * s, Most: m}},
		"deleted, of a job":          {spans: []history.Span{term(40*m, 11*m, history.EndedDeleted, 0), none(facts.Deleted, 11*m, 0)}, oneShot: true},
		"died":                       {spans: []history.Span{term(40*m, 11*m, history.EndedExpired, 11*m+15*s), none(facts.Expired, 11*m, 10*m), led}, want: history.Unworked{Least: m + 3*s, Most: m + 15*s}},
		"died, and was followed":     {spans: []history.Span{term(40*m, 10*m, history.EndedExpired, 10*m+15*s), led}, want: history.Unworked{Least: 3 * s, Most: 15 * s}},
		"died before":                {spans: []history.Span{term(40*m, 11*m, history.EndedExpired, 11*m+15*s), none(facts.Expired, 11*m, 10*m), led}, since: 10*m + 30*s, want: history.Unworked{Least: 30 * s, Most: 30 * s}},
		"died long before":           {spans: []history.Span{term(40*m, 11*m, history.EndedExpired, 11*m+15*s), none(facts.Expired, 11*m, 10*m), led}, since: 5 * m},
		"died, none has it yet":      {spans: []history.Span{term(40*m, 2*m, history.EndedExpired, 2*m+15*s), none(facts.Expired, 2*m, 0)}, want: history.Unworked{Least: 2*m + 3*s, Most: 2*m + 15*s, Goes: true}},
		"missed":                     {spans: []history.Span{term(40*m, 30*m, history.EndedUnknown, 0), missed, led}, want: history.Unworked{Unknown: 20 * m}},
		"missed, and then deleted":   {spans: []history.Span{term(40*m, 30*m, history.EndedUnknown, 0), missed, none(facts.Deleted, 10*m, 5*m), {State: facts.Leading, ID: "b", Since: ago(5 * m)}}, want: history.Unworked{Unknown: 25 * m}},
		"missed until now":           {spans: []history.Span{term(40*m, 2*m, history.EndedUnknown, 0), none(history.StateUnknown, 2*m, 0)}, want: history.Unworked{Unknown: 2 * m, Blind: true}},
		"missed before":              {spans: []history.Span{missed, led}, since: 20 * m, want: history.Unworked{Unknown: 10 * m}},
		"died, and then missed":      {spans: []history.Span{term(90*m, 40*m, history.EndedExpired, 40*m+15*s), none(facts.Expired, 40*m, 30*m), missed, led}, want: history.Unworked{Least: 10*m + 3*s, Most: 10*m + 15*s, Unknown: 20 * m}},
		"the history begins":         {spans: []history.Span{led}, known: 20 * m, want: history.Unworked{Unknown: 40 * m}},
		"the history begins later":   {spans: []history.Span{led}, known: -m, want: history.Unworked{Unknown: h}},
		"begins after a gap":         {spans: []history.Span{term(40*m, 11*m, history.EndedExpired, 11*m+15*s), none(facts.Expired, 11*m, 10*m), led}, known: 10*m + 30*s, want: history.Unworked{Least: 30 * s, Most: 30 * s, Unknown: 49*m + 30*s}},
		"free since before":          {spans: []history.Span{none(facts.Released, 2*h, 0)}},
		"overwritten before":         {spans: []history.Span{none(facts.Foreign, 2*h, 0)}, want: history.Unworked{Least: h, Most: h, Goes: true}},
		"deleted before":             {spans: []history.Span{none(facts.Deleted, 2*h, 0)}, want: history.Unworked{Unknown: h, Blind: true}},
		"deleted before, of a job":   {spans: []history.Span{none(facts.Deleted, 2*h, 0)}, oneShot: true},
		"deleted where keys expire":  {spans: []history.Span{none(facts.Deleted, 2*h, 0)}, expires: true},
		"pending before, then leads": {spans: []history.Span{none(facts.Pending, 11*m, 10*m), led}, want: history.Unworked{Unknown: m}},
	} {
		since := ago(h)
		if c.since > 0 {
			since = ago(c.since)
		}
		var known time.Time
		if c.known != 0 {
			known = ago(c.known)
		}
		got := history.Timeline{Election: "billing", Spans: c.spans, End: now}.Unworked(c.oneShot, c.expires, since, known)
		expect.Equal(t, got, c.want, what+": %+v")
	}
}
