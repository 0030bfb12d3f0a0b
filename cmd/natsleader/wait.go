package main

import (
	"context"
	"time"

	"github.com/choria-io/fisk"

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
	*globals
	election string
	id       string        // of the leader to wait for; empty: any
	nobody   bool          // wait until nobody leads
	limit    time.Duration // of the wait
	asJSON   bool
}

func registerWait(app *fisk.Application, g *globals) {
	w := &wait{globals: g}
	cmd := app.Command("wait", "Wait until an election has a leader, a certain one, or none").HelpLong(waitHelp)
	cmd.Arg("election", "Election to wait for").Required().HintAction(g.electionNames).StringVar(&w.election)
	cmd.Flag("leader", "Wait until the candidate with this ID leads").PlaceHolder("ID").StringVar(&w.id)
	cmd.Flag("no-leader", "Wait until nobody leads").UnNegatableBoolVar(&w.nobody)
	cmd.Flag("wait", "Longest time to wait").Default("30s").DurationVar(&w.limit)
	cmd.Flag("json", "Print JSON, as status does").Short('j').UnNegatableBoolVar(&w.asJSON)
	g.registerLog(cmd)
	cmd.Action(func(*fisk.ParseContext) error { return w.run(context.Background()) })
}

func (w *wait) run(ctx context.Context) error {
	if w.nobody && w.id != "" {
		return usagef("wait takes --leader or --no-leader, not both")
	}
	if err := checkElection(w.election); err != nil {
		return err
	}
	log := w.newLog()
	s, _, err := w.look(ctx, w.election)
	if err != nil {
		return err
	}
	defer s.close()
	if s.isGroup(ctx, w.election) {
		return isNoElection(w.election)
	}
	ctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	holders, err := leader.Observe(ctx, s.bucket, w.election) // it says when to look: it may be cut off itself
	if err != nil {
		return err
	}
	seen := "it is not known who leads"
	for ctx.Err() == nil {
		x, err := answer(ctx, s, func(ctx context.Context) (confirmed, error) { return s.confirmed(ctx, w.election) })
		now, again := s.clock.now(), lookEvery
		switch {
		case ctx.Err() != nil:
			continue
		case codeOf(err) == exitBucket:
			return err
		case err == nil:
			c := electionChange{now: x.electionStatus, state: x.at(now)}
			if seen = c.event(); w.met(x, now) {
				return printResult(w.out(), w.asJSON, x.summary(now), []string{c.text()})
			}
			if left := x.remaining(now); left > 0 {
				again = min(again, left)
			}
		}
		log.trouble(w.explain(err))
		select {
		case <-holders:
		case <-time.After(again):
		case <-ctx.Done():
		}
	}
	return exitf(exitWaited, "%s after %v (--wait): %s", w.election, w.limit, seen)
}

// met reports whether the state of the election is the one that is waited for. The leader of a record that was deleted
// or overwritten may not know that yet. One that is pending soon leads.
func (w *wait) met(x confirmed, now time.Time) bool {
	st := x.at(now)
	switch {
	case !w.nobody:
		return st == stateLeading && (w.id == "" || w.id == x.holder.ID)
	case st == stateDeleted || st == stateForeign:
		return !now.Before(x.entry.Created.Add(x.longest))
	}
	return st != stateLeading && st != statePending
}

// confirmed is an election as a majority of the servers has it, and the longest lease in its bucket.
type confirmed struct {
	electionStatus
	longest time.Duration
}

// confirmed is one, while a majority of the servers keeps the bucket.
func (s *inspector) confirmed(ctx context.Context, election string) (confirmed, error) {
	info, err := s.info(ctx)
	if err = s.heard(info, err); err != nil {
		return confirmed{}, err
	}
	s.clock = newServerClock(info.TimeStamp, 0)
	x, err := s.one(ctx, election)
	return confirmed{x, (&seenBucket{conf: info.Config}).longestLease()}, err
}
