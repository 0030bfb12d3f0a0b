package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/leader"
)

const drainHelp = `It asks every leader of the bucket with that ID, or on that host, to hand over, as
step-down does. Then it looks again, until there is none. The ID of a candidate that was
given none begins with the name of its host. --host web-1 means these, and the ID web-1.

The candidates stay in their elections, and lead again if no other candidate does. So
stop the process soon. Where no other candidate stands, nobody leads for a moment, and
they lead again: look at status --roster first.

The exit code is 0 if they lead nothing any more, 1 if a leader refuses or leads again,
69 if a leader does not answer, and 124 if one has not handed over in time.

  natsleader drain --host "$(hostname)"
  natsleader drain --id web-1 --dry-run`

type drain struct {
	*globals
	id, host string
	wait     time.Duration
	dryRun   bool
	asJSON   bool
}

func registerDrain(app *fisk.Application, g *globals) {
	d := &drain{globals: g}
	cmd := app.Command("drain", "Ask a process or a host to hand over all that it leads").HelpLong(drainHelp)
	cmd.Flag("id", "ID of the leaders").PlaceHolder("ID").HintAction(d.leaderIDs).StringVar(&d.id)
	cmd.Flag("host", "Host of the leaders, as it begins their IDs").PlaceHolder("HOST").StringVar(&d.host)
	cmd.Flag("wait", "Longest time to wait until all have handed over").Default("30s").DurationVar(&d.wait)
	cmd.Flag("dry-run", "Only show what they lead").UnNegatableBoolVar(&d.dryRun)
	cmd.Flag("json", "Print one line of JSON for each election").Short('j').UnNegatableBoolVar(&d.asJSON)
	cmd.Action(func(*fisk.ParseContext) error { return d.run(context.Background()) })
}

func (d *drain) run(ctx context.Context) error {
	if (d.id == "") == (d.host == "") {
		return usagef("drain takes either --id or --host")
	}
	look, err := d.newInspector(ctx)
	if err != nil {
		return err
	}
	defer look.close()
	limited, cancel := context.WithTimeout(ctx, d.wait)
	defer cancel()
	all := map[asked]error{}
	for {
		led, again, err := d.led(ctx, look, all)
		switch {
		case err != nil:
			return err
		case len(led) == 0:
			return d.end(all, again)
		case d.dryRun:
			return d.show(led, look.clock.now())
		case limited.Err() != nil:
			return exitError{exitWaited, fmt.Errorf("%s still leads %s after %v", d.whose(), shortList(led), d.wait)}
		}
		d.pass(limited, look.bucket, led, all)
	}
}

// asked is an election and a leader that was asked. The leader is asked once: a candidate
// that leads again would go on forever where no other candidate stands. Another candidate on
// the same host may follow it, and is asked next. And a candidate that hands over may win
// another election meanwhile.
type asked struct{ election, id string }

func askedOf(x electionStatus) asked { return asked{x.election, x.holder.ID} }

// led reads the elections that are led by what is to be drained, apart from the ones whose
// leaders were asked before.
func (d *drain) led(ctx context.Context, look *inspector, done map[asked]error) (led, again []electionStatus, err error) {
	var all []electionStatus
	err = look.within(ctx, func(ctx context.Context) (err error) {
		all, err = look.all(ctx)
		return err
	})
	now := look.clock.now()
	for _, x := range all {
		if x.at(now) != stateLeading || !d.means(x.holder.ID) || checkElection(x.election) != nil {
			continue
		}
		if _, before := done[askedOf(x)]; before {
			again = append(again, x)
		} else {
			led = append(led, x)
		}
	}
	return led, again, err
}

// madeID is what follows the host in the ID of a candidate that was given none.
var madeID = regexp.MustCompile(`^_\d+_[0-9a-z]+$`)

// means reports whether the candidate of that ID is to be drained.
func (d *drain) means(id string) bool {
	if d.host == "" {
		return id == d.id
	}
	rest, ok := strings.CutPrefix(id, d.host)
	return ok && (rest == "" || madeID.MatchString(rest))
}

