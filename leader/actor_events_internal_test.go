package leader

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func newOutbox(size int) *outbox { return &outbox{ch: make(chan Event, size)} }

// unread takes the events that are left in a closed outbox.
func unread(o *outbox) []Event {
	var events []Event
	for e := range o.ch {
		events = append(events, e)
	}
	return events
}

// addTerm adds all events of one term.
func addTerm(o *outbox, token uint64) {
	term := &Term{token: token}
	o.add(Pending{Token: token})
	o.add(Elected{Term: term})
	o.add(Fenced{Term: term, Cause: ErrLeaseExpired})
	o.add(Deposed{Term: term, Cause: ErrLeaseExpired})
}

// The outbox delivers events in the order in which they were added.
func TestOutbox_KeepsOrder(t *testing.T) {
	o := newOutbox(8)
	addTerm(o, 1)
	o.add(Observed{})
	if next, event := o.offer(); next != nil || event != nil {
		t.Errorf("%v is offered although everything fits", event)
	}
	o.close()
	got := ""
	for _, e := range unread(o) {
		got += fmt.Sprintf("%T ", e)
	}
	if want := "leader.Pending leader.Elected leader.Fenced leader.Deposed leader.Observed "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The number of unread events is bounded. Whole terms are left out, the oldest first.
func TestOutbox_IsBounded(t *testing.T) {
	o := newOutbox(32)
	for token := range uint64(10_000) {
		addTerm(o, token)
	}
	if len(o.backlog) > maxBacklog || len(o.backlog) < maxBacklog-4 {
		t.Errorf("%d are held back", len(o.backlog))
	}
	open, last := 0, uint64(0)
	for _, e := range o.backlog {
		switch e := e.(type) {
		case Elected:
			open++
		case Deposed:
			if open--; open < 0 {
				t.Errorf("Deposed of token %d without its Elected", e.Term.Token())
			}
			last = e.Term.Token()
		case Pending, Fenced, Observed, Faulted:
		}
	}
	if open != 0 || last != 9_999 {
		t.Errorf("%d terms are open, the last has token %d", open, last)
	}
}

// Transitions are never dropped while few are unread. Observed and Faulted are coalesced while there is no
// reader, so an unread channel cannot grow without bound.
func TestOutbox_Coalesces(t *testing.T) {
	o := newOutbox(2)
	addTerm(o, 1)
	for i := range uint64(1000) {
		o.add(Observed{Holder{Revision: i}})
		o.add(Faulted{Err: fmt.Errorf("fault %d", i)})
	}
	addTerm(o, 2)
	// Two fit; left are the rest of the first term, one of each, and the second term.
	if len(o.backlog) != 2+2+4 {
		t.Fatalf("%d are held back: %v", len(o.backlog), o.backlog)
	}
	if e, ok := o.backlog[2].(Observed); !ok || e.Holder.Revision != 999 {
		t.Errorf("not the newest Observed is kept: %v", o.backlog[2])
	}
	if e, ok := o.backlog[3].(Faulted); !ok || e.Err.Error() != "fault 999" {
		t.Errorf("not the newest Faulted is kept: %v", o.backlog[3])
	}
}

// A reader receives the events that the outbox held back.
func TestOutbox_DeliversBacklog(t *testing.T) {
	o := newOutbox(1)
	addTerm(o, 1)
	var got []Event
	got = append(got, <-o.ch)
	for {
		next, event := o.offer()
		if next == nil {
			break
		}
		next <- event
		o.sent()
		got = append(got, <-o.ch)
	}
	if len(got) != 4 {
		t.Errorf("%v", got)
	}
}

// The channel is made when it is asked for. The reader gets the same events as from a channel
// that was there from the beginning, whenever that is.
func TestOutbox_OpenedLate(t *testing.T) {
	const most = 80
	for opened := range most + 1 {
		early, late := newOutbox(outboxSize), &outbox{}
		for i := range most {
			if i == opened {
				if _, waits := late.open(); waits != (len(early.backlog) > 0) {
					t.Fatalf("after %d events: reports %v", i, waits)
				}
			}
			for _, o := range []*outbox{early, late} {
				switch i % 4 {
				case 0:
					o.add(Pending{Token: uint64(i)})
				case 1:
					o.add(Faulted{Remaining: time.Duration(i)})
				default:
					o.add(Observed{Holder: Holder{Token: uint64(i)}})
				}
			}
			if next, _ := late.offer(); next != nil && i < opened {
				t.Fatalf("offers an event before there is a channel")
			}
		}
		early.close()
		late.close()
		if got, want := fmt.Sprint(unread(late)), fmt.Sprint(unread(early)); got != want {
			t.Fatalf("opened after %d events: %s, want %s", opened, got, want)
		}
	}
}

// Closed with more than fits, the outbox leaves out whole terms, the oldest
// first: "exactly one Deposed for each Elected", also for a term that began in
// the channel and ended in the backlog.
func TestOutbox_ClosedKeepsPairs(t *testing.T) {
	for size := 4; size <= 64; size++ {
		for terms := range uint64(40) {
			o := newOutbox(size)
			for token := range terms {
				o.add(Pending{}) // comes to nothing
				addTerm(o, token+1)
				o.add(Observed{})
				o.add(Faulted{Err: errors.New("x")})
			}
			o.close()
			last, open := uint64(0), uint64(0)
			for _, e := range unread(o) {
				switch e := e.(type) {
				case Elected:
					if open != 0 || e.Term.token <= last {
						t.Fatalf("size %d: term %d begins within %d, after %d", size, e.Term.token, open, last)
					}
					open, last = e.Term.token, e.Term.token
				case Deposed:
					if e.Term.token != open {
						t.Fatalf("size %d: term %d ends within %d", size, e.Term.token, open)
					}
					open = 0
				case Pending, Fenced, Observed, Faulted:
				}
			}
			if open != 0 {
				t.Fatalf("size %d: term %d of %d never ends", size, open, terms)
			}
			if terms > 0 && last != terms {
				t.Fatalf("size %d: the last term is %d of %d", size, last, terms)
			}
		}
	}
}

// A reader that knows of the beginning of a term also gets its end.
func TestOutbox_ClosedKeepsDeposed(t *testing.T) {
	o := newOutbox(4)
	addTerm(o, 1)
	<-o.ch
	<-o.ch
	for range 10 {
		o.add(Pending{})
	}
	addTerm(o, 2)
	o.close()
	events := unread(o)
	if d, ok := events[1].(Deposed); !ok || d.Term.token != 1 {
		t.Errorf("%v", events)
	}
}
