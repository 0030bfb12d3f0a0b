package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/leader"
)

// runAll asks all leaders of --id or --host.
func (s *stepDown) runAll(ctx context.Context, look *inspector) error {
	limited, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	all := map[asked]error{}
	for {
		led, again, err := s.led(ctx, look, all)
		switch {
		case err != nil:
			return err
		case len(led) == 0:
			return s.end(all, again)
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

// led reads the elections of the leaders that are meant. again are those whose leaders were asked before.
func (s *stepDown) led(ctx context.Context, look *inspector, done map[asked]error) (led, again []electionStatus, err error) {
	all, err := answer(ctx, look, look.all)
	now := look.clock.now()
	for _, x := range all {
		if x.at(now) != stateLeading || !s.means(x.holder.ID) || checkElection(x.election) != nil {
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
var madeID = regexp.MustCompile(`_\d+_[0-9a-z]+$`)

// means reports whether the candidate of that ID is to hand over.
func (s *stepDown) means(id string) bool {
	if s.host == "" {
		return id == s.id
	}
	return onHost(id, s.host)
}

// onHost reports whether an ID is that of a host, or one that was made on it.
func onHost(id, host string) bool { return id == host || hostOf(id) == host }

// hostOf returns the host on which an ID was made, or the ID if it was given.
func hostOf(id string) string { return madeID.ReplaceAllString(id, "") }

func (s *stepDown) whose() string { return printable(cmp.Or(s.id, s.host)) }

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
		return printJSON(s.out(), done, "")
	}
	return printLines(s.out(), []string{strings.Join(done.lines(), "; ")})
}

// end sums up. Of several failures the greatest exit code counts: 124 and 69 name a leader
// that may still hand over, 1 names one that does not.
func (s *stepDown) end(done map[asked]error, again []electionStatus) error {
	code, failed := 0, 0
	for _, err := range done {
		if err != nil {
			code, failed = max(code, codeOf(err)), failed+1
		}
	}
	switch {
	case failed > 0:
		return exitf(code, "%d of %d leaders have not handed over", failed, len(done))
	case len(again) > 0:
		return exitf(exitFailed, "%s leads again, since no other candidate took over: %s", s.whose(), shortList(again))
	case s.asJSON:
		return nil
	}
	text := s.whose() + " leads nothing in bucket " + s.bucket
	if len(done) > 0 {
		text += " any more, and stays a candidate"
	}
	return printLines(s.out(), []string{text})
}

// show prints what is led.
func (s *stepDown) show(led []electionStatus, now time.Time) error {
	if s.asJSON {
		for _, x := range led {
			if err := printJSON(s.out(), x.summary(now), ""); err != nil {
				return err
			}
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
	return g.complete(func(ctx context.Context, s *inspector) ([]string, error) {
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
