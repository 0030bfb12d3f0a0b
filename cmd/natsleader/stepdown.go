package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

const stepDownHelp = `The leader ends its term, finishes its work within its drain timeout, and hands
over; the next leads after two round trips. It stays a candidate, and leads
again if no other candidate has taken the key after a few turns.

Where the bucket keeps a roster and no other candidate has announced itself,
step-down says so and asks for confirmation.

A leader that does not hand over can be pushed out with --force, which deletes
the key while it is still that leader's. The leader finds out at its next
renewal. Candidates wait for the lease on record, which the delete marker keeps,
and until then nobody leads. It asks for confirmation.

Where standard input is no terminal, a question is not asked: nothing is done without
--yes.

The exit code is 1 if nobody leads, the answer is no, or with --force if the leader
changed meanwhile; 64 if --yes is missing; 69 if the leader does not answer; and 124
if it has not handed over in time.

  natsleader step-down billing
  natsleader step-down billing --force --yes`

type stepDown struct {
	*globals
	election   string
	wait       time.Duration
	force, yes bool
	asJSON     bool
}

func registerStepDown(app *fisk.Application, g *globals) {
	s := &stepDown{globals: g}
	cmd := app.Command("step-down", "Ask the leader to hand over").HelpLong(stepDownHelp)
	cmd.Arg("election", "Election whose leader is asked").Required().HintAction(g.electionNames).StringVar(&s.election)
	cmd.Flag("wait", "Longest time to wait until it has handed over").Default("30s").DurationVar(&s.wait)
	cmd.Flag("force", "Delete the key instead of asking").UnNegatableBoolVar(&s.force)
	cmd.Flag("yes", "Do not ask for confirmation").Short('y').UnNegatableBoolVar(&s.yes)
	cmd.Flag("json", "Print the outcome as JSON").Short('j').UnNegatableBoolVar(&s.asJSON)
	cmd.Action(func(*fisk.ParseContext) error { return s.run(context.Background()) })
}

func (s *stepDown) run(ctx context.Context) error {
	if err := checkElection(s.election); err != nil {
		return err
	}
	if s.force && !s.yes && !s.canAsk() {
		return usagef("--force needs --yes where it cannot ask: standard input is no terminal; nothing was deleted")
	}
	look, x, err := s.look(ctx, s.election)
	if err != nil {
		return err
	}
	defer look.close()
	switch {
	case s.force:
		return s.deleteKey(ctx, look, x)
	case x.at(look.clock.now()) != stateLeading:
		return nobodyLeads(s.election)
	}
	if !s.yes {
		if err := s.confirmLast(ctx, look, x); err != nil {
			return err
		}
	}
	return s.ask(ctx, look.bucket)
}

// confirmLast asks for confirmation if no other candidate has announced itself in the
// bucket's roster. A roster that cannot be read does not prevent the request.
func (s *stepDown) confirmLast(ctx context.Context, look *inspector, x electionStatus) error {
	if look.roster == "" {
		return nil // it is not known which candidates stand
	}
	var others []leader.RosterEntry
	err := look.within(ctx, func(ctx context.Context) (err error) {
		others, err = leader.Roster(ctx, look.bucket, s.election)
		return err
	})
	id, lease := printable(x.holder.ID), x.holder.Lease
	switch {
	case errors.Is(err, leader.ErrNoRoster):
		return nil
	case err != nil:
		_, _ = fmt.Fprintf(s.errs(), "natsleader: the roster was not read, so it is not known whether another candidate stands: %s\n", errorText(err))
		return nil
	case len(others) > 0:
		return nil
	case !s.canAsk():
		return usagef("no candidate of %s but its leader %s has announced itself in the roster, and standard input is no terminal: --yes asks the leader all the same; nothing was done", s.election, id)
	}
	out := s.wordsOf(s.asJSON)
	out.say("No candidate of %s but its leader %s has announced itself in the roster.", s.election, id)
	out.say("- Candidates without the roster are not seen.")
	out.say("- If none takes the key, nobody leads until %s takes it again, after its lease of %v at the latest.", id, lease)
	if !out.confirmed("Ask it to hand over?") {
		return exitError{exitFailed, errors.New("nothing was done")}
	}
	return nil
}

// ask asks the leader to step down, and prints the next leader.
func (s *stepDown) ask(ctx context.Context, bucket *leader.Bucket) error {
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	was, err := leader.StepDown(ctx, bucket, s.election, requester("step-down"))
	switch {
	case errors.Is(err, leader.ErrRequestRefused):
		return exitError{exitFailed, fmt.Errorf("%s refuses requests to step down; --force deletes the key instead", printable(was.ID))}
	case err != nil:
		return explainFailure(err, s.election, was, s.wait, ", or delete the key with --force")
	}
	return s.reportHandover(ctx, bucket, s.election, was, s.asJSON)
}

