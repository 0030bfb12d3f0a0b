package backend

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/golden"
)

// The scripts in testdata/window drive one window with requests that have numbers. The ranks are read, take,
// holder, overdue and shared.
//
//	window 4 10 [size=16] [fastest=1ms]       a new window with 4 to 10 slots
//	take holder 1-64 [at=3s]                  these ask for a slot, at that time or without one (-1s)
//	return 1-9 [took=1ms] [limit=1s] [lost]   these have a reply, or none is said
//	leave 1 3, clear, at 3s
//	report                                    whether it is news that leaders wait for too long
//
// Below a line are the requests that have a slot, those that were granted one later, and the window if it
// has changed.
func TestWindow(t *testing.T) {
	golden.Scripts(t, "window", func(t *testing.T, file string) {
		s := new(windowScript)
		golden.Script(t, file, func(_ string, words []string) []string { return s.do(t, words) })
	})
}

type windowScript struct {
	in       *Window
	requests map[int]*waiter
	granted  []int // by the present line
	at       time.Time
	was      string // the window at the line before
}

// waiter notes when it is granted a slot.
type waiter struct {
	place Place
	n     int
	s     *windowScript
}

func (w *waiter) Granted() { w.s.granted = append(w.s.granted, w.n) }

var now = time.Unix(1<<30, 0)

var rankNames = map[string]Rank{
	"read": RankRead, "take": RankTake, "holder": RankHolder, "overdue": RankOverdue, "shared": RankShared,
}

func (s *windowScript) do(t *testing.T, words []string) (lines []string) {
	t.Helper()
	var requests, slots []int
	rank, options := RankRead, map[string]time.Duration{}
	for _, word := range words[1:] {
		name, value, isOption := strings.Cut(word, "=")
		first, last, isRange := strings.Cut(word, "-")
		n, err := strconv.Atoi(first)
		r, isRank := rankNames[word]
		switch {
		case isOption:
			options[name] = s.duration(t, value)
		case isRank:
			rank = r
		case err != nil:
			options[word] = 1
		default:
			to := n
			if isRange {
				to = check.Got(strconv.Atoi(last))(t)
			}
			for ; n <= to; n++ {
				requests = append(requests, n)
			}
		}
	}
	switch words[0] {
	case "window":
		*s = windowScript{in: NewWindow(requests[0], requests[1]), requests: map[int]*waiter{}, at: now}
		s.in.size, s.in.fastest = max(s.in.size, int(options["size"])), options["fastest"]
		requests = nil
	case "at":
		s.at = now.Add(s.duration(t, words[1]))
	case "clear":
		s.in.Clear()
	case "report":
		lines = append(lines, fmt.Sprint("news: ", s.in.Report()))
	}
	for _, n := range requests {
		w := s.requests[n]
		if w == nil {
			w = &waiter{n: n, s: s}
			s.requests[n] = w
		}
		switch words[0] {
		case "take":
			since := now.Add(options["at"])
			if options["at"] < 0 {
				since = time.Time{}
			}
			if s.in.Take(&w.place, rank, w, since) {
				slots = append(slots, n)
			}
		case "return":
			s.in.Return(&w.place, Reply{options["took"], options["limit"], options["lost"] > 0})
		case "leave":
			s.in.Leave(&w.place)
		}
	}
	for what, all := range map[string][]int{"slot": slots, "granted": s.granted} { // only one of them has any
		if len(all) > 0 {
			lines = append(lines, fmt.Sprint(what, " ", all))
		}
	}
	s.granted = nil
	have := 0
	for _, w := range s.requests {
		if s.in.Has(&w.place) {
			have++
		}
	}
	wait, age := s.in.Waiting(s.at)
	is := fmt.Sprintf("%d slots, %d taken, %d have one, %d wait for up to %v, round trip %v",
		s.in.size, s.in.Used(), have, wait, age, s.in.fastest)
	if is != s.was {
		lines = append(lines, is)
	}
	s.was = is
	return lines
}

func (s *windowScript) duration(t *testing.T, text string) time.Duration {
	t.Helper()
	if n, err := strconv.Atoi(text); err == nil {
		return time.Duration(n)
	}
	return check.Got(time.ParseDuration(text))(t)
}

// Few candidates have no phase. The others spread over all phases, also those that replace others.
func TestWindow_Phases(t *testing.T) {
	in := NewWindow(1, 1)
	var count [Phases + 1]int
	for range 3 * Phases {
		count[in.Join()]++
	}
	for range Phases {
		in.Leave(new(Place))
		count[in.Join()]++
	}
	for phase, n := range count {
		check.That(t, n == map[bool]int{true: Phases, false: 3}[phase == 0], "%d candidates in phase %d", n, phase)
	}
	for range 3 * Phases {
		in.Leave(new(Place))
	}
	check.That(t, in.Join() == 0, "a single candidate has a phase")
}

// A connection without a window has slots for all.
func TestWindow_Nil(t *testing.T) {
	var in *Window
	var w waiter
	in.Return(&w.place, Reply{})
	in.Leave(&w.place)
	in.Clear()
	check.That(t, in.Used() == 0 && in.Has(&w.place), "slots are counted")
	n, age := in.Waiting(now)
	check.That(t, in.Join() == 0 && in.Take(&w.place, RankRead, &w, now) && n == 0 && age == 0 && in.Report(), "it has a bound")
}

// A candidate that leaves gives back its slot to one that waits, which is called without the
// window's lock.
func TestWindow_GrantsWithoutItsLock(t *testing.T) {
	in := NewWindow(1, 1)
	var first, other Place
	in.Take(&first, RankHolder, nil, now)
	calls := asks{in, make(chan int, 1)}
	in.Take(new(Place), RankHolder, calls, now)
	in.Take(&other, RankHolder, nil, now)
	in.Leave(&first)
	select {
	case n := <-calls.used:
		check.Equal(t, n, 1, "%d slots are taken")
	default:
		t.Error("the one that waits has no slot, or was called with the lock held")
	}
}

// asks tries to ask the window, which it must not, to find out whether it is locked.
type asks struct {
	in   *Window
	used chan int
}

// Granted implements [Waiter].
func (a asks) Granted() {
	if a.in.mu.TryLock() {
		a.in.mu.Unlock()
		a.used <- a.in.Used()
	}
}
