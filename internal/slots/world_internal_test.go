package slots

import (
	"fmt"
	"strings"
)

// zero is the instant of tick 0: before it is room for clocks that are behind.
const zero = 40

// ticks are the limits, in ticks. Clocks that are wrong are so by more than Tolerance.
var ticks = Limits{Agree: 1, Tolerance: 3, Horizon: 20, Span: 1, Missed: 3, Calls: 300}

// The calendars of the world. The second is another one, the third the first, broken at one instant.
var calendars = []Calendar{
	func(t int64) int64 { return t - t%2 + 2 },
	func(t int64) int64 {
		if t%3 < 1 {
			return t + 1
		}
		return t - t%3 + 4
	},
	func(t int64) int64 {
		if t == zero+4 {
			return t
		}
		return t - t%2 + 2
	},
}

// another is the number of the calendar that differs from the first.
const another = 1

// phase is what the leader is at.
type phase uint8

const (
	looking phase = iota
	storing       // a mark was sent
	working
	ending // the mark of complete work was sent
)

// instants is a set of instants.
type instants [2]uint64

func (s *instants) add(t int64) {
	if t >= 0 && t < 128 {
		s[t/64] |= 1 << (t % 64)
	}
}

func (s instants) has(t int64) bool { return t >= 0 && t < 128 && s[t/64]&(1<<(t%64)) != 0 }

func (s *instants) addBetween(after, t int64) {
	for x := after + 1; x < t; x++ {
		s.add(x)
	}
}

func (s *instants) join(o instants) { s[0], s[1] = s[0]|o[0], s[1]|o[1] }

// world is a situation: two processes with their hosts' clocks, the server's, and what the bucket has.
type world struct {
	tick     int64
	host     [2]int64 // error of the host's clock
	server   int64    // error of the server's clock
	width    [2]int64 // how long a request, and its reply, take to and from a process
	blind    [2]bool  // it does not know the server's time
	wrong    bool     // that was not 0 once
	calendar [2]int8
	since    int64 // when the other calendar was first deployed
	books    [2]Book
	leader   int8 // -1: none leads
	phase    phase
	sent     Mark
	before   Mark // the one before it, as its leader knows
	stored   Mark
	has      bool     // the key has a record
	slot     int64    // that is worked
	list     instants // with its Missed
	earlier  int64    // a slot yielded before, which may be done late
	ended    [2]int64 // the last slot whose work has ended in a process
	faults   int8     // that may still happen
	future   bool     // one without faults

	first int64    // when the schedule began
	fresh instants // slots that were yielded
	told  instants // worked, or in a list that was done, or before one that says why they may be left out
}

func newWorld(faults int8) world {
	return world{leader: -1, faults: faults, books: [2]Book{{Limits: ticks}, {Limits: ticks}}}
}

// now is the true time.
func (w *world) now() int64 { return zero + w.tick }

// known is what a process knows of the server's time.
func (w *world) known(i int8) Server {
	if w.blind[i] {
		return Server{}
	}
	server := w.now() + w.server
	return Server{server - w.width[i], server + w.width[i]}
}

func (w *world) cal() Calendar { return calendars[w.calendar[w.leader]] }

// move is something that happens. do returns the promise that is broken.
type move struct {
	name  string
	fault bool
	do    func(w *world) string
}

