package leader

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// unread takes the unread events of a reader.
func unread(r *eventReader) (events []Event) {
	for e, ok := r.next(); ok; e, ok = r.next() {
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

// lastWholeTerm returns the token of the last term. It fails if the events contain a part of a term.
func lastWholeTerm(t *testing.T, events []Event) (last uint64) {
	t.Helper()
	open, pending := uint64(0), false
	for _, e := range events {
		switch e := e.(type) {
		case Pending:
			pending = true
		case Elected:
			if open != 0 || !pending || e.Term.token <= last {
				t.Fatalf("term %d begins within %d, after %d, after a Pending: %v", e.Term.token, open, last, pending)
			}
			open, last, pending = e.Term.token, e.Term.token, false
		case Fenced:
			if e.Term.token != open {
				t.Fatalf("term %d is fenced within %d", e.Term.token, open)
			}
		case Deposed:
			if e.Term.token != open {
				t.Fatalf("term %d ends within %d", e.Term.token, open)
			}
			open = 0
		case Observed, Faulted:
		}
	}
	if open != 0 {
		t.Fatalf("term %d never ends", open)
	}
	return last
}

// Each reader gets the events in the order in which they were added, whatever others read.
func TestOutbox_KeepsOrder(t *testing.T) {
	var o outbox
	a, b := o.enter(), o.enter()
	addTerm(&o, 1)
	got := unread(a)
	o.add(Observed{})
	o.close()
	got = append(got, unread(a)...)
	for _, events := range [][]Event{got, unread(b), unread(o.enter())} {
		text := ""
		for _, e := range events {
			text += fmt.Sprintf("%T ", e)
		}
		if want := "leader.Pending leader.Elected leader.Fenced leader.Deposed leader.Observed "; text != want {
			t.Errorf("%s, want %s", text, want)
		}
	}
}

// The number of unread events is bounded, and so is that of the past. Whole terms are left out, the
// oldest first, also among events that came to nothing and those that are of use only once.
func TestOutbox_IsBounded(t *testing.T) {
	for _, others := range []bool{false, true} {
		var o outbox
		r := o.enter()
		for token := uint64(1); token < 1_000; token++ {
			if others {
				o.add(Pending{}) // comes to nothing
				o.add(Faulted{Err: ErrUnreachable})
			}
			addTerm(&o, token)
			if others {
				o.add(Observed{Holder{Token: token}})
			}
		}
		for most, events := range map[int][]Event{maxUnread: unread(r), maxPast: unread(o.enter())} {
			if len(events) > most || len(events) < most-4 {
				t.Errorf("%d of %d are kept", len(events), most)
			}
			if last := lastWholeTerm(t, events); last != 999 {
				t.Errorf("the last term is %d", last)
			}
			if _, observed := events[len(events)-1].(Observed); observed != others {
				t.Errorf("the newest Observed is not the last: %v", events)
			}
		}
	}
}

// Observed and Faulted that a later one replaces are left out before any term. Observed of another
// seat replace none.
func TestOutbox_LeavesOutReplaced(t *testing.T) {
	var o outbox
	r := o.enter()
	addTerm(&o, 1)
	o.add(Observed{Holder{Seat: 2}})
	for i := range uint64(2 * maxUnread) {
		o.add(Observed{Holder{Seat: 1, Revision: i}})
		o.add(Faulted{Err: fmt.Errorf("fault %d", i)})
	}
	addTerm(&o, 2)
	for most, events := range map[int][]Event{maxUnread: unread(r), maxPast: unread(o.enter())} {
		if len(events) != most || lastWholeTerm(t, events) != 2 {
			t.Fatalf("%d of %d are kept: %v", len(events), most, events[:10])
		}
		if e, ok := events[3].(Deposed); !ok || e.Term.token != 1 {
			t.Errorf("the first term is left out: %v", events[3])
		}
		if e, ok := events[4].(Observed); !ok || e.Holder.Seat != 2 {
			t.Errorf("the holder of the other seat is left out: %v", events[4])
		}
		if e, ok := events[most-5].(Faulted); !ok || e.Err.Error() != fmt.Sprintf("fault %d", 2*maxUnread-1) {
			t.Errorf("the last fault is left out: %v", events[most-5])
		}
	}
}

// A reader that knows of the beginning of a term also gets its end, and one whose term goes on is
// kept, however many others are left out.
func TestOutbox_KeepsOpenTerms(t *testing.T) {
	for read := range 3 {
		var o outbox
		r := o.enter()
		addTerm(&o, 1)
		var got []Event
		for range read {
			e, _ := r.next()
			got = append(got, e)
		}
		for token := uint64(2); token < 1_000; token++ {
			addTerm(&o, token)
		}
		o.add(Pending{Token: 1_000})
		last := &Term{token: 1_000}
		o.add(Elected{Term: last})
		for range 2 * maxUnread {
			o.add(Faulted{Err: ErrUnreachable})
		}
		o.add(Deposed{Term: last})
		if last := lastWholeTerm(t, append(got, unread(r)...)); last != 1_000 {
			t.Errorf("after %d events: the last term is %d", read, last)
		}
	}
}

// A loop that ends leaves no reader behind, and a sequence of events of which nobody makes a loop
// never makes one. Neither costs the candidate anything.
func TestEvents_LeaveNoReader(t *testing.T) {
	c := &Candidate{done: make(chan struct{})}
	c.out.add(Observed{})
	for range 10 {
		_ = c.Events()
		for range c.Events() {
			break
		}
		func() {
			defer func() { _ = recover() }()
			for range c.Events() {
				panic("in the body")
			}
		}()
	}
	if n := len(c.out.readers); n != 0 {
		t.Errorf("%d readers are left", n)
	}
}

// A candidate whose events nobody reads keeps the newest of them, and makes nothing else for them.
func TestOutbox_UnreadIsSmall(t *testing.T) {
	var o outbox
	for token := range uint64(1_000) {
		addTerm(&o, token)
	}
	if o.readers != nil || cap(o.past) > 3*maxPast {
		t.Errorf("%d readers, and room for %d events", len(o.readers), cap(o.past))
	}
}

// Many readers come, read and go while events are added. Each gets those that come after it in order.
func TestOutbox_ManyReaders(t *testing.T) {
	c := &Candidate{done: make(chan struct{})}
	const n, readers = 500, 8
	ended := make(chan error, readers)
	for i := range readers {
		go func() {
			var tokens []uint64
			for e := range c.Events() {
				tokens = append(tokens, e.(Pending).Token)
				if i%2 == 1 && len(tokens) == 100 {
					break // and others go on
				}
			}
			if !slices.IsSorted(tokens) || i%2 == 0 && tokens[len(tokens)-1] != n-1 {
				ended <- fmt.Errorf("reader %d got %v", i, tokens)
				return
			}
			ended <- nil
		}()
	}
	for i := range uint64(n) {
		c.out.add(Pending{Token: i})
		runtime.Gosched()
	}
	c.out.close()
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range readers {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-limit.Done():
			t.Fatal("a reader does not end")
		}
	}
}

// Ready leaves no reader behind.
func TestReady_LeavesNoReader(t *testing.T) {
	c := &Candidate{done: make(chan struct{}), loops: &loops{}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Ready(ended); err == nil {
		t.Error("it neither leads nor follows")
	}
	if n := len(c.out.readers); n != 0 {
		t.Errorf("%d readers are left", n)
	}
}
