package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

const rosterHelp = `It shows who leads the election, and below that who stands, in the order in which
they would follow: the highest priority first, the longest waiting among equals.
The time since which a candidate waits is that of its own host. Candidates whose
writes of the key were denied lately come last.

Who stands without a roster is not shown, and who has died is until its announcement
lapses, after three leases. The bucket must keep a roster: see bucket add --roster.

With --watch it shows that as it changes, until SIGINT or SIGTERM: on a terminal as
a table, otherwise as a line for each change.

  natsleader roster billing
  natsleader roster billing --json | jq -r '.candidates[].id'`

func registerRoster(app *fisk.Application, g *globals) {
	var election string
	var watch, asJSON bool
	cmd := app.Command("roster", "Show who stands, and who would follow").HelpLong(rosterHelp)
	cmd.Arg("election", "Election to show").Required().HintAction(g.electionNames).StringVar(&election)
	cmd.Flag("watch", "Show it as it changes").Short('w').UnNegatableBoolVar(&watch)
	cmd.Flag("json", "Print JSON, with --watch one line for every change").Short('j').UnNegatableBoolVar(&asJSON)
	cmd.Action(func(*fisk.ParseContext) error {
		if err := checkElection(election); err != nil {
			return err
		}
		if watch {
			out := newRenderer(g.stdio, asJSON, false)
			return follow(g, out, func(s *inspector) source[roster] { return newRosterWatcher(s, election, out) })
		}
		return g.printRoster(election, asJSON)
	})
}

func (g *globals) printRoster(election string, asJSON bool) error {
	s, err := g.newInspector(context.Background())
	if err != nil {
		return err
	}
	defer s.close()
	r, err := s.readRoster(context.Background(), election)
	if err != nil {
		return err
	}
	return printResult(g.out(), asJSON, r.summary(), columns(r.table(s.clock.now())))
}

// roster is the holder of an election's key, and the candidates that stand beside it.
type roster struct {
	election   string
	holder     leader.Holder // zero: none
	candidates []leader.RosterEntry
}

// readRoster reads the holder and the candidates.
func (s *inspector) readRoster(ctx context.Context, election string) (roster, error) {
	r := roster{election: election}
	err := s.within(ctx, func(ctx context.Context) error {
		x, err := s.one(ctx, election)
		if err != nil {
			return err
		}
		switch x.at(s.clock.now()) {
		case stateLeading, statePending, stateForeign:
			r.holder = x.holder
		case stateReleased, stateExpired, stateDeleted, stateNever:
		}
		r.candidates, err = leader.Roster(ctx, s.bucket, election)
		return err
	})
	return r, err
}

// table lists the leader before the candidates.
func (r roster) table(now time.Time) [][]string {
	rows := [][]string{{"PLACE", "ID", "PRIORITY", "PREEMPT", "SINCE", "FOR", "VALUE"}}
	add := func(place, id, priority, preempt string, since time.Time, value []byte) {
		row := []string{place, shorten(printable(id), longID), priority, preempt, "-", "-", shorten(printable(string(value)), longValue)}
		if !since.IsZero() {
			row[4], row[5] = formatTime(since), formatAge(now.Sub(since))
		}
		rows = append(rows, row)
	}
	switch h := r.holder; {
	case h.Leads():
		add("leads", h.ID, "-", "-", h.Since, h.Value)
	case h.Pending:
		add("pending", h.ID, "-", "-", h.Since, h.Value)
	case h.Foreign:
		add("foreign", "-", "-", "-", time.Time{}, nil)
	}
	for i, c := range r.candidates {
		place, preempt := fmt.Sprint(i+1), "no"
		if c.Denied {
			place = "denied"
		}
		if c.Preempt {
			preempt = "yes"
		}
		add(place, c.ID, fmt.Sprint(c.Priority), preempt, c.Since, c.Value)
	}
	if len(rows) == 1 {
		return [][]string{{"nobody leads " + r.election + ", and nobody stands"}}
	}
	return rows
}

// mostNext is how many candidates a line names.
const mostNext = 3

