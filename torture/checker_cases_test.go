package torture_test

import (
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/natsleader/natsleader/leader"
)

// led returns a life with one term, with times in milliseconds. The term is lost at
// over, unless that is 0.
func led(id string, token uint64, first, last, over int64) *life {
	const ms = int64(time.Millisecond)
	l := &life{id: id, entries: []entry{
		{At: 1, What: began},
		{At: first*ms - 2, What: pending, Token: token},
		{At: first*ms - 1, What: elected, Token: token},
		{At: last * ms, What: leads, Token: token, From: first * ms},
	}}
	if over != 0 {
		l.entries = append(l.entries, loss(deposed, over, token))
	}
	return l
}

// loss returns an entry for the end of a term, with a time in milliseconds.
func loss(what string, at int64, token uint64) entry {
	return entry{At: at * int64(time.Millisecond), What: what, Token: token, Text: "lost", Context: "lost"}
}

func (l *life) paused(from, to int64) *life {
	l.pauses = append(l.pauses, pause{from * int64(time.Millisecond), to * int64(time.Millisecond)})
	return l
}

func (l *life) then(entries ...entry) *life {
	l.entries = append(l.entries, entries...)
	return l
}

// Every kind of fault in a history is found, by the checker or by Porcupine, as listed,
// and nothing is found in a good one.
func TestTheCheckersFindWhatIsWrong(t *testing.T) {
	const s = int64(time.Second)
	forgot := []void{{from: s, to: 9 * s, how: "bucket made anew"}}
	for _, k := range []struct {
		name   string
		lives  []*life
		voids  []void
		breaks string // the checker's finding, "" for none
		lock   porcupine.CheckResult
		notes  int
	}{
		{
			name:  "one after another",
			lives: []*life{led("a", 3, 1000, 2000, 2100), led("b", 7, 2001, 3000, 0), led("c", 9, 4000, 5000, 5000)},
			lock:  porcupine.Ok,
		},
		{
			name:   "two at once",
			lives:  []*life{led("a", 3, 1000, 2000, 2100), led("b", 7, 1999, 3000, 0)},
			breaks: "two leaders: a with token 3, and b with token 7, for 1ms from 1.999000s", lock: porcupine.Illegal,
		},
		{
			name:   "one within the other",
			lives:  []*life{led("a", 3, 1000, 5000, 0), led("b", 7, 2000, 3000, 3100)},
			breaks: "two leaders: a with token 3, and b with token 7, for 1s from 2.000000s", lock: porcupine.Illegal,
		},
		{
			name:   "at the same instant",
			lives:  []*life{led("a", 3, 1000, 2000, 2000), led("b", 7, 2000, 3000, 0)},
			breaks: "two leaders: a with token 3, and b with token 7, for 0s", lock: porcupine.Ok, // for Porcupine one instant has room for an order
		},
		{
			name:   "a lower token later",
			lives:  []*life{led("a", 7, 1000, 2000, 2100), led("b", 3, 2500, 3000, 0)},
			breaks: "tokens do not rise", lock: porcupine.Illegal,
		},
		{
			name:   "the same token twice",
			lives:  []*life{led("a", 7, 1000, 2000, 2100), led("b", 7, 2500, 3000, 0)},
			breaks: "the same token twice: a with token 7, and b with token 7", lock: porcupine.Illegal,
		},
		{
			name:   "a token falls two terms later",
			lives:  []*life{led("a", 7, 1000, 2000, 2100), led("b", 8, 2500, 3000, 3000), led("c", 6, 4000, 5000, 0)},
			breaks: "tokens do not rise", lock: porcupine.Illegal,
		},
		{
			name: "elected again without a loss",
			lives: []*life{led("a", 3, 1000, 2000, 0).then(
				entry{At: 3 * s, What: elected, Token: 5}, entry{At: 4 * s, What: leads, Token: 5, From: 3 * s})},
			breaks: "before it lost 3", lock: porcupine.Ok,
		},
		{
			name:   "an end without a loss",
			lives:  []*life{led("a", 3, 1000, 2000, 0).then(entry{At: 3 * s, What: ended})},
			breaks: "ended without having lost token 3", lock: porcupine.Ok,
		},
		{
			name:   "two losses",
			lives:  []*life{led("a", 3, 1000, 2000, 2000).then(loss(deposed, 3000, 3))},
			breaks: "Deposed for token 3, which is not its term", lock: porcupine.Ok,
		},
		{
			name:   "a loss of another's term",
			lives:  []*life{led("a", 3, 1000, 2000, 0).then(loss(deposed, 3000, 4))},
			breaks: "Deposed for token 4, which is not its term", lock: porcupine.Ok,
		},
		{
			name:   "a fence of another's term",
			lives:  []*life{led("a", 3, 1000, 2000, 0).then(loss(fenced, 3000, 4))},
			breaks: "Fenced for token 4, which is not its term", lock: porcupine.Ok,
		},
		{
			name:   "a claim after the loss",
			lives:  []*life{led("a", 3, 1000, 2000, 2000).then(entry{At: 3 * s, What: leads, Token: 3, From: 3 * s})},
			breaks: "claims token 3", lock: porcupine.Illegal,
		},
		{
			name:   "a term that comes to life again",
			lives:  []*life{led("a", 3, 1000, 2000, 0).then(entry{At: 3 * s, What: revived, Token: 3})},
			breaks: "was over and is good again", lock: porcupine.Ok,
		},
		{
			name:   "elected without having won the key",
			lives:  []*life{{id: "a", entries: []entry{{At: 1, What: began}, {At: s, What: elected, Token: 3}}}},
			breaks: "Pending comes before Elected: a was elected with token 3", lock: porcupine.Ok,
		},
		{
			name: "elected before a lease is over",
			lives: []*life{{id: "a", entries: []entry{
				{At: 1, What: began}, {At: s, What: pending, Token: 3, Left: s}, {At: 2*s - 1, What: elected, Token: 3},
			}}},
			breaks: "Elected comes not before its time: a was elected with token 3", lock: porcupine.Ok,
		},
		{
			name:   "a loss while the context is alive",
			lives:  []*life{led("a", 3, 1000, 2000, 0).then(entry{At: 3 * s, What: fenced, Token: 3, Text: "lost"})},
			breaks: "the context ends first: a offers Fenced for token 3", lock: porcupine.Ok,
		},
		{
			name:   "a loss with another cause",
			lives:  []*life{led("a", 3, 1000, 2000, 0).then(entry{At: 3 * s, What: deposed, Token: 3, Text: "lost", Context: "found"})},
			breaks: "the cause is that of the context: a offers Deposed for token 3 with lost", lock: porcupine.Ok,
		},
		{
			name:   "a loss while the lease is valid",
			lives:  []*life{led("a", 3, 1000, 2000, 0).then(entry{At: 3 * s, What: deposed, Token: 3, Text: "lost", Context: "lost", Left: 1})},
			breaks: "1ns of the lease remain", lock: porcupine.Ok,
		},
		{
			name: "an earlier leader is seen after a later one",
			lives: []*life{{id: "a", entries: []entry{
				{At: 1, What: began}, {At: s, What: observed, ID: "b", Token: 7}, {At: 2 * s, What: observed, ID: "c", Token: 3},
			}}},
			breaks: "a names a leader with token 3 after one with 7", lock: porcupine.Ok,
		},
		{
			name: "an earlier leader is seen in a store that was made to forget",
			lives: []*life{{id: "a", entries: []entry{
				{At: 1, What: began}, {At: s / 2, What: observed, ID: "b", Token: 7}, {At: 2 * s, What: observed, ID: "c", Token: 3},
			}}}, voids: forgot, lock: porcupine.Ok,
		},
		{
			name:   "something after the end",
			lives:  []*life{led("a", 3, 1000, 2000, 2000).then(entry{At: 3 * s, What: ended}, entry{At: 4 * s, What: pending})},
			breaks: "nothing after the end: a goes on with Pending", lock: porcupine.Ok,
		},
		{
			name:  "a connection that comes back after the end",
			lives: []*life{led("a", 3, 1000, 2000, 2000).then(entry{At: 3 * s, What: ended}, entry{At: 4 * s, What: connected})}, lock: porcupine.Ok,
		},
		{
			name:  "a term ends with a long pause",
			lives: []*life{led("a", 3, 1000, 1900, 5100).paused(2000, 5000)}, lock: porcupine.Ok,
		},
		{
			name:  "a term outlives a short pause",
			lives: []*life{led("a", 3, 1000, 9000, 9000).paused(2000, 3500)}, lock: porcupine.Ok,
		},
		{
			name:   "a term outlives a long pause",
			lives:  []*life{led("a", 3, 1000, 9000, 9000).paused(2000, 4500)},
			breaks: "after it was paused for 2.5s", lock: porcupine.Ok,
		},
		{
			name: "an earlier term goes on after a later one was seen",
			lives: []*life{
				led("a", 3, 1000, 3000, 3100),
				led("b", 7, 4000, 5000, 0),
				{id: "c", entries: []entry{{At: 1, What: began}, {At: 2 * s, What: observed, ID: "b", Token: 7}}},
			},
			lock: porcupine.Illegal, // the intervals alone look correct
		},
		{
			name: "a term is seen before its winner knows",
			lives: []*life{
				led("a", 3, 1000, 2000, 5000), // learned late of its loss
				led("b", 7, 4000, 5000, 0),
				{id: "c", entries: []entry{{At: 1, What: began}, {At: 3 * s, What: observed, ID: "b", Token: 7}}},
			},
			lock: porcupine.Ok,
		},
		{
			name:  "two at once, for a moment, in a store that was made to forget",
			lives: []*life{led("a", 3, 500, 3000, 3100), led("b", 7, 2000, 10_000, 0)}, voids: forgot,
			notes: 1, lock: porcupine.Ok,
		},
		{
			name:  "two at once for too long in a store that was made to forget",
			lives: []*life{led("a", 3, 500, 6000, 6100), led("b", 7, 2000, 10_000, 0)}, voids: forgot,
			breaks: "for 4s from 2.000000s, and the one that was overwritten did not find out", lock: porcupine.Ok,
		},
		{
			name: "a candidate takes a server that was cut off for a store that forgot",
			lives: []*life{led("a", 3, 500, 1000, 1100).then(
				entry{At: 2 * s, What: faulted, Text: leader.ErrRegressed.Error()},
				entry{At: 10 * s, What: faulted, Text: leader.ErrRegressed.Error()})}, voids: forgot,
			notes: 1, lock: porcupine.Ok,
		},
		{
			name: "and names the leader that it shows",
			lives: []*life{led("a", 3, 500, 1000, 1100).then(
				entry{At: 95 * s / 10, What: observed, ID: "b", Token: 7},
				entry{At: 96 * s / 10, What: faulted, Text: leader.ErrRegressed.Error()},
				entry{At: 96 * s / 10, What: observed, ID: "b", Token: 5})},
			notes: 1, lock: porcupine.Ok,
		},
		{
			name: "and shows no leader first, and then one after another until it has caught up",
			lives: []*life{{id: "a", entries: []entry{
				{At: 1, What: began},
				{At: s, What: observed, ID: "b", Token: 7},
				{At: 2 * s, What: faulted, Text: leader.ErrRegressed.Error()},
				{At: 2*s + 1, What: observed},
				{At: 2*s + 2, What: observed, ID: "b", Token: 5},
				{At: 2*s + 3, What: observed, ID: "c", Token: 6},
				{At: 2*s + 4, What: observed, ID: "b", Token: 7},
			}}},
			notes: 1, lock: porcupine.Ok,
		},
		{
			name: "an earlier leader is seen after the candidate has caught up",
			lives: []*life{{id: "a", entries: []entry{
				{At: 1, What: began},
				{At: s, What: observed, ID: "b", Token: 7},
				{At: 2 * s, What: faulted, Text: leader.ErrRegressed.Error()},
				{At: 3 * s, What: observed, ID: "b", Token: 7},
				{At: 4 * s, What: observed, ID: "b", Token: 5},
			}}},
			breaks: "a names a leader with token 5 after one with 7", notes: 1, lock: porcupine.Ok,
		},
		{
			name: "an earlier leader is seen long after a void, in which no leader was seen",
			lives: []*life{{id: "a", entries: []entry{
				{At: 1, What: began},
				{At: s / 2, What: observed, ID: "b", Token: 7},
				{At: 2 * s, What: observed},
				{At: 95 * s / 10, What: observed},
				{At: 10 * s, What: observed, ID: "b", Token: 5},
			}}}, voids: forgot, lock: porcupine.Ok,
		},
		{
			name:  "two at once after the store was made to forget",
			lives: []*life{led("a", 3, 500, 9500, 9600), led("b", 7, 8000, 10_000, 0)}, voids: forgot,
			breaks: "two leaders: a with token 3, and b with token 7, for 1.5s", lock: porcupine.Illegal,
		},
		{
			name:  "a token falls in a store that was made to forget",
			lives: []*life{led("a", 7, 500, 3000, 3100), led("b", 3, 4000, 10_000, 0)}, voids: forgot,
			breaks: "tokens do not rise", lock: porcupine.Ok,
		},
	} {
		t.Run(k.name, func(t *testing.T) {
			h := history{lives: k.lives, voids: k.voids, fence: 2 * time.Second}
			v := check(h)
			if found := strings.Join(v.broken, "\n"); k.breaks == "" && found != "" || !strings.Contains(found, k.breaks) {
				t.Errorf("the checker says %q, want %q", found, k.breaks)
			}
			if len(v.noted) != k.notes {
				t.Errorf("noted %q, want %d", v.noted, k.notes)
			}
			result := porcupine.Ok
			for _, s := range stretches(h, v.terms) {
				if !porcupine.CheckOperations(lockModel(s.initial), s.ops) {
					result = porcupine.Illegal
				}
			}
			if result != k.lock {
				t.Errorf("porcupine says %s, want %s", result, k.lock)
			}
		})
	}
}