// moves returns what can happen up to a tick.
func (w *world) moves(most int64) (all []move) {
	can := func(name string, do func(w *world) string) { all = append(all, move{name, false, do}) }
	fault := func(name string, do func(w *world)) {
		if w.faults > 0 {
			all = append(all, move{name, true, func(w *world) string { w.faults--; do(w); return "" }})
		}
	}
	lost := func(w *world) { w.leader = -1 }
	if w.tick < most {
		can("tick", func(w *world) string { w.tick++; return "" })
	}
	for i := range int8(2) {
		if w.leader < 0 {
			can(fmt.Sprint("elect ", i), func(w *world) string { w.elect(i); return "" })
		}
		for _, off := range []int64{-6, 12, 0} {
			if w.host[i] != off {
				fault(fmt.Sprintf("the clock of host %d is %+d wrong", i, off), func(w *world) { w.host[i] = off })
			}
		}
		if w.width[i] == 0 {
			fault(fmt.Sprint("requests take long for process ", i), func(w *world) { w.width[i] = 4 })
		}
		if !w.blind[i] && w.leader != i {
			fault(fmt.Sprint("the server's time is not known to process ", i), func(w *world) { w.blind[i] = true })
		}
		fault(fmt.Sprint("host is suspended ", i), func(w *world) { // its lease is over meanwhile
			if w.tick += 3; w.leader == i {
				w.leader = -1
			}
		})
		if w.leader == i || w.calendar[i] != 0 {
			continue
		}
		for c := int8(1); int(c) < len(calendars); c++ {
			fault(fmt.Sprintf("process %d has calendar %d", i, c), func(w *world) {
				w.calendar[i], w.books[i], w.ended[i] = c, Book{Limits: ticks}, None
				if c == another && w.since == None {
					w.since = w.now()
				}
			})
		}
	}
	for _, off := range []int64{-6, ticks.Tolerance, 12, 0} {
		if w.server != off {
			fault(fmt.Sprintf("the server's clock is %+d wrong", off), func(w *world) { w.server, w.wrong = off, true })
		}
	}
	if w.leader < 0 {
		if w.has {
			fault("the key is deleted", func(w *world) { w.stored, w.has = Mark{}, false })
		}
		return all
	}
	if w.blind[w.leader] {
		can("the server's time comes", func(w *world) string { w.blind[w.leader] = false; return "" })
	}
	then := func(name string, first func(w *world) string, after func(w *world)) {
		if w.faults > 0 {
			all = append(all, move{name, true, func(w *world) string { w.faults--; bad := first(w); after(w); return bad }})
		}
	}
	switch w.phase {
	case looking:
		can("look", (*world).look)
		can("hand over", func(w *world) string { w.leader = -1; return "" })
	case storing, ending:
		can("the mark is stored", (*world).reply)
		if w.phase == storing && w.sent.Begun {
			can("the mark is stored as the term is handed over, and taken back", func(w *world) string {
				bad := w.reply()
				w.sent = w.before
				bad += w.reply()
				w.leader = -1
				return bad
			})
		}
		then("the mark is stored, and the process crashes", (*world).store, (*world).crash)
		then("the mark is stored, and the term is lost", (*world).store, lost)
		fault("the mark is not stored, and the term is lost", lost)
	case working:
		can("the work ends", (*world).end)
		then("the work ends, and the term is lost", (*world).end, lost)
		fault("the term is lost during the work", lost)
	}
	if w.earlier != None && (w.phase == looking || w.phase == working) {
		then("an earlier slot is done late", (*world).late, func(*world) {})
	}
	fault("the process crashes", (*world).crash)
	return all
}

func (w *world) elect(i int8) {
	w.leader, w.phase = i, looking
	value := ""
	switch {
	case w.stored != Mark{}:
		value = w.stored.String()
	case w.books[i].Mark == Mark{}: // what was done is forgotten
		w.first, w.fresh, w.told = None, instants{}, instants{}
	}
	w.books[i].Open(value, w.has)
	w.has = true
	if m := w.books[i].Mark; w.stored == (Mark{}) && m != (Mark{}) { // it publishes what it knows
		w.sent, w.phase = m, storing
		w.store()
		w.phase = looking
	}
}

func (w *world) crash() {
	w.books[w.leader], w.ended[w.leader] = Book{Limits: ticks}, None
	w.leader = -1
}

// look does what the leader does next.
func (w *world) look() (broken string) {
	calls, i, before := 0, w.leader, w.books[w.leader].Mark
	now, agrees := w.books[i].Now(w.now()+w.host[i], w.known(i))
	switch right := w.host[i] == w.server; {
	case right && !agrees:
		return "a right clock is not believed"
	case !right && agrees && !w.blind[i] && max(w.host[i]-w.server, w.server-w.host[i]) > w.width[i]+ticks.Agree:
		return "a wrong clock is believed"
	}
	act := w.books[i].Look(now, func(after int64) int64 {
		if calls++; calls > 2*ticks.Calls {
			broken = "the calendar is called without end"
			return None
		}
		return w.cal()(after)
	})
	switch {
	case broken != "":
	case act.Store != nil:
		if act.Store.Why != Fine && act.Store.Why != before.Why && act.Store.Why != act.Fault {
			return "the calendar begins anew, and nothing is told"
		}
		if act.Fault == Fine && w.has && act.Store.At < w.stored.At {
			return "the mark goes back, and nothing is told"
		}
		w.sent, w.before, w.phase = *act.Store, before, storing
	case act.Yield != nil:
		if act.Yield.Why != act.Fault && act.Yield.Why != before.Why {
			return "a slot says why others are left out, and nothing was told"
		}
		return w.yield(act.Yield)
	}
	return broken
}

