package torture_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/internal/contract"
	"github.com/natsleader/natsleader/leader"
)

// history holds all journals of one election.
type history struct {
	lives []*life
	// voids are the times when the store was made to forget acknowledged writes. Each
	// lasts from just before the fault until order was seen to be restored.
	voids []void
	// fence is how long a leader may believe in a lease after its last renewal.
	fence time.Duration
}

// of returns the history of one shard. A member is a candidate for it, whose Pending is not seen.
func (h history) of(shard string) history {
	lives := h.lives
	h.lives = nil
	for _, l := range lives {
		own := *l
		own.entries = nil
		for _, e := range l.entries {
			if e.Shard != "" && e.Shard != shard {
				continue
			}
			if e.What == elected {
				own.entries = append(own.entries, entry{At: e.At, What: pending, Token: e.Token})
			}
			own.entries = append(own.entries, e)
		}
		h.lives = append(h.lives, &own)
	}
	return h
}

type void struct {
	from, to int64
	how      string
}

// term is one leadership as its process saw it. It led at first, at last, and at every
// instant between, because a term that is over stays over.
type term struct {
	life        *life
	token       uint64
	first, last int64
	free        int64 // the process is known not to have led this term before
	began       int64 // it had begun by then
	over        int64 // when the loss was reported, or the process seen dead; 0: neither
	cause       string
}

func instant(ns int64) string { return fmt.Sprintf("%.6fs", time.Duration(ns).Seconds()) }

// verdict is the result of the checker.
type verdict struct {
	won    []*term  // every term of which a process knows that it began
	terms  []*term  // those that were claimed, by first
	broken []string // promises that were not kept
	noted  []string // events that break no promise
	// closest is the shortest time between two terms, which shows how sharp the check
	// was.
	closest time.Duration
}

func (v *verdict) breaks(format string, args ...any) {
	v.broken = append(v.broken, fmt.Sprintf(format, args...))
}

// check reads all journals of an election and reports the promises that were broken.
func check(h history) verdict {
	v := verdict{closest: -1}
	for _, l := range h.lives {
		v.account(l, h)
	}
	slices.SortFunc(v.terms, func(a, b *term) int { return cmp.Compare(a.first, b.first) })
	v.order(h)
	return v
}

// account checks the events of one process by the contract, and collects its terms. No
// term is left open except by a process that was killed or is still alive. A term does not
// outlive a pause of its process that is longer than a fence.
func (v *verdict) account(l *life, h history) {
	var c contract.Candidate
	var open *term // won and not lost yet
	var free int64
	var named int64 // when it last named a leader
	var past bool   // it reads a server of the past: it reported, wrongly, that the store forgot, and has not caught up
	for i, e := range l.entries {
		if i == 0 {
			free = e.At
		}
		if e.What == connected || e.What == disconnected {
			continue // the connection belongs to the process, and may come back after the end
		}
		if e.What == revived {
			c.Next(contract.Event{Kind: contract.Over, Token: e.Token})
		}
		if broken := c.Next(l.event(e)); broken != nil {
			if broken.Rule != contract.ObservedRises && broken.Rule != contract.PendingRises || !h.touches(named, e.At) && !past {
				v.breaks("%v, at %s", broken, instant(e.At))
			}
		} else if e.What == observed && e.Token != 0 {
			past = false
		}
		switch e.What {
		case observed:
			if e.Token != 0 {
				named = e.At
			}
		case elected:
			open = &term{life: l, token: e.Token, free: free, began: e.At}
			v.won = append(v.won, open)
		case leads:
			if open == nil || open.token != e.Token {
				open = &term{life: l, token: e.Token, free: free, began: e.At} // to be compared with the others
			}
			if open.first == 0 {
				open.first = e.From
				v.terms = append(v.terms, open)
			}
			for _, p := range l.pauses {
				if open.first < p.from && p.to < e.At && p.to-p.from > int64(h.fence) {
					v.breaks("%s claims token %d after it was paused for %v", l.id, e.Token, time.Duration(p.to-p.from))
				}
			}
			open.last, free = e.At, e.At
		case faulted:
			if _, in := h.during(e.At, e.At); !in && strings.HasPrefix(e.Text, leader.ErrRegressed.Error()) {
				past = true
				v.noted = append(v.noted, fmt.Sprintf("%s says at %s that the store forgot, which it was not made to", l.id, instant(e.At)))
			}
		case deposed:
			if open != nil && open.token == e.Token {
				open.over, open.cause = e.At, e.Text
				open = nil
			}
		}
	}
	if open != nil {
		open.over = l.killed
	}
}

