// Package slots has the rules of a schedule, as a state machine without a goroutine, lock, clock, context or I/O: which clock
// decides, which slot of a calendar is due, what its leader marks before and after the work, and what the next leader makes of
// a mark. A [Book] is a plain value. Instants are Unix nanoseconds.
//
//	slots.go     Book: what a process knows of its schedule, and what it does next
//	calendar.go  a Calendar that is called a bounded number of times, and its fingerprint
//	mark.go      Mark: how far the leaders have come, and the text that they publish
package slots

// None is no instant.
const None int64 = 0

// Limits are the durations of the rules, in nanoseconds, and the bounds of a look.
type Limits struct {
	Agree     int64 // by which a host's clock may differ from the server's and is still believed
	Tolerance int64 // by which a mark may be ahead of now without a fault: more than two clocks that are believed can differ
	Horizon   int64 // a slot that was worked longer before its time is forgotten, with those that were worked early before it
	Span      int64 // the first one that is looked back over for missed slots
	Missed    int   // slots that are listed
	Calls     int   // of the calendar, in one search
}

// Fault is what is wrong with a schedule, which goes on. The zero Fault is none.
type Fault uint8

// The faults.
const (
	Fine    Fault = iota
	Ahead         // the last mark is in the future
	Changed       // the calendar is not that of the last leader
	Broken        // the calendar does not advance, or has too many slots
	Unread        // what the last leader published is no mark
)

// Server is what a process knows of the server's time: that it is not before Least, and not after Most. The zero Server is
// nothing.
type Server struct{ Least, Most int64 }

// Slot is a slot that is due.
type Slot struct {
	Time, After int64
	Begun       bool // a leader may have worked it
	Missed      []int64
	Why         Fault // why others before it may be left out
}

// Act is what the leader does next: Store a mark, Yield a slot, or look again at Wait. Fault is to be reported.
type Act struct {
	Store *Mark
	Yield *Slot
	Wait  int64 // None: no slot is known, and the calendar is to be asked again after a while
	Fault Fault
}

// Book is what a process knows of its schedule.
type Book struct {
	Limits
	Mark     Mark  // the last one that was stored, as far as the process knows
	complete int64 // the newest slot whose work is complete here; its mark may be lost
	fresh    bool  // Mark was stored by this leader, for a slot that is not yielded yet
	opened   bool  // the term begins: Mark may be of another calendar
	unread   bool  // the last leader published something else
	anew     int64 // where the calendar begins after the slot that was begun; None: it goes on
	why      Fault // why it begins anew
	differs  bool  // the host's clock is not believed
}

// Now returns the time of day, and whether it is the host's. That is believed while it agrees with the server's, or the
// server's is not known. Once it was not, it has to agree twice as well. The server's is taken as late as it can be, so that
// no slot is early.
func (b *Book) Now(host int64, server Server) (now int64, agrees bool) {
	by := b.Agree
	if b.differs {
		by /= 2
	}
	b.differs = server != Server{} && (host < server.Least-by || host > server.Most+by)
	if b.differs {
		return server.Least, false
	}
	return host, true
}

// Open begins a term. value is what the last leader has published, if one is known. Without a value the process goes on from
// the last mark that it knows.
func (b *Book) Open(value string, known bool) {
	b.fresh, b.opened, b.anew = false, true, None
	m, ok := ParseMark(value)
	b.unread = known && !ok && (value != "" || b.Mark == Mark{})
	if ok {
		b.Mark = m
	}
}

// Observe notes what the leader publishes while it is another process, and returns the fault that this leader is none of this
// schedule.
func (b *Book) Observe(value string, cal Calendar) Fault {
	m, ok := ParseMark(value)
	if !ok {
		return Unread
	}
	b.Mark = m
	if m.Differs(cal) {
		return Changed
	}
	return Fine
}

// Stored notes that a mark is stored.
func (b *Book) Stored(m Mark) {
	b.Mark, b.fresh, b.opened, b.unread, b.anew = m, m.Begun, false, false, None
}

// Look returns what to do.
func (b *Book) Look(now int64, cal Calendar) Act {
	m := b.Mark
	switch {
	case b.unread:
		return b.restart(now, cal, Unread)
	case m == Mark{}:
		return b.restart(now, cal, Fine)
	case m.At > now+b.Tolerance:
		return b.restart(now, cal, Ahead)
	case m.Begun && m.At > now:
		return Act{Wait: m.At}
	case b.fresh:
		return b.yield(m.At <= m.High, cal, Fine)
	}
	next, ok := b.search(cal).next(m.At)
	fault := Fine
	switch {
	case !ok:
		fault = Broken
	case b.opened && m.Differs(cal):
		fault = Changed
	}
	switch {
	case m.Begun:
		return b.resume(now, cal, fault)
	case fault != Fine:
		return b.restart(now, cal, fault)
	}
	b.opened = false
	if next == None || next > now {
		return Act{Wait: next}
	}
	due, _ := b.search(cal).newest(m.At, now, b.Span, 1)
	if len(due) == 0 {
		return b.restart(now, cal, Broken)
	}
	return Act{Store: mark(cal, Mark{At: due[0], Begun: true, After: m.At, High: m.High, Why: m.Why})}
}

// yield yields the slot of the mark. With a fault its missed slots are not known.
func (b *Book) yield(begun bool, cal Calendar, fault Fault) Act {
	m := b.Mark
	s := &Slot{Time: m.At, After: m.After, Begun: begun, Why: m.Why}
	if fault == Fine {
		var ok bool
		if s.Missed, ok = b.search(cal).newest(m.After, m.At-1, b.Span, b.Missed); !ok {
			fault = Broken
		}
	}
	if fault != Fine {
		s.Why = fault
	}
	return Act{Yield: s, Fault: fault}
}

// resume takes up the slot that an earlier leader has begun.
func (b *Book) resume(now int64, cal Calendar, fault Fault) Act {
	if fault != Fine && b.anew == None {
		b.anew, b.why = now, fault
	}
	if b.Mark.At == b.complete {
		return Act{Store: b.done(cal), Fault: fault}
	}
	return b.yield(true, cal, fault)
}

// restart lets the calendar begin anew, with the first slot after now. It does not go back, unless the mark was wrong.
func (b *Book) restart(now int64, cal Calendar, why Fault) Act {
	at := now
	if why != Ahead {
		at = max(now, b.Mark.At)
	}
	if _, ok := b.search(cal).next(at); !ok {
		return Act{Fault: Broken}
	}
	m := Mark{At: at, Why: why}
	for _, worked := range []int64{b.Mark.At, b.Mark.High} {
		if worked <= now+b.Horizon {
			m.High = max(m.High, worked)
		}
	}
	return Act{Store: mark(cal, m), Fault: why}
}

// Done returns the mark that says that the work of a slot is complete, or nil if the schedule is not at this slot.
func (b *Book) Done(slot int64, cal Calendar) *Mark {
	if b.Mark.At != slot || !b.Mark.Begun {
		return nil
	}
	b.complete = slot
	return b.done(cal)
}

func (b *Book) done(cal Calendar) *Mark {
	m := Mark{At: b.Mark.At, High: b.Mark.High}
	if b.anew > m.At {
		m.At, m.Why = b.anew, b.why
	}
	return mark(cal, m)
}

// mark completes a mark.
func mark(cal Calendar, m Mark) *Mark {
	m.Print = fingerprint(cal, m.At)
	if next := cal(m.At); next > m.At {
		m.Next = next
	}
	if m.High < m.At {
		m.High = None
	}
	return &m
}
