package leader

import (
	"reflect"
	"slices"
	"sync"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/machine"
)

// maxPast is how many events an outbox keeps for the readers that come later. A channel of the
// application has room for as many, which survive the end of the candidate.
const maxPast = 32

// maxUnread is how many events wait for one reader at most. It may never read them.
const maxUnread = 1024

// outbox hands every event to each reader, from a list of the reader's own. Nothing waits for a
// reader, and a candidate without readers has no more than the newest events.
type outbox struct {
	mu      sync.Mutex // held for moments only
	past    eventList
	readers []*eventReader
	closed  bool
}

// eventReader is a reader of the events. Its list begins with the past.
type eventReader struct {
	kinds  []Event // that channel sends; empty: all
	out    *outbox
	unread eventList
	bell   chan struct{} // rings after an event was added; closed when no more come
	done   chan struct{} // closed when its forwarder has ended; nil: it has none
}

// add hands an event to all readers.
func (o *outbox) add(e Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.past.add(e, maxPast)
	for _, r := range o.readers {
		r.unread.add(e, maxUnread)
		r.ring()
	}
}

// close ends the wait of all readers, and closes the channels of the application. What is unread
// can still be read.
func (o *outbox) close() {
	for _, r := range o.end() {
		if r.done != nil {
			<-r.done // soon: it waits for the application no longer
		}
	}
}

// end ends the wait of all readers, and returns them.
func (o *outbox) end() (readers []*eventReader) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.readers {
		close(r.bell)
	}
	readers, o.readers, o.closed = o.readers, nil, true
	return readers
}

// enter adds a reader.
func (o *outbox) enter() *eventReader {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := &eventReader{out: o, unread: slices.Clone(o.past), bell: make(chan struct{}, 1)}
	if len(r.unread) > 0 {
		r.ring()
	}
	if o.closed {
		close(r.bell)
	} else {
		o.readers = append(o.readers, r)
	}
	return r
}

// leave removes a reader.
func (o *outbox) leave(r *eventReader) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.readers = slices.DeleteFunc(o.readers, func(is *eventReader) bool { return is == r })
}

func (r *eventReader) ring() {
	select {
	case r.bell <- struct{}{}:
	default:
	}
}

// next takes the oldest unread event. It does not wait for one.
func (r *eventReader) next() (e Event, ok bool) {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	for len(r.unread) > 0 {
		e, r.unread[0] = r.unread[0], nil
		r.unread = r.unread[1:]
		if r.wants(e) {
			return e, true
		}
	}
	return nil, false
}

// wants reports whether the reader has asked for events of that kind. A pointer to an event is an Event, too, and stands for
// the same kind.
func (r *eventReader) wants(e Event) bool {
	kind := reflect.TypeOf(e)
	return len(r.kinds) == 0 || slices.ContainsFunc(r.kinds, func(k Event) bool {
		return reflect.TypeOf(k) == kind || reflect.TypeOf(k) == reflect.PointerTo(kind)
	})
}

// channel returns a channel of the application, which gets the events until ended is closed.
func (r *eventReader) channel(ended <-chan struct{}) <-chan Event {
	events := make(chan Event, maxPast)
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	if r.out.closed {
		r.last(events, nil)
		return events
	}
	r.done = make(chan struct{})
	go func() {
		defer close(r.done)
		r.forward(events, ended)
	}()
	return events
}

// forward sends the events on the channel. It waits for the application, and no longer than until
// ended or the bell is closed.
func (r *eventReader) forward(events chan Event, ended <-chan struct{}) {
	defer r.out.leave(r) // nothing waits any more
	for e := Event(nil); ; {
		var out chan<- Event // nil while there is nothing to send
		if e == nil {
			e, _ = r.next()
		}
		if e != nil {
			out = events
		}
		select {
		case out <- e:
			e = nil
		case _, open := <-r.bell:
			if !open {
				r.last(events, e)
				return
			}
		case <-ended:
			close(events)
			return
		}
	}
}

