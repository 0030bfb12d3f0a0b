package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"
	"unicode"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
	"github.com/natsleader/natsleader/shard"
)

const stepDownHelp = `The leader ends its term, finishes its work within its grace period, and hands over; the
next leads after two round trips. It stays a candidate, and leads again if no other
candidate has taken the key after a few turns.

With --to it hands over to the candidate with that ID, or with --to next to the next of
the roster. All others wait for a moment before they try. Without --to, where the bucket
keeps a roster and no other candidate has announced itself, it says so and asks for
confirmation.

With --shard the owner of that shard of a group ends the work on it, and then, or after
its GracePeriod, the member of --to begins. If that makes the spread uneven, another
shard leaves this member.

A leader that does not hand over can be pushed out with --force, which deletes the key
while it is still that leader's. The leader finds out by its next renewal. Candidates wait
for the lease on record, which the delete marker keeps, and until then nobody leads. It
asks for confirmation.

Where standard input is no terminal, a question is not asked: nothing is done without
--yes.

The exit code is 1 if nobody leads the election, the leader refuses or leads again, the
answer is no, no candidate or member with the ID of --to can follow, another leads then,
or with --force if the leader changed meanwhile; 64 if --yes is missing; 69 if the leader
does not answer; and 124 if it has not handed over, or the shard has not moved, in time:
the request for a shard stays.

  natsleader step-down billing
  natsleader step-down billing --to web-2
  natsleader step-down orders --shard 7 --to web-2
  natsleader step-down billing --force --yes`

// stepDown is the act that ends one term, or moves one shard.
type stepDown struct {
	*globals
	election           string // or with a shard the group
	to                 string // ID, or "next"; empty: any
	shard              int
	byShard            bool
	wait               time.Duration
	force, yes, dryRun bool
	asJSON             bool
	tool               string // that asks
}

// toNext is the value of --to for the next candidate of the roster.
const toNext = "next"

func registerStepDown(app *fisk.Application, g *globals) {
	s := &stepDown{globals: g, tool: "step-down"}
	cmd := app.Command("step-down", "Let another candidate lead, or another member work on a shard").HelpLong(stepDownHelp)
	cmd.Arg("name", "Election whose leader is asked, or group").Required().HintAction(g.namesToShow).StringVar(&s.election)
	cmd.Flag("to", "ID that follows, or next for the next of the roster").PlaceHolder("ID").HintAction(s.successorIDs).StringVar(&s.to)
	cmd.Flag("shard", "Move this shard of a group").PlaceHolder("NUMBER").IsSetByUser(&s.byShard).IntVar(&s.shard)
	cmd.Flag("wait", "Longest time to wait until that is so").Default("30s").DurationVar(&s.wait)
	cmd.Flag("dry-run", "Print what it would do").UnNegatableBoolVar(&s.dryRun)
	cmd.Flag("force", "Delete the key instead of asking").UnNegatableBoolVar(&s.force)
	cmd.Flag("yes", "Do not ask for confirmation").Short('y').UnNegatableBoolVar(&s.yes)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&s.asJSON)
	cmd.Action(func(*fisk.ParseContext) error { return s.run(context.Background()) })
}

