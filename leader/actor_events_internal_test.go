package leader

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
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
			check.Must(t, open == 0 && pending && e.Term.token > last,
				"term %d begins within %d, after %d, after a Pending: %v", e.Term.token, open, last, pending)
			open, last, pending = e.Term.token, e.Term.token, false
		case Fenced:
			check.Must(t, e.Term.token == open, "term %d is fenced within %d", e.Term.token, open)
		case Deposed:
			check.Must(t, e.Term.token == open, "term %d ends within %d", e.Term.token, open)
			open = 0
		case Observed, Faulted:
		}
	}
	check.Must(t, open == 0, "term %d never ends", open)
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
		want := "leader.Pending leader.Elected leader.Fenced leader.Deposed leader.Observed "
		check.That(t, text == want, "%s, want %s", text, want)
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
			check.That(t, len(events) <= most && len(events) >= most-4, "%d of %d are kept", len(events), most)
			check.Equal(t, lastWholeTerm(t, events), 999, "the last term is %d")
			_, observed := events[len(events)-1].(Observed)
			check.That(t, observed == others, "the newest Observed is not the last: %v", events)
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

// A channel has events of the kinds that were asked for. The newest of those unread remain at the end, however many
// there are.
func TestOutbox_Kinds(t *testing.T) {
	const terms = 100
	var o outbox
	r := o.enter()
	r.kinds = []Event{Elected{}, &Deposed{Finished: true}}
	events := r.channel(nil)
	for token := uint64(1); token <= terms; token++ {
		addTerm(&o, token)
		o.add(Observed{Holder{Revision: token}})
	}
	o.close()
	want := uint64(terms - maxPast/2 + 1)
	for n := 0; ; n++ {
		e, open := <-events
		if !open {
			check.Equal(t, n, maxPast, "%d events")
			return
		}
		switch e := e.(type) {
		case Elected:
			check.Equal(t, e.Term.token, want, "elected with token %d")
		case Deposed:
			check.Equal(t, e.Term.token, want, "deposed with token %d")
			want++
		default:
			t.Errorf("%v was not asked for", e)
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

// inEvents runs a test with a candidate that has only its events. The bubble does not end before all
// of its goroutines have ended.
func inEvents(t *testing.T, test func(t *testing.T, c *Candidate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, &Candidate{done: make(chan struct{})}) })
}

// left reads the events of a channel that is closed. It fails if it is not.
func left(t *testing.T, channel <-chan Event) (events []Event) {
	t.Helper()
	for {
		select {
		case e, open := <-channel:
			if !open {
				return events
			}
			events = append(events, e)
		default:
			t.Fatalf("the channel is open after %d events", len(events))
		}
	}
}

// The end of the context ends a reader, whether it reads or not, and leaves nothing of it behind.
// It costs the candidate nothing from then on.
func TestEvents_EndWithTheContext(t *testing.T) {
	for _, terms := range []uint64{0, 1, 1_000} { // with nothing to send, with room in the channel, and without
		inEvents(t, func(t *testing.T, c *Candidate) {
			ctx, cancel := context.WithCancel(t.Context())
			var all []<-chan Event
			for range 10 {
				all = append(all, c.Events(ctx))
			}
			for token := range terms {
				addTerm(&c.out, token+1)
			}
			synctest.Wait()
			cancel()
			synctest.Wait()
			check.Equal(t, len(c.out.readers), 0, "%d readers are left")
			addTerm(&c.out, 5_000)
			for _, channel := range all {
				n := len(left(t, channel))
				check.That(t, n == min(int(4*terms), maxPast), "%d terms: %d events are left", terms, n)
			}
		})
	}
}

// The end of the candidate closes the channel of a reader that does not read, and waits for nothing.
// The newest events can still be read: whole terms, and of the term that the reader knows of, the end.
func TestEvents_EndOfUnread(t *testing.T) {
	for read := range 9 {
		for _, terms := range []uint64{2, 8, 9, 16, 17, 18, 300} {
			inEvents(t, func(t *testing.T, c *Candidate) {
				reader, other := c.Events(t.Context()), c.Events(t.Context())
				for token := range terms {
					addTerm(&c.out, token+1)
				}
				synctest.Wait()
				var got []Event
				for range min(read, int(4*terms)) {
					got = append(got, <-reader)
				}
				synctest.Wait()
				c.out.close()
				for channel, before := range map[<-chan Event][]Event{reader: got, other: nil, c.Events(t.Context()): nil} {
					events := left(t, channel)
					last := lastWholeTerm(t, append(before, events...))
					check.That(t, last == terms,
						"after %d events of %d terms: the last term is %d", read, terms, last)
					n, unread := len(events), int(4*terms)-len(before)
					check.That(t, n <= maxPast && n >= min(unread, maxPast-3),
						"after %d events of %d terms: %d of %d are left", read, terms, n, unread)
				}
			})
		}
	}
}

// Of more unread events than there is room for at the end, Observed and Faulted that a later one replaces
// are left out first, then terms, and then the holders of seats.
func TestEvents_EndLeavesOutReports(t *testing.T) {
	for seats, terms := range map[int]int{1: 7, 40: 1} {
		inEvents(t, func(t *testing.T, c *Candidate) {
			events := c.Events(t.Context())
			for token := range uint64(7) {
				for seat := range seats {
					c.out.add(Observed{Holder{Seat: seat}})
					c.out.add(Faulted{Err: ErrUnreachable})
				}
				addTerm(&c.out, token+1)
			}
			synctest.Wait()
			c.out.close()
			for _, all := range [][]Event{left(t, events), left(t, c.Events(t.Context()))} {
				deposed := 0
				for _, e := range all {
					if _, ok := e.(Deposed); ok {
						deposed++
					}
				}
				last := lastWholeTerm(t, all)
				check.That(t, len(all) <= maxPast && len(all) >= maxPast-3 && deposed == terms && last == 7,
					"%d seats: %d events and %d terms up to %d are left", seats, len(all), deposed, last)
			}
		})
	}
}

// A candidate without readers keeps its newest events, and makes nothing else for them.
func TestOutbox_UnreadIsSmall(t *testing.T) {
	var o outbox
	for token := range uint64(1_000) {
		addTerm(&o, token)
	}
	check.That(t, o.readers == nil && cap(o.past) <= 3*maxPast,
		"%d readers, and room for %d events", len(o.readers), cap(o.past))
}

// Many readers come, read and go while events are added. Each gets those that come after it in order.
func TestOutbox_ManyReaders(t *testing.T) {
	c := &Candidate{done: make(chan struct{})}
	const n, readers = 500, 8
	ended := make(chan error, readers)
	for i := range readers {
		go func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var tokens []uint64
			for e := range c.Events(ctx) {
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
			check.That(t, err == nil, "%v", err)
		case <-limit.Done():
			t.Fatal("a reader does not end")
		}
	}
}

// Ready leaves no reader behind.
func TestReady_LeavesNoReader(t *testing.T) {
	c := &Candidate{done: make(chan struct{}), loops: &loops{}}
	check.That(t, c.Ready(check.Ended()) != nil, "it neither leads nor follows")
	check.Equal(t, len(c.out.readers), 0, "%d readers are left")
}
