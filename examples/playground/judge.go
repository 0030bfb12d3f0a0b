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
