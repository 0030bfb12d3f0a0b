package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// stepsDown is prompt for a command whose lines come in any order, apart from the last.
func (w *world) stepsDown(line string) {
	out, errs, code := w.run(line)
	lines := strings.SplitAfter(out+errs, "\n")
	slices.Sort(lines[:max(0, len(lines)-2)])
	w.notef("$ natsleader %s\n%s[exit code %d]\n", line, strings.Join(lines, ""), code)
}

// step-down --id hands over each election that the ID leads, and no other.
func TestStepDownAll_ByID(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		for _, election := range []string{"billing", "mail", "reports"} {
			w.campaigns(election, leader.Config{ID: "web-1"})
			w.campaigns(election, leader.Config{ID: "web-2"})
		}
		other := w.campaigns("other", leader.Config{ID: "web-10"})
		time.Sleep(time.Second) // after the renewals
		w.prompt("step-down --id web-1 --dry-run")
		w.stepsDown("step-down --id web-1")
		w.prompt("step-down --id web-1")
		expect.That(w, other.IsLeader(), "web-10 has handed over")
		w.notef("# mistakes\n")
		w.prompt("step-down --id a --host b", "step-down --id a --bucket none", "step-down --id a --force",
			"step-down mail --force --dry-run")
	})
}

// step-down --host asks again if another candidate on the host has followed.
func TestStepDownAll_WholeHost(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		for _, id := range []string{"h_1_aaaaaa", "h_2_bbbbbb", "elsewhere"} {
			w.campaigns("billing", leader.Config{ID: id, Queue: true, TurnTimeout: longTurn})
		}
		time.Sleep(time.Second) // after the renewal
		w.prompt("step-down --host h --dry-run --json", "step-down --host h --json")
	})
}

// step-down --id reports each leader that does not answer within 5 s. The last request waits until another
// one has ended.
func TestStepDownAll_Silent(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.campaigns("model", leader.Config{ID: "m"})
		for i := range mostAtOnce + 1 {
			put(w.T, w.js, fmt.Sprint("silent-", i), renewal(w.T, w.js, "dead", time.Hour))
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			began := time.Now()
			w.stepsDown("step-down --id dead")
			w.notef("# after %v\n", time.Since(began))
		}()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			w.Fatal("requests that have ended keep their place")
		}
	})
}

// A term that is over when its leader is asked needs no request.
func TestStepDownAll_TermIsOver(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		s := &stepDown{globals: w.globals(), id: "a", wait: time.Minute}
		was := electionStatus{election: "free", holder: leader.Holder{ID: "a", Token: 7}}
		done, err := s.ask(w.Context(), w.bucket, was)
		expect.That(w, err == nil && done.Leader == nil && *done.From == (leaderSummary{"a", 7}),
			"%+v, %v", done, err)
	})
}

// Of several failures the exit code is the greatest, in any order, and a leader that leads again is
// a failure.
func TestStepDownAll_EndsWithGreatestCode(t *testing.T) {
	s := &stepDown{globals: &globals{bucket: "elections"}, id: "a", asJSON: true}
	again := []electionStatus{{election: "billing"}}
	for i := range 50 { // the order of a map differs
		all := map[asked]error{{"ok", "a"}: nil}
		for j, code := range []int{exitFailed, exitWaited, exitUnreachable, exitFailed, exitUnreachable} {
			all[asked{fmt.Sprint(i, j), "a"}] = exitError{code, errors.New("no")}
		}
		if err := s.end(all, again); codeOf(err) != exitWaited || err.Error() != "5 of 6 leaders have not handed over" {
			t.Fatalf("%d: %v", codeOf(err), err)
		}
	}
}

// step-down --host takes the IDs that candidates get from the host, and the host's own name as
// an ID. An ID that only begins alike is another host's.
func TestStepDownAll_HostMeansIDs(t *testing.T) {
	for id, want := range map[string]bool{
		"web-1":              true,
		"web-1_4711_abc123":  true,
		"web-1_4711":         false,
		"web-10_4711_abc123": false,
		"web-1-2":            false,
		"web-1_x_abc123":     false,
		"aweb-1":             false,
		"":                   false,
	} {
		s := stepDown{host: "web-1"}
		got := s.means(id)
		expect.That(t, got == want, "%q: %v", id, got)
	}
}

// A list of elections says how many it leaves out.
func TestShortList_LeftOut(t *testing.T) {
	var all []electionStatus
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		all = append(all, electionStatus{election: name})
	}
	for n, want := range map[int]string{1: "a", 5: "a, b, c, d, e", 6: "a, b, c, d, e and 1 more", 7: "a, b, c, d, e and 2 more"} {
		got := shortList(all[:n])
		expect.That(t, got == want, "%d elections: %q, want %q", n, got, want)
	}
}
