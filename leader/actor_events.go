package leader

import (
	"iter"
	"slices"
	"sync"

	"github.com/natsleader/natsleader/internal/backend"
)

// maxPast is how many events an outbox keeps for the readers that come later.
const maxPast = 32

// maxUnread is how many events wait for one reader at most. The body of a loop may never return.
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
	out    *outbox
	unread eventList
	bell   chan struct{} // rings after an event was added; closed when no more come
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

// close ends the wait of all readers. What is unread can still be read.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for _, r := range o.readers {
		close(r.bell)
	}
	o.readers = nil
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
	if len(r.unread) == 0 {
		return nil, false
	}
	e, r.unread[0] = r.unread[0], nil
	r.unread = r.unread[1:]
	return e, true
}

// all returns the events until no more come or the loop over them ends.
func (r *eventReader) all() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for open := true; open; _, open = <-r.bell { // the bell rings once more for the last event
			for e, ok := r.next(); ok; e, ok = r.next() {
				if !yield(e) {
					return
				}
			}
		}
	}
}

func init() {
	backend.EventsOf = func(candidate any) (next func() (any, bool), bell <-chan struct{}) {
		r := candidate.(*Candidate).reader() //nolint:forcetypeassert // package leadertest has no other
		return func() (any, bool) { return r.next() }, r.bell
	}
}

// eventList is a list of events in order.
type eventList []Event

// add appends an event. While there are more than most, the list leaves out Observed and
// Faulted that a later one replaces, and then whole terms, the oldest first. So there is still
// one Deposed for every Elected. What then remains has a bound, too: the last term, one Faulted,
// and one Observed for each seat.
func (l *eventList) add(e Event, most int) {
	*l = append(*l, e)
	for len(*l) > most && (l.dropReplaced() || l.dropTerm()) {
	}
}

// dropReplaced leaves out the oldest Faulted, or Observed of a seat, that a later one replaces.
func (l *eventList) dropReplaced() bool {
	oldest, faulted, observed := -1, false, make(map[int]bool)
	for i, e := range slices.Backward(*l) {
		switch e := e.(type) {
		case Faulted:
			if faulted {
				oldest = i
			}
			faulted = true
		case Observed:
			if observed[e.Holder.Seat] {
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

// dropTerm leaves out the oldest term of which nothing was read and that is over, or the oldest
// Pending that no term followed.
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
		case Deposed:
			if from >= 0 {
				return l.dropTransitions(from, i+1)
			}
		case Fenced, Observed, Faulted:
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
