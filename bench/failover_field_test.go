//go:build field

package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// scripted is a candidate that leads for a part of the time of its bubble.
type scripted struct {
	running
	end time.Time
	// late is how long each answer takes. It is true when the question is asked.
	late time.Duration

	asked int
}

func script(from, to, late time.Duration) *scripted {
	s := &scripted{end: time.Now().Add(to), late: late}
	s.start(func(context.Context) {})
	time.AfterFunc(from, s.set)
	return s
}

func (s *scripted) leads() bool {
	if s.asked++; s.asked > 10_000 {
		panic("asked after the end of the context")
	}
	leads := time.Now().Before(s.end)
	time.Sleep(s.late)
	return leads
}

// The time in which two lead is an upper bound, and a question that is late is no excuse: it
// makes the time longer, or the turn is disturbed.
func TestPassed_UpperBound(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tt := range []struct {
		name               string
		follower, old      time.Duration // when the follower leads, when the old leader ends
		late               time.Duration // how long each answer of the old leader takes
		wantElected        time.Duration
		wantBoth           time.Duration
		disturbed, expires bool
	}{
		{name: "the old leader ends first", follower: 90*ms + ms/2, old: 80*ms + ms/2, wantElected: 91 * ms, wantBoth: -9 * ms},
		{name: "both lead", follower: 80*ms + ms/2, old: 95*ms + ms/2, wantElected: 81 * ms, wantBoth: 16 * ms},
		{name: "one question decides", follower: 80*ms + ms/2, old: 80*ms + ms/2, wantElected: 81 * ms, wantBoth: ms},
		{name: "a late answer decides", follower: 80*ms + ms/2, old: 60 * ms, late: 30 * ms, wantElected: 90 * ms, wantBoth: 30 * ms, disturbed: true},
		{name: "both lead in spite of late answers", follower: 80*ms + ms/2, old: 200 * ms, late: 30 * ms, wantElected: 90 * ms, wantBoth: 180 * ms},
		{name: "the old leader never ends", follower: 80 * ms, old: time.Hour, expires: true},
		{name: "the follower never leads", follower: time.Hour, old: 80 * ms, expires: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				elected, both, err := passed(ctx, script(0, tt.old, tt.late), script(tt.follower, time.Hour, 0))
				switch {
				case tt.expires:
					check.That(t, errors.Is(err, context.DeadlineExceeded), "%v, want the end of the context", err)
				case errors.Is(err, errDisturbed) != tt.disturbed || err != nil && !tt.disturbed:
					t.Errorf("%v, want disturbed: %t", err, tt.disturbed)
				case elected.Sub(began) != tt.wantElected || both != tt.wantBoth:
					t.Errorf("elected after %v, both for %v, want %v and %v", elected.Sub(began), both, tt.wantElected, tt.wantBoth)
				}
			})
		})
	}
}

// A follower that leads before the fault ends the measure if the old leader leads, too, in a
// system that promises one. Otherwise the machine was too busy.
func TestEarly_TwoLeadIsNoExcuse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		single   bool
		oldLeads bool
		want     error
	}{
		{"natsleader, two lead", natsleaderSystem().single, true, errTwoLead},
		{"natsleader, one leads", natsleaderSystem().single, false, errDisturbed},
		{"etcd, two lead", etcdSystem().single, true, errDisturbed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			end := time.Duration(0)
			if tt.oldLeads {
				end = time.Hour
			}
			p := place{
				sys:  system{single: tt.single, dial: func(string, settings) (client, error) { return instant{end}, nil }},
				srv:  &serverProcess{},
				name: func(prefix string) string { return prefix },
			}
			_, err := handover(t.Context(), p, 1)
			check.That(t, errors.Is(err, tt.want), "handover: %v, want %v", err, tt.want)
			if _, err := cutOff(t.Context(), p); !errors.Is(err, tt.want) {
				t.Errorf("cutOff: %v, want %v", err, tt.want)
			}
		})
	}
}

// instant is a client of candidates that are elected at once and lead until the end.
type instant struct{ end time.Duration }

func (l instant) campaign(string, string) candidate {
	s := &scripted{end: time.Now().Add(l.end)}
	s.start(func(context.Context) {})
	s.set()
	return s
}
func (instant) close() {}

// A disturbed turn is taken three times. An error is one at once.
func TestAttempt_ThreeTimes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		err       error
		disturbed int // turns that are disturbed before
		wantTurns int
		wantError string
	}{
		{"disturbed twice", nil, 2, 3, ""},
		{"disturbed for ever", nil, 9, 3, errDisturbed.Error()},
		{"two lead", errTwoLead, 0, 1, errTwoLead.Error()},
		{"two lead after a disturbed turn", errTwoLead, 1, 2, errTwoLead.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			turns := 0
			m := measure{settings: short, turn: func(context.Context, place, *cell) error {
				if turns++; turns <= tt.disturbed {
					return errDisturbed
				}
				return tt.err
			}}
			var c cell
			(&bench{stderr: new(strings.Builder)}).attempt(t.Context(), m, bareSystem(), &c, "t")
			check.That(t, turns == tt.wantTurns && c.Error == tt.wantError,
				"%d turns, error %q, want %d and %q", turns, c.Error, tt.wantTurns, tt.wantError)
		})
	}
}

// A leader process that leads no longer has sent its last report, or ends with none.
func TestProcess_Believes(t *testing.T) {
	t.Parallel()
	for report, want := range map[string]bool{`{"Leads":false}`: false, `{"Leads":true}`: true, ``: true} {
		p := &process{out: json.NewDecoder(strings.NewReader(report))}
		got := p.believes()
		check.That(t, got == want, "%q: %t, want %t", report, got, want)
	}
}