// event returns an entry in the words of the contract.
func (l *life) event(e entry) contract.Event {
	in := contract.Event{Who: l.id, Token: e.Token, At: time.Unix(0, e.At), Kind: map[string]contract.Kind{
		observed: contract.Observed, faulted: contract.Faulted, pending: contract.Pending, elected: contract.Elected,
		leads: contract.Leads, revived: contract.Leads, fenced: contract.Fenced, deposed: contract.Deposed, ended: contract.Ended,
	}[e.What]}
	switch e.What {
	case pending:
		in.At, in.Until = time.Time{}, time.Unix(0, e.At+e.Left)
	case fenced, deposed:
		in.Cause, in.Left = reason(e.Text), time.Duration(e.Left)
		if e.Context != "" {
			in.Context = reason(e.Context)
		}
	}
	return in
}

// reason is a cause as a journal has it. Two are the same if their texts are.
type reason string

func (r reason) Error() string { return string(r) }

// order checks the terms with one another. While the store's memory is destroyed, one
// leader is not promised. But a leader that was overwritten learns of it within a fence.
// And tokens go on rising, because some process remembers the last one (the driver ensures
// that).
func (v *verdict) order(h history) {
	var e contract.Election
	for _, t := range v.won {
		v.compare(h, e.Elected(t.name(), t.free, t.began))
	}
	for i, t := range v.terms {
		v.compare(h, e.Leads(t.name(), t.first, t.last))
		for _, earlier := range v.terms[:i] {
			if gap := time.Duration(t.first - earlier.last); gap > 0 && (v.closest < 0 || gap < v.closest) {
				v.closest = gap
			}
		}
	}
}

// name returns the term as the contract names it.
func (t *term) name() contract.Term { return contract.Term{Who: t.life.id, Token: t.token} }

// compare sorts violations by whether the history excuses them.
func (v *verdict) compare(h history, broken []*contract.Violation) {
	for _, b := range broken {
		if b.Rule != contract.OneLeader {
			v.breaks("%v", b)
			continue
		}
		both := time.Duration(b.Last - b.First)
		text := fmt.Sprintf("%v, for %v from %s", b, both, instant(b.First))
		switch how, in := h.during(b.First, b.Last); {
		case !in:
			v.breaks("%s", text)
		case both > h.fence:
			v.breaks("%s, and the one that was overwritten did not find out: %s", text, how)
		default:
			v.noted = append(v.noted, text+": "+how)
		}
	}
}

// during returns the void that contains all of that time.
func (h history) during(from, to int64) (string, bool) {
	for _, d := range h.voids {
		if d.from <= from && to <= d.to {
			return d.how, true
		}
	}
	return "", false
}

// leaderless returns how long there was no leader, for each new leader between two
// instants.
func (v *verdict) leaderless(from, to int64) []time.Duration {
	var gaps []time.Duration
	var last int64 // the latest claim so far
	for _, t := range v.terms {
		if last != 0 && t.first > last && from < t.first && t.first <= to {
			gaps = append(gaps, time.Duration(t.first-last))
		}
		last = max(last, t.last)
	}
	return gaps
}

// quantile returns a quantile of sorted durations, by the nearest rank.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