func (s *stepDown) run(ctx context.Context) error {
	switch {
	case s.byShard && s.shard < 0:
		return usagef("--shard %d is negative", s.shard)
	case s.byShard && (s.to == "" || s.to == toNext):
		return usagef("--shard needs --to with the ID of a member; nothing was done")
	case s.force && (s.to != "" || s.byShard):
		return usagef("--force takes no --to and no --shard; nothing was deleted")
	case s.force && s.dryRun:
		return usagef("--force takes no --dry-run; nothing was deleted")
	case s.force && !s.yes && !s.canAsk():
		return usagef("--force needs --yes where it cannot ask: standard input is no terminal; nothing was deleted")
	case s.byShard:
		return s.inspectBucket(s.move)
	}
	look, x, err := s.look(ctx, s.election)
	if err != nil {
		return err
	}
	defer look.close()
	now := look.clock.now()
	switch {
	case s.force:
		return s.deleteKey(ctx, look, x)
	case x.at(now) != stateLeading:
		return look.nobodyLeads(ctx, s.election)
	case x.holder.ID == s.to:
		already := &leaderSummary{x.holder.ID, x.holder.Token}
		return printResult(s.out(), s.asJSON, handover{Election: s.election, DryRun: s.dryRun, From: already, Leader: already},
			[]string{fmt.Sprintf("%s leads %s already, with token %d", printable(s.to), s.election, x.holder.Token)})
	case s.dryRun:
		plan := handover{Election: s.election, DryRun: true, From: &leaderSummary{x.holder.ID, x.holder.Token}, To: s.to}
		line := wouldAsk(x)
		if s.to != "" {
			line += " to " + printable(s.to)
		}
		return printResult(s.out(), s.asJSON, plan, []string{line})
	}
	if s.to == "" {
		if err = s.confirmLast(ctx, look, x); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	done, err := s.ask(ctx, look.bucket, x)
	if err != nil {
		return err
	}
	again := done.Leader != nil && done.Leader.ID == done.From.ID
	return exitIf(again, exitFailed, printResult(s.out(), s.asJSON, done, done.lines()))
}

// confirmLast asks for confirmation if no other candidate has announced itself in the
// bucket's roster. A roster that cannot be read does not prevent the request.
func (s *stepDown) confirmLast(ctx context.Context, look *inspector, x electionStatus) error {
	if s.yes || look.roster == "" { // without a roster it is not known which candidates stand
		return nil
	}
	others, err := answer(ctx, look, lineup{election: s.election}.others(look))
	id, lease := printable(x.holder.ID), x.holder.Lease
	switch {
	case errors.Is(err, leader.ErrNoRoster):
		return nil
	case err != nil:
		_, _ = fmt.Fprintf(s.errs(), "natsleader: the roster was not read, so it is not known whether another candidate "+
			"stands: %s\n", errorText(err))
		return nil
	case len(others) > 0:
		return nil
	case !s.canAsk():
		return usagef("no candidate of %s but its leader %s has announced itself in the roster, and standard input is no "+
			"terminal: --yes asks the leader all the same; nothing was done", s.election, id)
	}
	out := s.wordsOf(s.asJSON)
	out.say("No candidate of %s but its leader %s has announced itself in the roster.", s.election, id)
	out.say("- Candidates without the roster are not seen.")
	out.say("- If none takes the key, nobody leads until %s takes it again, after its lease of %v at the latest.", id, lease)
	return out.confirm(s.yes, "Ask it to hand over?", "nothing was done")
}

// ask asks the leader of an election to hand over. A term that is over by then needs no request.
func (s *stepDown) ask(ctx context.Context, bucket *leader.Bucket, x electionStatus) (handover, error) {
	o := leader.StepDownOptions{To: s.to, By: requester(s.tool)}
	if s.to == toNext {
		o.To, o.Next = "", true
	}
	was, err := leader.StepDown(ctx, bucket, x.election, o)
	refused := errors.Is(err, leader.ErrRequestRefused)
	switch {
	case o.Next && refused && strings.Contains(err.Error(), wire.NoRosterReason):
		return handover{}, exitf(exitFailed, "%s reads no roster, so it does not know the next candidate: name one (natsleader "+
			"step-down %s --to ID), or start the candidates with --roster (natsleader run) or Config.Queue", printable(was.ID), x.election)
	case s.to != "":
	case errors.Is(err, leader.ErrNoLeader):
		return handover{Election: x.election, From: &leaderSummary{x.holder.ID, x.holder.Token}}, nil
	case refused:
		return handover{}, exitf(exitFailed, "%s refuses requests to step down; natsleader step-down %s --force deletes "+
			"the key instead", printable(was.ID), x.election)
	}
	return handedOver(ctx, bucket, x.election, s.wait, was, err)
}

func (s *inspector) nobodyLeads(ctx context.Context, election string) error {
	if s.isGroup(ctx, election) {
		return isNoElection(election)
	}
	return nobodyLeads(election)
}

func nobodyLeads(election string) error {
	return exitf(exitFailed, "nobody leads %s", election)
}

// explainFailure explains why the leader has not handed over on request, as far as is known.
func explainFailure(err error, election string, was leader.Holder, wait time.Duration) error {
	id := printable(was.ID)
	switch {
	case errors.Is(err, leader.ErrNoLeader):
		return nobodyLeads(election)
	case errors.Is(err, leader.ErrUnreachable) && id != "":
		return exitf(exitUnreachable, "%s has not handed over, and does not answer: it may be draining, or may not be "+
			"allowed to answer, or is gone; wait and look again, or delete the key with natsleader step-down %s --force",
			id, election)
	case errors.Is(err, context.DeadlineExceeded) && id != "":
		return exitf(exitWaited, "%s has not handed over within %v; it still may", id, wait)
	}
	return err
}

// handover is the outcome of a request to hand over, or of a deleted key.
type handover struct {
	Election string         `json:"election"`
	DryRun   bool           `json:"dry_run,omitempty"`
	Deleted  bool           `json:"deleted,omitempty"`
	To       string         `json:"to,omitempty"`     // of a plan
	From     *leaderSummary `json:"from,omitempty"`   // nil: the deleted key held something else
	Leader   *leaderSummary `json:"leader,omitempty"` // the next; nil: no candidate leads yet
	Lease    float64        `json:"lease_seconds,omitempty"`
}

// leaderSummary names a leader for programs.
type leaderSummary struct {
	ID    string `json:"id"`
	Token uint64 `json:"token"`
}

// handedOver explains the error of a request to hand over, or waits a moment for the leader that follows.
func handedOver(
	ctx context.Context, bucket *leader.Bucket, election string, wait time.Duration, was leader.Holder, err error,
) (handover, error) {
	if err != nil {
		return handover{}, explainFailure(err, election, was, wait)
	}
	done := handover{Election: election, From: &leaderSummary{was.ID, was.Token}}
	const moment = 4 * time.Second // longer than a leader waits for others, with the usual turns
	ctx, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	holders, err := leader.Observe(ctx, bucket, election)
	if err != nil {
		return done, err
	}
	for h := range holders {
		if h.State == leader.HolderLeading && h.Token > was.Token {
			done.Leader = &leaderSummary{h.ID, h.Token}
			break
		}
	}
	return done, nil
}

// wouldAsk is the line of a plan.
func wouldAsk(x electionStatus) string {
	return fmt.Sprintf("would ask %s to hand over %s (token %d)", printable(x.holder.ID), x.election, x.holder.Token)
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

// successorIDs completes the ID of a candidate, or of a member of a group.
func (s *stepDown) successorIDs() []string {
	if checkElection(s.election) != nil {
		return nil
	}
	return s.complete("candidates", func(ctx context.Context, look *inspector) (ids []string, err error) {
		add := func(id string) {
			if unquoted(id) {
				ids = append(ids, id)
			}
		}
		if s.byShard {
			v, unread := shard.Lookup(ctx, look.bucket, s.election)
			for _, p := range v.Members {
				add(p.ID)
			}
			return ids, unread
		}
		stand, err := roster.Lookup(ctx, look.bucket, s.election)
		for _, c := range stand {
			add(c.ID)
		}
		return ids, err
	})
}

// unquoted reports whether a shell takes an ID for one word. Candidates may choose any
// ID.
func unquoted(id string) bool {
	return id != "" && !strings.HasPrefix(id, "-") && !strings.ContainsFunc(id, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.:/@=+,", r)
	})
}
