package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/choria-io/fisk"
	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/internal/deadline"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
)

const drainAllHelp = `It asks all leaders of the bucket with that ID, or on that host, to hand over. Then it looks
again, until there is none. The ID of a candidate that was given no ID begins with the name
of its host: web-1 means these, and the ID web-1. Drain a candidate with an ID of
another form by that ID. If a leader refuses or is silent, the others hand over all the same. It asks for no confirmation: look at
status --roster first.

The candidates stay, and may lead again. With --cordon they do not, before uncordon: see
cordon. Without it, stop the process soon.

With --cordon it also drains the members of groups with that ID, or on that host, until
uncordon, and waits until they own no shards: see shards drain. A member that joins
later takes shards, so do not start its process again.

The exit code is 1 if a leader refuses or leads again, 69 if one does not answer, and 124
if a leader or member has not handed over in time.

  natsleader drain "$(hostname)" --cordon
  natsleader drain web-1 --dry-run`

func registerDrain(app *fisk.Application, g *globals) {
	s := &stepDown{globals: g, tool: "drain"}
	cmd := app.Command("drain", "Ask all leaders of a process or host to hand over").HelpLong(drainAllHelp)
	cmd.Arg("name", "ID of a leader, or the host name with which generated IDs begin").Required().HintAction(g.leaderIDs).StringVar(&s.name)
	cmd.Flag("cordon", "Cordon the name first, so that its candidates do not lead again, and drain its members of groups").UnNegatableBoolVar(&s.cordon)
	cmd.Flag("wait", "Longest time to wait until all have handed over").Default("30s").DurationVar(&s.wait)
	cmd.Flag("dry-run", "Only show which elections they lead").UnNegatableBoolVar(&s.dryRun)
	cmd.Flag("json", "Print a list of the elections, and of the groups that were drained, as JSON").Short('j').UnNegatableBoolVar(&s.asJSON)
	cmd.Action(func(*fisk.ParseContext) error {
		if s.cordon && s.dryRun {
			return usagef("--dry-run takes no --cordon; nothing was done")
		}
		return g.inspectBucket(s.runAll)
	})
}

// runAll asks all leaders of a process or host.
func (s *stepDown) runAll(ctx context.Context, look *inspector) error {
	err := s.askAll(ctx, look)
	if err != nil && s.cordoned {
		err = fmt.Errorf("%w; %s stays cordoned", err, s.whose())
	}
	if s.listed == nil {
		return err
	}
	return cmp.Or(printJSON(s.out(), s.listed, "  "), err)
}

func (s *stepDown) askAll(ctx context.Context, look *inspector) error {
	var undrained error
	began := time.Now()
	limited, cancel := context.WithDeadline(ctx, began.Add(s.wait))
	defer cancel()
	if s.cordon {
		if _, err := look.recordon(ctx, func(names []string) ([]string, error) { return append(names, s.name), nil }); err != nil {
			return err
		}
		s.cordoned = true
		undrained = s.drainMembers(ctx, look)
	}
	all := map[asked]error{}
	for {
		led, again, soon, err := s.led(ctx, look, all)
		if err != nil {
			return err
		}
		if s.asJSON && s.listed == nil {
			s.listed = []any{}
		}
		switch {
		case len(led) == 0 && len(soon) > 0 && deadline.Sleep(limited, 250*time.Millisecond) == nil:
			continue
		case len(led) == 0 && len(soon) > 0:
			return exitf(exitWaited, "%s still has the key of %s after %v", s.whose(), shortList(soon), s.wait)
		case len(led) == 0:
			members := s.awaitMembers(ctx, look, began.Add(s.wait))
			owned, unread := s.owned(ctx, look)
			if !s.cordon && unread != nil { // it was not asked for
				_, _ = fmt.Fprintf(s.errs(), "natsleader: it is not known whether %s owns shards: %s\n", s.whose(), errorText(unread))
				unread = nil
			}
			return s.end(all, again, owned, cmp.Or(undrained, members, unread))
		case s.dryRun:
			return s.show(led, look.clock.now())
		case limited.Err() != nil:
			return exitf(exitWaited, "%s still leads %s after %v", s.whose(), shortList(led), s.wait)
		}
		s.pass(limited, look.bucket, led, all)
	}
}

// asked is an election and a leader that was asked. The leader is asked once: a candidate
// that leads again would go on forever where no other candidate stands. Another candidate on
// the same host may follow it, and is asked next. And a candidate that hands over may win
// another election meanwhile.
type asked struct{ election, id string }

