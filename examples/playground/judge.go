package main

import (
	"fmt"
	"math"

	"github.com/natsleader/natsleader/internal/contract"
)

// judge checks the promises of the library over all processes, from what they report: never two
// leaders at once, tokens that rise, no late write. The caller has a lock. Each process checks its own
// events itself.
type judge struct {
	election contract.Election
	writes   []write // the newest
	checks   int
	until    map[string]int64 // by name of a process, the last instant at which its term was known to be valid
	broken   []string         // the first of them
}

// write is one that was stored, and was sent after an instant.
type write struct {
	contract.Term
	sent int64
}

// The page shows the first broken promises. A write is checked again when a term has begun that the
// judge heard of after it.
const (
	mostBroken = 5
	mostWrites = 100
)

// heard checks a report of a process, whose name no other process has.
func (j *judge) heard(name string, r report) {
	term := contract.Term{Who: name, Token: r.Token}
	switch r.Event {
	case "":
		if r.To > j.until[name] {
			if j.until == nil {
				j.until = make(map[string]int64)
			}
			j.until[name] = r.To
			j.checks++
			j.note(j.election.Leads(term, r.From, r.To)...)
		}
	case elected:
		j.checks++
		j.note(j.election.Elected(term, math.MinInt64, r.At)...)
		for _, w := range j.writes {
			j.note(j.election.Stored(w.Term, w.sent))
		}
	case wrote:
		j.checks++
		j.writes = append(j.writes, write{term, r.From})
		j.writes = j.writes[max(0, len(j.writes)-mostWrites):]
		j.note(j.election.Stored(term, r.From))
	case violated:
		j.say(fmt.Sprintf("%s: %s", name, r.Text))
	}
}

func (j *judge) note(vs ...*contract.Violation) {
	for _, v := range vs {
		if v != nil {
			j.say(v.String())
		}
	}
}

func (j *judge) say(text string) {
	if len(j.broken) < mostBroken {
		j.broken = append(j.broken, text)
	}
}

// report is a line that a candidate's process prints. Instants are in Unix ns of the host's clock,
// which all processes share.
type report struct {
	At       int64  `json:"at"`
	State    string `json:"state,omitempty"`
	Token    uint64 `json:"token,omitempty"`
	Left     int64  `json:"left,omitempty"`     // of the lease, or of the time until a pending candidate may lead, in ms
	Patience int64  `json:"patience,omitempty"` // until the candidate takes the lease that it sees for over, in ms

	// From and To are the first and the last instant at which the term was known to be valid; 0: never.
	From int64 `json:"from,omitempty"`
	To   int64 `json:"to,omitempty"`

	Event string `json:"event,omitempty"` // of the candidate or of its worker: see below
	Text  string `json:"text,omitempty"`  // the cause, error or broken rule
}

// The events of a report. Those of the library have its names.
const (
	pending  = "pending"
	elected  = "elected"
	fenced   = "fenced"
	deposed  = "deposed"
	wrote    = "wrote"   // a write was stored, which was sent after From
	refused  = "refused" // the guard refused a write
	violated = "violated"
)
