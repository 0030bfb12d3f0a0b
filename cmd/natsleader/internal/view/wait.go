package view

import (
	"context"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/leader"
)

const waitHelp = `It ends with exit code 0 and prints who leads when a candidate leads the election, with
--leader when that candidate leads, and with --no-leader when none does. If that is so
already, it ends at once. While NATS does not answer, or no majority of its servers
does, it waits on: only an answer of a majority shows that nobody leads. After a record
was deleted or overwritten it waits until no lease can be valid.

It is no lock: a candidate may lead a moment later. Work that needs the leadership runs
as a candidate: natsleader run.

The exit code is 124 if the time of --wait is over before that.

  natsleader wait billing --leader web-2 && ./switch-traffic
  natsleader wait billing --no-leader --wait 1m && echo "all are stopped"`

type wait struct {
	*front.Globals
	election string
	id       string        // of the leader to wait for; empty: any
	nobody   bool          // wait until nobody leads
	limit    time.Duration // of the wait
	asJSON   bool
}

// RegisterWait adds the command wait.
func RegisterWait(app *fisk.Application, g *front.Globals) {
	w := &wait{Globals: g}
	cmd := app.Command("wait", "Wait until an election has a leader, a certain one, or none").HelpLong(waitHelp)
	cmd.Arg("election", "Election to wait for").Required().HintAction(func() []string { return inspect.ElectionNames(g) }).StringVar(&w.election)
	cmd.Flag("leader", "Wait until the candidate with this ID leads").PlaceHolder("ID").StringVar(&w.id)
	cmd.Flag("no-leader", "Wait until nobody leads").UnNegatableBoolVar(&w.nobody)
	cmd.Flag("wait", "Longest time to wait").Default("30s").DurationVar(&w.limit)
	cmd.Flag("json", "Print JSON, as status does").Short('j').UnNegatableBoolVar(&w.asJSON)
	g.RegisterLog(cmd)
	cmd.Action(func(*fisk.ParseContext) error { return w.run(context.Background()) })
}

func (w *wait) run(ctx context.Context) error {
	if w.nobody && w.id != "" {
		return front.Usagef("wait takes --leader or --no-leader, not both")
	}
	if err := inspect.CheckElection(w.election); err != nil {
		return err
	}
	log := w.NewLog()
	s, _, err := inspect.Look(ctx, w.Globals, w.election)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.IsGroup(ctx, w.election) {
		return inspect.IsNoElection(w.election)
	}
	ctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	holders, err := leader.Observe(ctx, s.Bucket, w.election) // it says when to look: it may be cut off itself
	if err != nil {
		return err
	}
	seen := "it is not known who leads"
	for ctx.Err() == nil {
		x, err := inspect.Answer(ctx, s, func(ctx context.Context) (confirmed, error) { return readConfirmed(ctx, s, w.election) })
		now, again := s.Clock.Now(), LookEvery
		switch {
		case ctx.Err() != nil:
			continue
		case front.CodeOf(err) == front.ExitBucket:
			return err
		case err == nil:
			c := ElectionChange{Now: x.ElectionStatus, State: x.At(now)}
			if seen = c.Event(); w.met(x, now) {
				return front.PrintResult(w.Out(), w.asJSON, electionSummary(x.ElectionStatus, judge.Around{Now: now}), []string{c.text()})
			}
			if left := x.Remaining(now); left > 0 {
				again = min(again, left)
			}
		}
		log.NoteTrouble(w.Explain(err))
		select {
		case <-holders:
		case <-time.After(again):
		case <-ctx.Done():
		}
	}
	return front.Exitf(front.ExitWaited, "%s after %v (--wait): %s", w.election, w.limit, seen)
}

// met reports whether the state of the election is the one that is waited for. The leader of a record that was deleted
// or overwritten may not know that yet. One that is pending soon leads.
func (w *wait) met(x confirmed, now time.Time) bool {
	st := x.At(now)
	switch {
	case !w.nobody:
		return st == facts.Leading && (w.id == "" || w.id == x.Holder.ID)
	case st == facts.Deleted || st == facts.Foreign:
		return !now.Before(x.Entry.Created.Add(x.longest))
	}
	return st != facts.Leading && st != facts.Pending
}

// confirmed is an election as a majority of the servers has it, and the longest lease in its bucket.
type confirmed struct {
	facts.ElectionStatus
	longest time.Duration
}

// readConfirmed is one, while a majority of the servers keeps the bucket.
func readConfirmed(ctx context.Context, s *inspect.Inspector, election string) (confirmed, error) {
	info, err := s.Info(ctx)
	if err = s.Heard(info, err); err != nil {
		return confirmed{}, err
	}
	s.Clock = inspect.NewServerClock(info.TimeStamp, 0)
	x, err := s.One(ctx, election)
	return confirmed{x, (&inspect.SeenBucket{Conf: info.Config}).LongestLease()}, err
}