func (d *drain) whose() string { return printable(cmp.Or(d.id, d.host)) }

// mostAtOnce bounds the requests under way: a process may lead thousands of elections.
const mostAtOnce = 64

// pass asks for each election, and prints the outcomes as they come.
func (d *drain) pass(ctx context.Context, bucket *leader.Bucket, led []electionStatus, done map[asked]error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, mostAtOnce)
	for _, x := range led {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			outcome, err := d.ask(ctx, bucket, x)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = d.print(outcome)
			}
			if done[askedOf(x)] = err; err != nil {
				_, _ = fmt.Fprintf(d.errs(), "natsleader: %s: %s\n", x.election, errorText(err))
			}
		})
	}
	all.Wait()
}

// ask asks for one election. A term that is over by then needs no request.
func (d *drain) ask(ctx context.Context, bucket *leader.Bucket, x electionStatus) (handover, error) {
	was, err := leader.StepDown(ctx, bucket, x.election, requester("drain"))
	switch {
	case errors.Is(err, leader.ErrNoLeader):
		return handover{Election: x.election, From: leaderSummary{x.holder.ID, x.holder.Token}}, nil
	case errors.Is(err, leader.ErrRequestRefused):
		return handover{}, exitError{exitFailed, fmt.Errorf("%s refuses requests to step down; natsleader step-down %s --force deletes the key instead", printable(was.ID), x.election)}
	case err != nil:
		return handover{}, explainFailure(err, x.election, was, d.wait, ", or delete the key with natsleader step-down "+x.election+" --force")
	}
	return handedOver(ctx, bucket, x.election, was)
}

func (d *drain) print(done handover) error {
	if d.asJSON {
		return printJSON(d.out(), done, "")
	}
	return printLines(d.out(), []string{strings.Join(done.lines(), "; ")})
}

// end sums up. Of several failures the greatest exit code counts: 124 and 69 name a leader
// that may still hand over, 1 names one that does not.
func (d *drain) end(done map[asked]error, again []electionStatus) error {
	code, failed := 0, 0
	for _, err := range done {
		if err != nil {
			code, failed = max(code, codeOf(err)), failed+1
		}
	}
	switch {
	case failed > 0:
		return exitError{code, fmt.Errorf("%d of %d leaders have not handed over", failed, len(done))}
	case len(again) > 0:
		return exitError{exitFailed, fmt.Errorf("%s leads again, since no other candidate took over: %s", d.whose(), shortList(again))}
	case d.asJSON:
		return nil
	case len(done) == 0:
		return printLines(d.out(), []string{d.whose() + " leads nothing in bucket " + d.bucket})
	}
	return printLines(d.out(), []string{fmt.Sprintf("%s leads nothing in bucket %s any more, and stays a candidate", d.whose(), d.bucket)})
}

// show prints what is led.
func (d *drain) show(led []electionStatus, now time.Time) error {
	if d.asJSON {
		for _, x := range led {
			if err := printJSON(d.out(), x.summary(now), ""); err != nil {
				return err
			}
		}
		return nil
	}
	rows := [][]string{overviewHead(now)}
	for _, x := range led {
		rows = append(rows, x.overview(x.at(now), now))
	}
	return printLines(d.out(), columns(rows))
}

// shortList names the first elections of a list.
func shortList(all []electionStatus) string {
	const most = 5
	var names []string
	for _, x := range all[:min(most, len(all))] {
		names = append(names, printable(x.election))
	}
	text := strings.Join(names, ", ")
	if more := len(all) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// leaderIDs completes the ID of a leader.
func (d *drain) leaderIDs() []string {
	return d.complete(func(ctx context.Context, s *inspector) ([]string, error) {
		all, err := s.all(ctx)
		var ids []string
		for _, x := range all {
			if x.holder.Leads() && unquoted(x.holder.ID) {
				ids = append(ids, x.holder.ID)
			}
		}
		slices.Sort(ids)
		return slices.Compact(ids), err
	})
}