// Porcupine is fast enough for the history of an hour. A history of a thousand terms, in
// which every candidate stands all the time, is decided in moments.
func TestPorcupine_IsFastEnough(t *testing.T) {
	var h history
	for i := range int64(1000) {
		l := led(string(rune('a'+i%5)), uint64(i+1), 1000*i+1000, 1000*i+1900, 1000*i+2500)
		if i < 5 {
			h.lives = append(h.lives, l)
		} else {
			h.lives[i%5].then(l.entries[1:]...)
		}
	}
	v := check(h)
	if len(v.broken) != 0 {
		t.Fatal(v.broken)
	}
	linearizable(t, h, v.terms, t.TempDir())
}

// Leaderless times are those between terms.
func TestLeaderlessTimes_BetweenTerms(t *testing.T) {
	const ms = int64(time.Millisecond)
	v := check(history{lives: []*life{
		led("a", 1, 1000, 2000, 2000), led("b", 2, 2300, 3000, 3000), led("c", 3, 5000, 6000, 0),
	}})
	for _, k := range []struct {
		from, to int64
		want     []time.Duration
	}{
		{1500, 1900, nil},
		{1500, 2500, []time.Duration{300 * time.Millisecond}},
		{2100, 2200, nil},
		{2500, 6000, []time.Duration{2 * time.Second}},
		{1500, 6000, []time.Duration{300 * time.Millisecond, 2 * time.Second}},
		{5500, 9000, nil},
	} {
		if got := v.leaderless(k.from*ms, k.to*ms); len(got) != len(k.want) || len(got) > 0 && got[0] != k.want[0] {
			t.Errorf("from %d to %d: %v, want %v", k.from, k.to, got, k.want)
		}
	}
}
