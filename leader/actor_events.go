package leader

import (
	"slices"
	"sync"
)

// outboxSize is how many events may be unread before they are held back in the
// candidate, where Observed and Faulted are coalesced. As many survive the end
// of the candidate.
const outboxSize = 32

// maxBacklog is how many events are held back at most. An application may read none.
const maxBacklog = 1024

// outbox hands events to a reader. Nothing waits for that reader. It makes the channel when the
// application asks for it: of thousands of candidates, most may have no reader.
type outbox struct {
	mu      sync.Mutex // held for moments only; only open may be called by others than the candidate's goroutine
	ch      chan Event
	ready   []Event // without a channel: the events that would be in it
	backlog []Event
}

// open returns the channel, and makes it at first. late reports that it has just made it, and
// that events wait for room in it.
func (o *outbox) open() (events chan Event, late bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ch != nil {
		return o.ch, false
	}
	o.ch = make(chan Event, outboxSize)
	for _, e := range o.ready {
		o.ch <- e // there are no more than fit
	}
	o.ready = nil
	return o.ch, len(o.backlog) > 0
}

// add queues an event. Of the Observed events in the backlog only the last is of use, and
// of the Faulted events likewise.
func (o *outbox) add(e Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keep(e)
	o.flush()
}

// keep is add without a try to send. The outbox is locked, as it is in flush, push and drop.
func (o *outbox) keep(e Event) {
	switch e.(type) {
	case Observed:
		o.backlog = slices.DeleteFunc(o.backlog, func(b Event) bool { _, ok := b.(Observed); return ok })
	case Faulted:
		o.backlog = slices.DeleteFunc(o.backlog, func(b Event) bool { _, ok := b.(Faulted); return ok })
	case Pending, Elected, Fenced, Deposed:
	}
	o.backlog = append(o.backlog, e)
	for len(o.backlog) > maxBacklog && o.dropOldest() {
	}
}

// flush moves events into the channel until it is full.
func (o *outbox) flush() {
	for len(o.backlog) > 0 && o.push(o.backlog[0]) {
		o.drop()
	}
}

// push sends an event if there is room for it.
func (o *outbox) push(e Event) bool {
	if o.ch == nil {
		if len(o.ready) == outboxSize {
			return false
		}
		o.ready = append(o.ready, e)
		return true
	}
	select {
	case o.ch <- e:
		return true
	default:
		return false
	}
}

// offer returns the channel and the next event to send on it, or nil.
func (o *outbox) offer() (chan<- Event, Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.backlog) == 0 || o.ch == nil {
		return nil, nil
	}
	return o.ch, o.backlog[0]
}

// sent drops the event that was just sent.
func (o *outbox) sent() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop()
}

// drop drops the first event of the backlog.
func (o *outbox) drop() {
	o.backlog[0] = nil
	o.backlog = o.backlog[1:]
}

// close leaves the events that fit for a later reader and closes the channel. If there
// are more, it leaves out Observed and Faulted, then whole terms, the oldest first. So
// there is still one Deposed for every Elected. For this, close takes unread events back
// from the channel, because a term may have begun in the channel and ended in the
// backlog.
func (o *outbox) close() {
	o.open()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	if len(o.backlog) > 0 {
		o.recall()
		o.backlog = slices.DeleteFunc(o.backlog, func(b Event) bool {
			switch b.(type) {
			case Observed, Faulted:
				return true
			case Pending, Elected, Fenced, Deposed:
			}
			return false
		})
	}
	for len(o.backlog) > cap(o.ch) && o.dropOldest() {
	}
	o.flush()
	close(o.ch)
}

// recall puts unread events in front of the backlog again. A reader that was more than a
// channel behind and wakes up at this very moment may get an older event after a newer
// one.
func (o *outbox) recall() {
	var unread []Event
	for {
		select {
		case e := <-o.ch:
			unread = append(unread, e)
		default:
			o.backlog = append(unread, o.backlog...)
			return
		}
	}
}

// dropOldest removes the oldest term of which nothing has been read, or a Pending that no
// term followed.
func (o *outbox) dropOldest() bool {
	from := slices.IndexFunc(o.backlog, func(b Event) bool {
		switch b.(type) {
		case Pending, Elected:
			return true
		case Fenced, Deposed, Observed, Faulted:
		}
		return false
	})
	if from < 0 {
		return false
	}
	to := from
	if _, pending := o.backlog[from].(Pending); pending {
		to++
	}
	if to == len(o.backlog) {
		to--
	} else if _, elected := o.backlog[to].(Elected); !elected {
		to--
	} else {
		n := slices.IndexFunc(o.backlog[to:], func(b Event) bool { _, ok := b.(Deposed); return ok })
		if n < 0 {
			return false
		}
		to += n
	}
	o.backlog = slices.Delete(o.backlog, from, to+1)
	return true
}