// next names the first candidates, for a line.
func (r roster) next() string {
	if len(r.candidates) == 0 {
		return "nobody stands"
	}
	var names []string
	for _, c := range r.first() {
		name := shorten(printable(c.ID), longID)
		if c.Denied {
			name += " (denied)"
		}
		names = append(names, name)
	}
	text := strings.Join(names, ", ")
	if more := len(r.candidates) - mostNext; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// first returns the candidates that a line names.
func (r roster) first() []leader.RosterEntry { return r.candidates[:min(len(r.candidates), mostNext)] }

// line describes a roster in one line. No ID is quoted in it.
func (r roster) line() string {
	who := printable(strings.Replace(r.holder.String(), strconv.Quote(r.holder.ID), r.holder.ID, 1))
	if len(r.candidates) == 0 {
		return who + "; " + r.next()
	}
	return who + "; next: " + r.next()
}

// rosterSummary describes a roster for programs.
type rosterSummary struct {
	Time       time.Time          `json:"time,omitzero"` // of a change
	Election   string             `json:"election"`
	Leader     *holderSummary     `json:"leader,omitempty"`
	Candidates []candidateSummary `json:"candidates"` // in the order in which they would follow
}

type holderSummary struct {
	ID      string    `json:"id"`
	Pending bool      `json:"pending,omitempty"` // does not lead yet
	Token   uint64    `json:"token"`
	Since   time.Time `json:"since,omitzero"`
	Value   string    `json:"value,omitempty"`
	Value64 string    `json:"value64,omitempty"`
}

type candidateSummary struct {
	ID       string    `json:"id"`
	Priority int       `json:"priority"`
	Preempt  bool      `json:"preempt"`
	Denied   bool      `json:"denied,omitempty"` // its last write of the key
	Since    time.Time `json:"since"`            // by its own clock
	Value    string    `json:"value,omitempty"`
	Value64  string    `json:"value64,omitempty"`
}

func (r roster) summary() rosterSummary {
	s := rosterSummary{Election: r.election, Candidates: []candidateSummary{}}
	if h := r.holder; h.ID != "" {
		s.Leader = &holderSummary{ID: h.ID, Pending: h.Pending, Token: h.Token, Since: h.Since.UTC()}
		s.Leader.Value, s.Leader.Value64 = text(h.Value)
	}
	for _, c := range r.candidates {
		shown := candidateSummary{ID: c.ID, Priority: c.Priority, Preempt: c.Preempt, Denied: c.Denied, Since: c.Since.UTC()}
		shown.Value, shown.Value64 = text(c.Value)
		s.Candidates = append(s.Candidates, shown)
	}
	return s
}

// announced lists the candidates that have announced themselves in the elections of a
// bucket.
type announced struct {
	counts map[string]int // by election
	keys   []string       // of the roster, sorted
}

// stand returns how many candidates stand in an election. The holder of the key does
// not, but its announcement from before it won may still be there.
func (a announced) stand(x electionStatus) int {
	n := a.counts[x.election]
	if n == 0 {
		return 0
	}
	var record struct{ Session string }
	if json.Unmarshal(x.entry.Value, &record) == nil {
		if _, found := slices.BinarySearch(a.keys, x.election+"."+record.Session); found {
			n--
		}
	}
	return n
}

// announced reads the keys of the bucket's roster.
func (s *inspector) announced(ctx context.Context) (a announced, err error) {
	if s.roster == "" {
		return a, leader.ErrNoRoster
	}
	kv, err := s.js.KeyValue(ctx, s.roster)
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound):
		return a, leader.ErrNoRoster
	case err != nil:
		return a, err
	}
	entries, err := entriesOf(ctx, kv, "of the roster", jetstream.MetaOnly())
	a.counts = map[string]int{}
	for _, e := range entries {
		if e.Operation() != jetstream.KeyValuePut {
			continue
		}
		key := e.Key()
		a.keys = append(a.keys, key)
		if i := strings.LastIndexByte(key, '.'); i > 0 {
			a.counts[key[:i]]++
		}
	}
	return a, err
}
