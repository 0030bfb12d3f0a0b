package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

const transferHelp = `The leader ends its term, finishes its work within its drain timeout, and hands
over to the candidate with that ID, which leads after two round trips; without an
ID to the next of the roster. All others wait for a moment before they try. The
one that has handed over stays a candidate.

The exit code is 1 if nobody leads, the leader refuses, nobody of that ID stands,
or another leads then; 69 if the leader does not answer; and 124 if it has not
handed over in time.

  natsleader transfer billing web-2
  natsleader transfer billing`

type transfer struct {
	*globals
	election, id string
	wait         time.Duration
	asJSON       bool
}

func registerTransfer(app *fisk.Application, g *globals) {
	t := &transfer{globals: g}
	cmd := app.Command("transfer", "Ask the leader to hand over to somebody").HelpLong(transferHelp)
	cmd.Arg("election", "Election whose leader is asked").Required().HintAction(g.electionNames).StringVar(&t.election)
	cmd.Arg("id", "ID of the candidate that is to lead; the next of the roster by default").HintAction(t.candidateIDs).StringVar(&t.id)
	cmd.Flag("wait", "Longest time to wait until it leads").Default("30s").DurationVar(&t.wait)
	cmd.Flag("json", "Print the outcome as JSON").Short('j').UnNegatableBoolVar(&t.asJSON)
	cmd.Action(func(*fisk.ParseContext) error { return t.run(context.Background()) })
}

func (t *transfer) run(ctx context.Context) error {
	look, x, err := t.look(ctx, t.election)
	if err != nil {
		return err
	}
	defer look.close()
	switch {
	case x.at(look.clock.now()) != stateLeading:
		return nobodyLeads(t.election)
	case x.holder.ID == t.id:
		already := &leaderSummary{x.holder.ID, x.holder.Token}
		return printResult(t.out(), t.asJSON, handover{Election: t.election, From: already, Leader: already},
			[]string{fmt.Sprintf("%s leads %s already, with token %d", printable(t.id), t.election, x.holder.Token)})
	}
	ctx, cancel := context.WithTimeout(ctx, t.wait)
	defer cancel()
	was, err := leader.Transfer(ctx, look.bucket, t.election, t.id, requester("transfer"))
	if errors.Is(err, leader.ErrRequestRefused) && strings.Contains(err.Error(), wire.NoRosterReason) {
		return exitf(exitFailed, "%s reads no roster, so it does not know the next candidate: name one (natsleader "+
			"transfer %s ID), or start the candidates with --roster (natsleader run) or Config.Roster", printable(was.ID), t.election)
	}
	done, err := handedOver(ctx, look.bucket, t.election, t.wait, was, err)
	if err != nil {
		return err
	}
	return printResult(t.out(), t.asJSON, done, done.lines())
}

// candidateIDs completes the ID of a candidate.
func (t *transfer) candidateIDs() []string {
	if checkElection(t.election) != nil {
		return nil
	}
	return t.complete(func(ctx context.Context, s *inspector) ([]string, error) {
		stand, err := leader.Roster(ctx, s.bucket, t.election)
		var ids []string
		for _, c := range stand {
			if unquoted(c.ID) {
				ids = append(ids, c.ID)
			}
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
