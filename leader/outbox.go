package leader

import "slices"

// outboxSize is how many events may be unread before they are held back in the
// candidate, where Observed and Faulted are coalesced. As many survive the end
// of the candidate.
const outboxSize = 64

// outbox hands events to a reader that nobody waits for.
type outbox struct {
	ch      chan Event
	backlog []Event
}

// add queues an event. Of the Observed events in the backlog only the last is of
// use, and likewise of Faulted.
func (o *outbox) add(e Event) {
	switch e.(type) {
	case Observed:
		o.backlog = slices.DeleteFunc(o.backlog, func(b Event) bool { _, ok := b.(Observed); return ok })
	case Faulted:
		o.backlog = slices.DeleteFunc(o.backlog, func(b Event) bool { _, ok := b.(Faulted); return ok })
	case Pending, Elected, Fenced, Deposed:
	}
	o.backlog = append(o.backlog, e)
	o.flush()
}

// flush moves what fits into the channel.
func (o *outbox) flush() {
	for len(o.backlog) > 0 {
		select {
		case o.ch <- o.backlog[0]:
			o.sent()
		default:
			return
		}
	}
}

// offer returns the channel and the next event to send on it, or nil.
func (o *outbox) offer() (chan<- Event, Event) {
	if len(o.backlog) == 0 {
		return nil, nil
	}
	return o.ch, o.backlog[0]
}

// sent drops the event that was just sent.
func (o *outbox) sent() {
	o.backlog[0] = nil
	o.backlog = o.backlog[1:]
}

// close leaves what fits for a later reader and closes the channel. If there is
// more, it leaves out Observed and Faulted, then whole terms, the oldest first:
// there is still one Deposed for every Elected.
func (o *outbox) close() {
	o.flush()
	if len(o.backlog) > 0 {
		o.backlog = slices.DeleteFunc(o.backlog, func(b Event) bool {
			switch b.(type) {
			case Observed, Faulted:
				return true
			case Pending, Elected, Fenced, Deposed:
			}
			return false
		})
	}
	for free := cap(o.ch) - len(o.ch); len(o.backlog) > free && o.dropTerm(); {
	}
	o.flush()
	close(o.ch)
}

// dropTerm removes the oldest term that lies wholly in the backlog.
func (o *outbox) dropTerm() bool {
	from := slices.IndexFunc(o.backlog, func(b Event) bool { _, ok := b.(Elected); return ok })
	if from < 0 {
		return false
	}
	to := from + slices.IndexFunc(o.backlog[from:], func(b Event) bool { _, ok := b.(Deposed); return ok })
	if to < from {
		return false
	}
	if from > 0 {
		if _, ok := o.backlog[from-1].(Pending); ok {
			from--
		}
	}
	o.backlog = slices.Delete(o.backlog, from, to+1)
	return true
}
