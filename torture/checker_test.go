package torture_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

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
	over        int64 // when the loss was reported, or the process seen dead; 0: neither
	cause       string
}

func (t *term) String() string {
	return fmt.Sprintf("%s with token %d from %s to %s", t.life.id, t.token, instant(t.first), instant(t.last))
}

func instant(ns int64) string { return fmt.Sprintf("%.6fs", time.Duration(ns).Seconds()) }

// verdict is the result of the checker.
type verdict struct {
	terms  []*term  // by first
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

// account pairs wins and losses of one process. There is one loss for each win, a win
// only after the loss of the last, and no claim outside of a term. No term is left open
// except by a process that was killed or is still alive. A term does not outlive a
// pause of its process that is longer than a fence.
func (v *verdict) account(l *life, h history) {
	var open *term // won and not lost yet
	var free int64
	done := false
	for i, e := range l.entries {
		if i == 0 {
			free = e.At
		}
		// The connection belongs to the process, and may come back when the candidate
		// has ended.
		if done && e.What != connected && e.What != disconnected {
			v.breaks("%s goes on after its end: %+v", l.id, e)
		}
		switch e.What {
		case elected:
			if open != nil {
				v.breaks("%s was elected with token %d before it lost %d", l.id, e.Token, open.token)
			}
			open = &term{life: l, token: e.Token, free: free}
		case leads:
			if open == nil || open.token != e.Token {
				v.breaks("%s claims token %d at %s, which is not its term", l.id, e.Token, instant(e.At))
				open = &term{life: l, token: e.Token, free: free} // to be compared with the others
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
				v.noted = append(v.noted, fmt.Sprintf("%s says at %s that the store forgot, which it was not made to", l.id, instant(e.At)))
			}
		case revived:
			v.breaks("%s: token %d was over and is good again at %s", l.id, e.Token, instant(e.At))
		case fenced:
			if open == nil || open.token != e.Token {
				v.breaks("%s was fenced with token %d, which is not its term", l.id, e.Token)
			}
		case deposed:
			if open == nil || open.token != e.Token {
				v.breaks("%s lost token %d, which is not its term", l.id, e.Token)
				continue
			}
			open.over, open.cause = e.At, e.Text
			open = nil
		case ended:
			done = true
			if open != nil {
				v.breaks("%s ended without having lost token %d", l.id, open.token)
			}
		}
	}
	if open != nil {
		open.over = l.killed
	}
}

// order finds terms that overlap and tokens that do not rise. While the store's memory
// is destroyed, one leader is not promised. But a leader that was overwritten learns of
// it within a fence. And tokens go on rising, because some process remembers the last
// one (the driver ensures that).
func (v *verdict) order(h history) {
	var greatest *term
	for i, t := range v.terms {
		if greatest == nil || t.token > greatest.token {
			greatest = t
		} else {
			v.breaks("tokens do not rise: %v, then %v", greatest, t)
		}
		for _, earlier := range v.terms[:i] {
			if gap := time.Duration(t.first - earlier.last); gap > 0 {
				if v.closest < 0 || gap < v.closest {
					v.closest = gap
				}
				continue
			}
			from, to := t.first, min(t.last, earlier.last)
			both := time.Duration(to - from)
			how, in := h.during(from, to)
			switch {
			case !in:
				v.breaks("two leaders for %v: %v, and %v", both, earlier, t)
			case both > h.fence:
				v.breaks("%s: who was overwritten did not find out for %v: %v, and %v", how, both, earlier, t)
			default:
				v.noted = append(v.noted, fmt.Sprintf("%s: two leaders for %v: %v, and %v", how, both, earlier, t))
			}
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