func nobodyLeads(election string) error {
	return exitError{exitFailed, fmt.Errorf("nobody leads %s", election)}
}

// explainFailure explains why the leader has not handed over on request, as far as is known.
// last is the advice for a leader that is silent, and comes last.
func explainFailure(err error, election string, was leader.Holder, wait time.Duration, last string) error {
	id := printable(was.ID)
	switch {
	case errors.Is(err, leader.ErrNoLeader):
		return nobodyLeads(election)
	case errors.Is(err, leader.ErrUnreachable) && id != "":
		return exitError{exitUnreachable, fmt.Errorf("%s has not handed over, and does not answer: it may be draining, or may not be allowed to answer, or is gone; wait and look again%s", id, last)}
	case errors.Is(err, context.DeadlineExceeded) && id != "":
		return exitError{exitWaited, fmt.Errorf("%s has not handed over within %v; it still may", id, wait)}
	}
	return err
}

// handover is the outcome of a request to hand over.
type handover struct {
	Election string        `json:"election"`
	From     leaderSummary `json:"from"`
	// Leader is the next leader; nil: no candidate leads yet.
	Leader *leaderSummary `json:"leader,omitempty"`
}

// leaderSummary names a leader for programs.
type leaderSummary struct {
	ID    string `json:"id"`
	Token uint64 `json:"token"`
}

// handedOver waits a moment for the leader that follows.
func handedOver(ctx context.Context, bucket *leader.Bucket, election string, was leader.Holder) (handover, error) {
	done := handover{Election: election, From: leaderSummary{was.ID, was.Token}}
	const moment = 4 * time.Second // longer than a leader waits for others, with the usual turns
	ctx, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	holders, err := leader.Observe(ctx, bucket, election)
	if err != nil {
		return done, err
	}
	for h := range holders {
		if h.Leads() && h.Token > was.Token {
			done.Leader = &leaderSummary{h.ID, h.Token}
			break
		}
	}
	return done, nil
}

// lines describes the outcome for people.
func (h handover) lines() []string {
	next := "nobody leads yet"
	switch {
	case h.Leader == nil:
	case h.Leader.ID == h.From.ID:
		next = fmt.Sprintf("no other candidate has taken it: %s leads again with token %d", printable(h.Leader.ID), h.Leader.Token)
	default:
		next = fmt.Sprintf("%s leads with token %d", printable(h.Leader.ID), h.Leader.Token)
	}
	return []string{fmt.Sprintf("%s has handed over %s (token %d)", printable(h.From.ID), h.Election, h.From.Token), next}
}

// reportHandover prints that the leader has handed over, and the leader that follows.
func (g *globals) reportHandover(ctx context.Context, bucket *leader.Bucket, election string, was leader.Holder, asJSON bool) error {
	done, err := handedOver(ctx, bucket, election, was)
	if err != nil {
		return err
	}
	return printResult(g.out(), asJSON, done, done.lines())
}

// deleteKey deletes the key, and prints the consequences.
func (s *stepDown) deleteKey(ctx context.Context, look *inspector, x electionStatus) error {
	limited, cancel := s.withTimeout(ctx)
	defer cancel()
	info, unfit := look.bucket.Info(limited)
	if unfit != nil && !errors.Is(unfit, leader.ErrIncompatibleBucket) {
		return unfit
	}
	who := printable(x.holder.ID) + " leads it and finds out at its next renewal"
	st := x.at(look.clock.now())
	switch st {
	case stateLeading:
	case statePending:
		who = printable(x.holder.ID) + " holds it without leading yet, and finds out at its next renewal"
	case stateForeign:
		who = "it holds something that natsleader did not write"
	case stateNever, stateDeleted, stateReleased, stateExpired:
		return exitError{exitFailed, fmt.Errorf("nobody leads %s: there is nothing to delete", s.election)}
	}
	out := s.wordsOf(s.asJSON)
	out.say("Deleting the key of %s:\n- %s.", s.election, who)
	for _, line := range s.waits(x, info) {
		out.say("- %s.", line)
	}
	out.say("- Until then nobody leads.")
	if !s.yes && !out.confirmed("Delete it?") {
		return exitError{exitFailed, errors.New("nothing was deleted")}
	}
	var as electionStatus
	err := look.within(ctx, func(ctx context.Context) (err error) {
		as, err = s.remove(ctx, look, look.bucket.Backend(), x, st, info.MaxValue)
		return err
	})
	switch {
	case err != nil:
		return err
	case as.holder.Lease != x.holder.Lease || keeps(as, info.MaxValue) != keeps(x, info.MaxValue): // renewed with another lease or size
		out.say("deleted; it was written again meanwhile:")
		for _, line := range s.waits(as, info) {
			out.say("- %s.", line)
		}
	default:
		out.say("deleted")
	}
	if s.asJSON {
		return printJSON(s.out(), newDeletion(s.election, as), "  ")
	}
	return nil
}