// last leaves what is unread in the channel, beginning with the event that could not be sent yet, and
// closes the channel. If that is more than there is room for, last takes the events in the channel
// back, because a term may have begun there, and leaves out some of all. An application that reads
// at this very moment, and is more than a channel behind, may then get an older event after a newer one.
func (r *eventReader) last(events chan Event, unsent Event) {
	rest := slices.DeleteFunc(r.unread, func(e Event) bool { return !r.wants(e) }) // no event is added any more
	if unsent != nil {
		rest = slices.Insert(rest, 0, unsent)
	}
	if len(events)+len(rest) > maxPast {
		rest = append(takeAll(events), rest...)
		rest.trim(maxPast)
		rest = rest[max(0, len(rest)-maxPast):] // terms of which not all kinds are there
	}
	for _, e := range rest {
		events <- e // there is room
	}
	close(events)
}

// takeAll takes the events that are in a channel.
func takeAll(events <-chan Event) (all eventList) {
	for {
		select {
		case e := <-events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func init() {
	backend.EventsOf = func(candidate any) (next func() (any, bool), bell <-chan struct{}) {
		r := candidate.(*Candidate).reader() //nolint:forcetypeassert // the test kit has no other
		return func() (any, bool) { return r.next() }, r.bell
	}
	backend.Crash = func(candidate any) { candidate.(*Candidate).toAll(machine.InAbandon) } //nolint:forcetypeassert // likewise
}

// eventList is a list of events in order.
type eventList []Event

// add appends an event, and leaves out others while there are more than most.
func (l *eventList) add(e Event, most int) {
	*l = append(*l, e)
	l.trim(most)
}

// trim leaves out events while there are more than most, the oldest first: Observed and Faulted that
// a later one replaces, then whole terms other than the last, and then other Observed. So there is
// still one Deposed for every Elected. What remains then are a few transitions.
func (l *eventList) trim(most int) {
	for len(*l) > most && (l.dropReport(true) || l.dropTerm() || l.dropReport(false)) {
	}
}

// dropReport leaves out the oldest Faulted, or Observed of a seat, or the oldest of those that a later
// one replaces.
func (l *eventList) dropReport(replaced bool) bool {
	oldest, faulted, observed := -1, !replaced, make(map[int]bool)
	for i, e := range slices.Backward(*l) {
		switch e := e.(type) {
		case Faulted:
			if faulted {
				oldest = i
			}
			faulted = true
		case Observed:
			if !replaced || observed[e.Holder.Seat] {
				oldest = i
			}
			observed[e.Holder.Seat] = true
		case Pending, Elected, Fenced, Deposed:
		}
	}
	if oldest < 0 {
		return false
	}
	*l = slices.Delete(*l, oldest, oldest+1)
	return true
}

// dropTerm leaves out the oldest term, or Pending without a term, of which nothing was read and that
// another Pending follows.
func (l *eventList) dropTerm() bool {
	from := -1
	for i, e := range *l {
		switch e.(type) {
		case Pending:
			if from >= 0 {
				return l.dropTransitions(from, i)
			}
			from = i
		case Elected:
			if from < 0 {
				from = i
			}
		case Fenced, Deposed, Observed, Faulted:
		}
	}
	return false
}

// dropTransitions leaves out the transitions from one index to another.
func (l *eventList) dropTransitions(from, to int) bool {
	kept := slices.DeleteFunc((*l)[from:to], func(e Event) bool {
		switch e.(type) {
		case Observed, Faulted:
			return false
		case Pending, Elected, Fenced, Deposed:
		}
		return true
	})
	*l = slices.Delete(*l, from+len(kept), to)
	return true
}

// offer passes an event on to the readers, in the order in which the events of all seats come: the
// event that ends one seat's term comes before the one that begins another's.
func (c *Candidate) offer(e Event) {
	if c.permit != nil {
		c = c.permit.owner
	}
	c.out.add(e)
}