func askedOf(x electionStatus) asked { return asked{x.election, x.holder.ID} }

// led reads the elections of the leaders that are meant. again are those whose leaders were asked before. soon are those
// of which a cordoned candidate has the key already: it keeps that, and leads soon.
func (s *stepDown) led(ctx context.Context, look *inspector, done map[asked]error) (led, again, soon []electionStatus, err error) {
	all, err := answer(ctx, look, look.all)
	if names, _ := cordonOf(look.cordoned); !s.cordoned && !s.dryRun {
		_, s.cordoned = records.Cordoned(names, s.name)
	}
	now := look.clock.now()
	elections, _ := withoutGroups(all) // without its own key a member loses all shards, and gets them again
	for _, x := range elections {
		st := x.at(now)
		if !st.held() || !records.OnHost(x.holder.ID, s.name) || checkElection(x.election) != nil {
			continue
		}
		switch _, before := done[askedOf(x)]; {
		case st == statePending && s.cordoned:
			soon = append(soon, x)
		case st == statePending:
		case before:
			again = append(again, x)
		default:
			led = append(led, x)
		}
	}
	return led, again, soon, err
}

func (s *stepDown) whose() string { return printable(s.name) }

// mostAtOnce bounds the requests under way: a process may lead thousands of elections.
const mostAtOnce = 64

// pass asks for each election, and prints the outcomes as they come.
func (s *stepDown) pass(ctx context.Context, bucket *leader.Bucket, led []electionStatus, done map[asked]error) {
	var all errgroup.Group
	all.SetLimit(mostAtOnce)
	var mu sync.Mutex
	for _, x := range led {
		all.Go(func() error {
			outcome, err := s.ask(ctx, bucket, x)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = s.print(outcome)
			}
			if done[askedOf(x)] = err; err != nil {
				_, _ = fmt.Fprintf(s.errs(), "natsleader: %s: %s\n", x.election, errorText(err))
			}
			return nil // one failure ends no other request
		})
	}
	_ = all.Wait()
}

func (s *stepDown) print(done handover) error {
	if s.asJSON {
		s.listed = append(s.listed, done)
		return nil
	}
	return printLines(s.out(), []string{strings.Join(done.lines(), "; ")})
}

// end sums up. owned are the shards that it has still, and members is why those that were drained have some. Of several failures
// the greatest exit code counts: 124 and 69 name a leader that may still hand over, 1 names one that does not.
func (s *stepDown) end(done map[asked]error, again []electionStatus, owned string, members error) error {
	code, failed := 0, 0
	for _, err := range done {
		if err != nil {
			code, failed = max(code, codeOf(err)), failed+1
		}
	}
	switch {
	case members != nil && codeOf(members) >= code:
		return members
	case failed > 0:
		return exitf(code, "%d of %d leaders have not handed over", failed, len(done))
	case len(again) > 0:
		return exitf(exitFailed, "%s leads again, since no other candidate took over: %s", s.whose(), shortList(again))
	case s.cordon && owned != "":
		return exitf(exitFailed, "%s owns %s: a member has joined meanwhile", s.whose(), owned)
	case s.asJSON:
		return nil
	}
	text := s.whose() + " leads nothing in bucket " + s.bucket
	if len(done) > 0 {
		text += " any more"
	}
	switch {
	case s.cordoned:
		text += ", and is cordoned"
	case len(done) > 0:
		text += ", and stays a candidate"
	}
	if owned != "" {
		text += "; it owns " + owned + ", which --cordon moves"
	}
	return printLines(s.out(), []string{text})
}

// show prints what is led.
func (s *stepDown) show(led []electionStatus, now time.Time) error {
	if s.asJSON {
		for _, x := range led {
			s.listed = append(s.listed, x.summary(now))
		}
		return nil
	}
	rows := [][]string{overviewHead(now)}
	for _, x := range led {
		rows = append(rows, x.overview(x.at(now), now))
	}
	return printLines(s.out(), columns(rows))
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
func (g *globals) leaderIDs() []string {
	return g.complete("leaders", func(ctx context.Context, s *inspector) ([]string, error) {
		all, err := s.all(ctx)
		var ids []string
		for _, x := range all {
			if x.holder.State == leader.HolderLeading && unquoted(x.holder.ID) {
				ids = append(ids, x.holder.ID)
			}
		}
		slices.Sort(ids)
		return slices.Compact(ids), err
	})
}