// deletion is the outcome of a deleted key.
type deletion struct {
	Election string         `json:"election"`
	Deleted  bool           `json:"deleted"`
	From     *leaderSummary `json:"from,omitempty"` // nil: the key held something else
	Lease    float64        `json:"lease_seconds,omitempty"`
}

func newDeletion(election string, x electionStatus) deletion {
	d := deletion{Election: election, Deleted: true, Lease: x.holder.Lease.Seconds()}
	if x.holder.ID != "" {
		d.From = &leaderSummary{x.holder.ID, x.holder.Token}
	}
	return d
}

// keeps reports whether the delete marker carries the record, so that candidates
// wait for its lease. The lease of a foreign record is not known, and the largest
// records do not fit beside the marker's header. most is [leader.BucketInfo].MaxValue.
func keeps(x electionStatus, most int) bool {
	const header = len("KV-Operation: DEL\r\n")
	return !x.holder.Foreign && (most == 0 || len(x.entry.Value)+header <= most)
}

// waits describes for how long candidates wait when the record is deleted.
func (s *stepDown) waits(x electionStatus, info leader.BucketInfo) []string {
	lease, bound := x.holder.Lease, max(info.MaxLease, info.TTL)
	switch {
	case keeps(x, info.MaxValue) && bound > 0 && lease > bound:
		return []string{
			fmt.Sprintf("Candidates wait for %v, the lease on record", lease),
			fmt.Sprintf("That is more than the bucket allows. If no leader has such a lease, `nats kv del %s %s` makes candidates wait for %v instead", s.bucket, s.election, bound),
		}
	case keeps(x, info.MaxValue):
		return []string{fmt.Sprintf("Candidates wait for %v, the lease on record", lease)}
	case bound == 0:
		return []string{"Candidates wait for as long as their own lease: the bucket bounds none"}
	case lease > bound:
		return []string{
			fmt.Sprintf("Candidates wait for %v, the longest lease that the bucket allows", bound),
			fmt.Sprintf("The lease on record is %v, and the record is too large for the marker to keep: the old leader may lead beside the next", lease),
		}
	}
	return []string{fmt.Sprintf("Candidates wait for %v, the longest lease that the bucket allows", bound)}
}

// remove deletes the key if only renewals have changed it since it was shown. The
// answer to a prompt takes a while, and the operator does not mean a leader that was
// elected by then. remove returns the record that it has deleted.
func (s *stepDown) remove(ctx context.Context, look *inspector, bucket backend.Store, shown electionStatus, as state, most int) (electionStatus, error) {
	for {
		x, err := look.one(ctx, s.election)
		if err != nil {
			return x, err
		}
		now := look.clock.now()
		if x.holder.ID != shown.holder.ID || x.holder.Token != shown.holder.Token || x.at(now) != as {
			return x, exitError{exitFailed, fmt.Errorf("%s by now; nothing was deleted", s.describeNow(x, now))}
		}
		var body []byte
		if keeps(x, most) {
			body = x.entry.Value
		}
		marked := make(chan error, 1)
		bucket.Mark(ctx, s.election, body, x.entry.Revision, func(_ uint64, err error) { marked <- err })
		switch err = <-marked; {
		case errors.Is(err, leader.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
			return x, fmt.Errorf("it is not known whether the key was deleted: %w", err)
		case !errors.Is(err, backend.ErrRefused):
			return x, err
		}
		const soon = 20 * time.Millisecond
		select { // it was renewed meanwhile, or a replica that lags was read
		case <-time.After(soon):
		case <-ctx.Done():
			return x, fmt.Errorf("%w: the key changes too fast to be deleted: %w", leader.ErrUnreachable, ctx.Err())
		}
	}
}

// describeNow describes the current holder of the key.
func (s *stepDown) describeNow(x electionStatus, now time.Time) string {
	id := printable(x.holder.ID)
	switch x.at(now) {
	case stateLeading:
		return fmt.Sprintf("%s leads %s with token %d", id, s.election, x.holder.Token)
	case statePending:
		return id + " holds the key of " + s.election
	case stateForeign:
		return "the key of " + s.election + " holds something that natsleader did not write"
	case stateNever, stateDeleted, stateReleased, stateExpired:
	}
	return "nobody leads " + s.election
}

// requester names the user and host for the leader's log.
func requester(command string) string {
	name := "somebody"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	return name + " on " + host + ", with natsleader " + command
}