// yield gives a slot to the work.
func (w *world) yield(s *Slot) string {
	w.earlier = w.slot
	w.slot, w.list, w.phase = s.Time, instants{}, working
	w.list.add(s.Time)
	for _, t := range s.Missed {
		w.list.add(t)
	}
	switch {
	case s.Why != Fine:
		w.list.addBetween(0, s.Time)
	case len(s.Missed) == ticks.Missed:
		w.list.addBetween(s.After, s.Missed[0])
	}
	switch {
	case w.stored != Mark{} && (w.stored.At != s.Time || !w.stored.Begun) || w.stored == Mark{} && !s.Begun:
		return fmt.Sprintf("slot %d is yielded, and no mark says that it is begun", s.Time-zero)
	case w.ended[w.leader] == s.Time && s.Time > w.stored.High: // after a mark that was ahead the work decides
		return fmt.Sprintf("slot %d is yielded again by the process that has worked it", s.Time-zero)
	case !s.Begun && w.fresh.has(s.Time):
		return fmt.Sprintf("slot %d is yielded as new twice", s.Time-zero)
	case w.server == 0 && !w.blind[w.leader] && s.Time > w.now()+ticks.Agree+w.width[w.leader]:
		return fmt.Sprintf("slot %d is early, and the server's clock is right", s.Time-zero)
	case w.calendar[w.leader] == another && !s.Begun && !w.wrong && s.Time < w.since-ticks.Agree-w.width[w.leader] && s.Time%2 != 0:
		return fmt.Sprintf("slot %d is before its calendar was deployed", s.Time-zero)
	}
	w.fresh.add(s.Time)
	return ""
}

// end ends the work of the slot.
func (w *world) end() string {
	w.told.join(w.list)
	w.ended[w.leader] = w.slot
	if m := w.books[w.leader].Done(w.slot, w.cal()); m != nil {
		w.sent, w.phase = *m, ending
	} else {
		w.phase = looking
	}
	return ""
}

// late says that an earlier slot is done.
func (w *world) late() string {
	if m := w.books[w.leader].Done(w.earlier, w.cal()); m != nil && w.earlier != w.books[w.leader].Mark.At {
		return fmt.Sprintf("slot %d is marked as done, because %d is done late", w.stored.At-zero, w.earlier-zero)
	}
	return ""
}

// store stores the mark that was sent.
func (w *world) store() string {
	if w.first == None {
		w.first = w.sent.At
	}
	w.stored = w.sent
	if bad := w.observe(); bad != "" {
		return bad
	}
	if w.phase == ending {
		return w.untold()
	}
	return ""
}

// observe shows the mark to the process that waits.
func (w *world) observe() string {
	if w.future { // it makes no difference any more
		return ""
	}
	i, its := 1-w.leader, w.calendar[w.leader]
	fault := w.books[i].Observe(w.stored.String(), calendars[w.calendar[i]])
	if other := w.calendar[i]; fault == Unread || fault != Changed && other != its && other+its == another {
		return "the process that waits does not see that the leader has another calendar"
	}
	return ""
}

// untold looks for slots that are left out without a word when the work of one is complete.
func (w *world) untold() string {
	c := w.calendar[w.leader]
	cal := calendars[c%2] // a calendar that is broken at one instant has the slots of the whole one
	if w.stored.Why != Fine && w.stored.At == w.slot {
		return fmt.Sprintf("slot %d is done, and the next one still says why others are left out", w.slot-zero)
	}
	for t := cal(w.first); t <= w.slot; t = cal(t) {
		if t <= w.now() && !w.told.has(t) && (c != another || t > w.since) {
			return fmt.Sprintf("slot %d is untold when %d is done", t-zero, w.stored.At-zero)
		}
	}
	return ""
}

// reply stores the mark, and tells its leader.
func (w *world) reply() string {
	bad := w.store()
	w.books[w.leader].Stored(w.sent)
	w.phase = looking
	return bad
}

// calm lets nothing go wrong any more but the hosts' clocks, and looks for slots that do not come.
func (w world) calm() string {
	w.server, w.faults, w.blind, w.future = 0, 0, [2]bool{}, true
	if w.leader < 0 {
		w.elect(0)
	}
	begun, came := w.tick, instants{}
	last := begun + ticks.Tolerance + 2*ticks.Agree + 2 + w.width[0] + w.width[1] // silence is no longer
	for ; w.tick <= last+4; w.tick++ {
		for range 12 {
			was, bad := w.phase, ""
			switch w.phase {
			case looking:
				bad = w.look()
			case storing, ending:
				bad = w.reply()
			case working:
				bad = w.end()
			}
			if bad != "" {
				return "later: " + bad
			}
			if w.phase == working && w.now() <= w.slot+ticks.Agree+w.width[w.leader] {
				came.add(w.slot)
			}
			if was == looking && w.phase == looking {
				break // it waits
			}
		}
	}
	cal := calendars[w.calendar[w.leader]%2]
	for t := cal(zero + last); t < w.now()-ticks.Agree-w.width[w.leader]; t = cal(t) {
		if !came.has(t) {
			return fmt.Sprintf("slot %d does not come, although the server's clock is right since %d", t-zero, begun)
		}
	}
	return ""
}

// trace is how a situation was reached.
type trace []string

func (t trace) String() string { return "\n\t" + strings.Join(t, "\n\t") }
