// Package act asks leaders and members to hand over.
package act

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
	"github.com/natsleader/natsleader/shard"
)

// StepDownHelp explains the command.
const StepDownHelp = `The leader ends its term, finishes its work within its grace period, and hands over; the
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

// StepDown is the act that ends one term, or moves one shard.
type StepDown struct {
	*front.Globals
	Election           string // or with a shard the group
	to                 string // ID, or "next"; empty: any
	shard              int
	byShard            bool
	Wait               time.Duration
	force, Yes, dryRun bool
	asJSON             bool
	Tool               string // that asks
}

// toNext is the value of --to for the next candidate of the roster.
const toNext = "next"

// RegisterStepDown adds the command step-down.
func RegisterStepDown(app *fisk.Application, g *front.Globals) {
	s := &StepDown{Globals: g, Tool: "step-down"}
	cmd := app.Command("step-down", "Let another candidate lead, or another member work on a shard").HelpLong(StepDownHelp)
	cmd.Arg("name", "Election whose leader is asked, or group").Required().HintAction(func() []string { return inspect.NamesToShow(g) }).StringVar(&s.Election)
	cmd.Flag("to", "ID that follows, or next for the next of the roster").PlaceHolder("ID").HintAction(s.SuccessorIDs).StringVar(&s.to)
	cmd.Flag("shard", "Move this shard of a group").PlaceHolder("NUMBER").IsSetByUser(&s.byShard).IntVar(&s.shard)
	cmd.Flag("wait", "Longest time to wait until that is so").Default("30s").DurationVar(&s.Wait)
	cmd.Flag("dry-run", "Print what it would do").UnNegatableBoolVar(&s.dryRun)
	cmd.Flag("force", "Delete the key instead of asking").UnNegatableBoolVar(&s.force)
	cmd.Flag("yes", "Do not ask for confirmation").Short('y').UnNegatableBoolVar(&s.Yes)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&s.asJSON)
	cmd.Action(func(*fisk.ParseContext) error { return s.run(context.Background()) })
}

func (s *StepDown) run(ctx context.Context) error {
	switch {
	case s.byShard && s.shard < 0:
		return front.Usagef("--shard %d is negative", s.shard)
	case s.byShard && (s.to == "" || s.to == toNext):
		return front.Usagef("--shard needs --to with the ID of a member; nothing was done")
	case s.force && (s.to != "" || s.byShard):
		return front.Usagef("--force takes no --to and no --shard; nothing was deleted")
	case s.force && s.dryRun:
		return front.Usagef("--force takes no --dry-run; nothing was deleted")
	case s.force && !s.Yes && !s.CanAsk():
		return front.Usagef("--force needs --yes where it cannot ask: standard input is no terminal; nothing was deleted")
	case s.byShard:
		return inspect.DoExisting(s.Globals, s.move)
	}
	look, x, err := inspect.Look(ctx, s.Globals, s.Election)
	if err != nil {
		return err
	}
	defer look.Close()
	now := look.Clock.Now()
	switch {
	case s.force:
		return s.deleteKey(ctx, look, x)
	case x.At(now) != facts.Leading:
		return explainNobody(ctx, look, s.Election)
	case x.Holder.ID == s.to:
		already := &leaderSummary{x.Holder.ID, x.Holder.Token}
		return front.PrintResult(s.Out(), s.asJSON, handover{Election: s.Election, DryRun: s.dryRun, From: already, Leader: already},
			[]string{fmt.Sprintf("%s leads %s already, with token %d", front.Printable(s.to), s.Election, x.Holder.Token)})
	case s.dryRun:
		if err = s.foresee(ctx, look); err != nil {
			return err
		}
		plan := handover{Election: s.Election, DryRun: true, From: &leaderSummary{x.Holder.ID, x.Holder.Token}, To: s.to}
		line := wouldAsk(x)
		if s.to != "" {
			line += " to " + front.Printable(s.to)
		}
		return front.PrintResult(s.Out(), s.asJSON, plan, []string{line})
	}
	if s.to == "" {
		if err = s.confirmLast(ctx, look, x); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.Wait)
	defer cancel()
	done, err := s.ask(ctx, look.Bucket, x)
	if err != nil {
		return err
	}
	again := done.Leader != nil && done.Leader.ID == done.From.ID
	return front.ExitIf(again, front.ExitFailed, front.PrintResult(s.Out(), s.asJSON, done, done.lines()))
}

// foresee returns an error if the candidate that is to follow has not announced itself in the roster. Without a roster that can
// be read it is not known.
func (s *StepDown) foresee(ctx context.Context, look *inspect.Inspector) error {
	if s.to == "" || look.Roster == "" {
		return nil
	}
	others, err := inspect.Answer(ctx, look, view.Lineup{Election: s.Election}.Others(look))
	switch {
	case errors.Is(err, leader.ErrNoRoster):
	case err != nil:
		_, _ = fmt.Fprintf(s.Errs(), "natsleader: the roster was not read, so it is not known whether that candidate stands: %s\n", front.ErrorText(err))
	case s.to == toNext && len(others) == 0:
		return front.Exitf(front.ExitFailed, "no candidate of %s but its leader has announced itself in the roster", s.Election)
	case s.to != toNext && !slices.ContainsFunc(others, func(c roster.Entry) bool { return c.ID == s.to }):
		return front.Exitf(front.ExitFailed, "%s has not announced itself in the roster of %s", front.Printable(s.to), s.Election)
	}
	return nil
}

// confirmLast asks for confirmation if no other candidate has announced itself in the
// bucket's roster. A roster that cannot be read does not prevent the request.
func (s *StepDown) confirmLast(ctx context.Context, look *inspect.Inspector, x facts.ElectionStatus) error {
	if s.Yes || look.Roster == "" { // without a roster it is not known which candidates stand
		return nil
	}
	others, err := inspect.Answer(ctx, look, view.Lineup{Election: s.Election}.Others(look))
	id, lease := front.Printable(x.Holder.ID), x.Holder.Lease
	switch {
	case errors.Is(err, leader.ErrNoRoster):
		return nil
	case err != nil:
		_, _ = fmt.Fprintf(s.Errs(), "natsleader: the roster was not read, so it is not known whether another candidate "+
			"stands: %s\n", front.ErrorText(err))
		return nil
	case len(others) > 0:
		return nil
	case !s.CanAsk():
		return front.Usagef("no candidate of %s but its leader %s has announced itself in the roster, and standard input is no "+
			"terminal: --yes asks the leader all the same; nothing was done", s.Election, id)
	}
	out := s.WordsOf(s.asJSON)
	out.Say("No candidate of %s but its leader %s has announced itself in the roster.", s.Election, id)
	out.Say("- Candidates without the roster are not seen.")
	out.Say("- If none takes the key, nobody leads until %s takes it again, after its lease of %v at the latest.", id, lease)
	return out.Confirm(s.Yes, "Ask it to hand over?", "nothing was done")
}

// ask asks the leader of an election to hand over. A term that is over by then needs no request.
func (s *StepDown) ask(ctx context.Context, bucket *leader.Bucket, x facts.ElectionStatus) (handover, error) {
	o := leader.StepDownOptions{To: s.to, By: Requester(s.Tool), Token: x.Holder.Token}
	if s.to == toNext {
		o.To, o.Next = "", true
	}
	was, err := leader.StepDown(ctx, bucket, x.Election, o)
	refused := errors.Is(err, leader.ErrRequestRefused)
	switch {
	case o.Next && refused && strings.Contains(err.Error(), wire.NoRosterReason):
		return handover{}, front.Exitf(front.ExitFailed, "%s reads no roster, so it does not know the next candidate: name one (natsleader "+
			"step-down %s --to ID), or start the candidates with --roster (natsleader run) or Config.Queue", front.Printable(was.ID), x.Election)
	case s.to != "":
	case errors.Is(err, leader.ErrNoLeader):
		over := handover{Election: x.Election, Over: true, From: &leaderSummary{x.Holder.ID, x.Holder.Token}}
		if was.State == leader.HolderLeading {
			over.Leader = &leaderSummary{was.ID, was.Token}
		}
		return over, nil
	case refused:
		return handover{}, front.Exitf(front.ExitFailed, "%s refuses requests to step down; natsleader step-down %s --force deletes "+
			"the key instead", front.Printable(was.ID), x.Election)
	}
	return HandedOver(ctx, bucket, x.Election, s.Wait, was, err)
}

func explainNobody(ctx context.Context, s *inspect.Inspector, election string) error {
	if s.IsGroup(ctx, election) {
		return inspect.IsNoElection(election)
	}
	return nobodyLeads(election)
}

func nobodyLeads(election string) error {
	return front.Exitf(front.ExitFailed, "nobody leads %s", election)
}

// explainFailure explains why the leader has not handed over on request, as far as is known.
func explainFailure(err error, election string, was leader.Holder, wait time.Duration) error {
	id := front.Printable(was.ID)
	switch {
	case errors.Is(err, leader.ErrNoLeader) && was.State == leader.HolderLeading:
		return front.Exitf(front.ExitFailed, "%s leads %s now, and was not asked", id, election)
	case errors.Is(err, leader.ErrNoLeader):
		return nobodyLeads(election)
	case errors.Is(err, leader.ErrUnreachable) && id != "":
		return front.Exitf(front.ExitUnreachable, "%s has not handed over, and does not answer: it may be draining, or may not be "+
			"allowed to answer, or is gone; wait and look again, or delete the key with natsleader step-down %s --force",
			id, election)
	case errors.Is(err, context.DeadlineExceeded) && id != "":
		return front.Exitf(front.ExitWaited, "%s has not handed over within %v; it still may", id, wait)
	}
	return err
}

// handover is the outcome of a request to hand over, or of a deleted key.
type handover struct {
	Election string         `json:"election"`
	DryRun   bool           `json:"dry_run,omitempty"`
	Deleted  bool           `json:"deleted,omitempty"`
	Over     bool           `json:"over,omitempty"`   // the term had ended before it was asked
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

// HandedOver explains the error of a request to hand over, or waits a moment for the leader that follows.
func HandedOver(
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
func wouldAsk(x facts.ElectionStatus) string {
	return fmt.Sprintf("would ask %s to hand over %s (token %d)", front.Printable(x.Holder.ID), x.Election, x.Holder.Token)
}

// lines describes the outcome for people.
func (h handover) lines() []string {
	next := "nobody leads yet"
	switch {
	case h.Leader == nil:
	case h.Leader.ID == h.From.ID:
		next = fmt.Sprintf("no other candidate has taken it: %s leads again with token %d", front.Printable(h.Leader.ID), h.Leader.Token)
	default:
		next = fmt.Sprintf("%s leads with token %d", front.Printable(h.Leader.ID), h.Leader.Token)
	}
	how := "has handed over"
	if h.Over {
		how = "was not asked, and leads no more:"
	}
	return []string{fmt.Sprintf("%s %s %s (token %d)", front.Printable(h.From.ID), how, h.Election, h.From.Token), next}
}

// Requester names the user and host for the leader's log.
func Requester(command string) string {
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

// SuccessorIDs completes the ID of a candidate, or of a member of a group.
func (s *StepDown) SuccessorIDs() []string {
	if inspect.CheckElection(s.Election) != nil {
		return nil
	}
	return inspect.Complete(s.Globals, "candidates", func(ctx context.Context, look *inspect.Inspector) (ids []string, err error) {
		add := func(id string) {
			if unquoted(id) {
				ids = append(ids, id)
			}
		}
		if s.byShard {
			v, unread := shard.Lookup(ctx, look.Patient(), s.Election)
			for _, p := range v.Members {
				add(p.ID)
			}
			return ids, unread
		}
		stand, err := roster.Lookup(ctx, look.Bucket, s.Election)
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
