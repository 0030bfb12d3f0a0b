// Package history tells who led when.
package history

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
)

const historyHelp = `Without an election it shows each change of a leader in the bucket, and each key that was
deleted, overwritten by another program, or held by a candidate that did not lead, the newest
first. In a pattern * stands for any text.
Changes of many elections within some seconds, in a deploy for example, are one line.
Trouble has the mark !: a lease ran out, a key was deleted or overwritten, nobody led for a
second or more, or ten seconds or more are not known. A key that a leader gave up in order
was idle for its time if its note says that it is for a one-shot job, or if that is ten leases
or more; until then it is trouble that goes on. If there are too many changes, it reads the
newest.

Of a group it shows the assigner. A pattern that the name of the group does not match, as
orders.shard.member.*, shows its members.

Trouble that began before --since and went on is shown, with its begin. Where the history does
not have the begin, it says "before" the time of the oldest record.

With an election it shows its terms as a time line: the leader, from when to when, its
token, why its term ended, and when nobody led. The bucket must keep a history: see
bucket add --history.

--since takes a duration (6h, 7d), a time (03:12, 2026-11-22 03:12, RFC 3339) or "all".
--at shows who led at one moment, without an election in each one of the bucket.

A time without a zone is local. If clocks were set back and showed it twice, it is
refused, and the error names both moments. Times are shown in the zone of the head. A time
at which that zone had another offset is shown with it.

The end of a lease that was not renewed is when other candidates could follow at the
earliest. The leader itself stops before that, by default at 80% of its lease.

The history can miss what was written while it did not follow the bucket, after an outage for
example. Such a time is shown as not known.

In JSON a span has a state as in status, or unknown; with "before" it began before "since". A
term has the reason why it ended: released, expired, deleted, overwritten, replaced (by a record of
another holder within the lease), taken (a member of a group has ended the term of another one
with its key) or unknown.

The exit code is 78 if the bucket keeps no history, 66 if it has nothing
about the election or the pattern, and with --at 1 if nobody led, and 66 if that is not known. With --at
of several elections it is 1 if nobody led one of them and it was not idle, otherwise 66
if that is not known of one.

  natsleader history --since 1h
  natsleader history --at 03:12
  natsleader history billing --at 03:12
  natsleader history billing --since 7d --json`

type history struct {
	*front.Globals
	election  string         // empty: all, or those that match names
	names     *regexp.Regexp // nil: all
	since, at string
	asked     bool // for a since
	asJSON    bool
}

// Register adds the command history.
func Register(app *fisk.Application, g *front.Globals) {
	h := &history{Globals: g}
	cmd := app.Command("history", "Show the leaders of the past").HelpLong(historyHelp)
	cmd.Arg("election", "Election to show, or a pattern with *; all of the bucket by default").HintAction(func() []string { return inspect.ElectionNames(g) }).StringVar(&h.election)
	cmd.Flag("since", "Begin there; a duration, a time, or all").Default("24h").PlaceHolder("TIME").IsSetByUser(&h.asked).StringVar(&h.since)
	cmd.Flag("at", "Show only the leader of that moment").PlaceHolder("TIME").StringVar(&h.at)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&h.asJSON)
	cmd.Action(func(*fisk.ParseContext) error { return h.run() })
}

func (h *history) run() error {
	switch {
	case strings.Contains(h.election, "*"):
		var err error
		if h.names, err = view.PatternOf(h.election); err != nil {
			return err
		}
		h.election = ""
	case h.election != "":
		if err := inspect.CheckElection(h.election); err != nil {
			return err
		}
	}
	now := time.Now()
	from, err := parseMoment(h.since, now)
	if err != nil {
		return front.Usagef("--since %w", err)
	}
	var at time.Time
	if h.at != "" {
		if at, err = parseMoment(h.at, now); err != nil || at.IsZero() {
			return front.Usagef("--at %q is no moment: give a time, or a duration before now", h.at)
		}
		from = at
	}
	if from.After(now) {
		return front.Usagef("%s is in the future", front.FormatZoned(from))
	}
	return inspect.Do(h.Globals, func(ctx context.Context, s *inspect.Inspector) error {
		if h.election == "" {
			return h.readAll(ctx, s, from, at)
		}
		return h.read(ctx, s, from, at)
	})
}

// readAll prints what has changed in all elections from a moment on, or who led them at a moment if that is not zero.
func (h *history) readAll(ctx context.Context, s *inspect.Inspector, from, at time.Time) error {
	r := Reader{S: s, names: h.names}
	found, err := r.OpenAll(ctx)
	if err != nil {
		return err
	}
	if h.at != "" {
		m, unread := r.readAt(ctx, found, at)
		if unread != nil {
			return unread
		}
		h.print(r.Notes)
		code := m.code()
		return front.ExitIf(code != 0, code, front.PrintResult(h.Out(), h.asJSON, m, front.Columns(m.table(s.Clock.Now()))))
	}
	all, err := r.ReadAll(ctx, found, from)
	if err != nil {
		return err
	}
	h.noteBegin(&r, from, all.From)
	h.print(r.Notes)
	lines, none := front.Columns(all.table(s.Clock.Now())), h.names != nil && len(found) == 0
	if none {
		lines = []string{"the history has no such election"}
	}
	return front.ExitIf(none, front.ExitUnknown, front.PrintResult(h.Out(), h.asJSON, all, lines))
}

// print prints notes about what is not certain.
func (h *history) print(notes []string) {
	for _, note := range notes {
		_, _ = fmt.Fprintf(h.Errs(), "natsleader: %s\n", note)
	}
}

// read prints the history from a moment on, or who led at a moment if that is not zero.
func (h *history) read(ctx context.Context, s *inspect.Inspector, from, at time.Time) error {
	r := Reader{S: s}
	p, err := r.OpenFor(ctx, h.election)
	if err != nil {
		return err
	}
	line, err := r.Read(ctx, p, from)
	switch {
	case err != nil:
		return err
	case len(line.Spans) == 0 && s.IsGroup(ctx, h.election):
		return inspect.IsNoElection(h.election)
	}
	if h.at != "" {
		h.print(r.Notes)
		return h.show(line.At(at), at, line.End)
	}
	h.noteBegin(&r, from, line.From)
	h.print(r.Notes)
	return front.ExitIf(len(line.Spans) == 0, front.ExitUnknown, front.PrintResult(h.Out(), h.asJSON, line, front.Columns(line.Table(s.Clock.Now()))))
}

// noteBegin notes that the history does not have all of the time that was asked for.
func (h *history) noteBegin(r *Reader, from, known time.Time) {
	if h.asked && !from.IsZero() && from.Before(r.begins()) && from.Before(known) {
		r.Note("the history begins at %s: what was before may be missing", front.FormatZoned(r.begins()))
	}
}

// show prints who led at a moment.
func (h *history) show(x Span, at, now time.Time) error {
	code := front.ExitFailed
	if x.State == "" || x.State == StateUnknown {
		code = front.ExitUnknown
	}
	return front.ExitIf(x.State != facts.Leading, code, front.PrintResult(h.Out(), h.asJSON, x, []string{x.sentence(h.election, at, now)}))
}
