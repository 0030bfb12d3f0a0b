package leader

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/machine"
)

// held is the mailbox of an actor that is held up.
func held() *mailbox { return &mailbox{bell: make(chan struct{}, 1)} }

// The mail that waits for an actor that is held up is bounded, whatever comes and how
// often.
func TestMailbox_IsBounded(t *testing.T) {
	b := held()
	for i := range uint32(1000) {
		for _, from := range []uint32{1, 2} {
			b.put(mail{in: machine.Input{Kind: machine.InHeard}, entry: backend.Entry{Revision: uint64(i)}, from: from})
		}
		b.put(mail{in: machine.Input{Kind: machine.InReconnected}, from: 3})
		b.put(mail{in: machine.Input{Kind: machine.InTick}})
		b.put(mail{in: machine.Input{Kind: machine.InStop}})
		b.put(mail{in: machine.Input{Kind: machine.InAbandon}})
		b.put(mail{in: machine.Input{Kind: machine.InDrained, Term: 1}})
		b.put(mail{in: machine.Input{Kind: machine.InDrained, Term: 2}})
		b.put(mail{guard: &guardMail{number: int(i % 2), in: machine.GuardInput{Kind: machine.GuardInSuspect}}})
		b.put(mail{listener: &listenerMail{answer: func([]byte) {}}})
		b.put(mail{fault: ErrNoFeed})
	}
	check.Equal(t, len(b.mails), 2+1+3+2+2+2*maxRequests, "%d mails wait")
	for _, m := range b.mails {
		check.That(t, m.in.Kind != machine.InHeard || m.entry.Revision == 999,
			"revision %d of feed %d waits", m.entry.Revision, m.from)
	}
	for b.takeOr(func() {}) != nil { // and the room that it took is given back
	}
	n := cap(b.mails)
	check.That(t, n <= fewMails, "there is room for %d mails after a burst", n)
}

// A reply or a call is not merged with mail that is already there.
func TestMailbox_KeepsWhatDiffers(t *testing.T) {
	b := held()
	put := func(m mail) {
		t.Helper()
		n := len(b.mails)
		b.put(m)
		check.That(t, len(b.mails) == n+1, "%+v is not kept", m.in)
	}
	put(mail{in: machine.Input{Kind: machine.InTick}})
	put(mail{in: machine.Input{Kind: machine.InStop}})
	put(mail{listener: &listenerMail{closed: true}}) // of the kind inTick, as those below
	put(mail{sign: true})
	put(mail{fault: ErrNoFeed})
	put(mail{fault: ErrNoFeed})
	put(mail{roster: &rosterMail{kind: announced}})
	put(mail{roster: &rosterMail{kind: viewClosed}})
	put(mail{guard: &guardMail{in: machine.GuardInput{Kind: machine.GuardInChecked}}})
	put(mail{in: machine.Input{Kind: machine.InHeard}, entry: backend.Entry{Revision: 1}, from: 1})
	put(mail{in: machine.Input{Kind: machine.InReconnected}, from: 1})
	put(mail{in: machine.Input{Kind: machine.InHeard}, entry: backend.Entry{Revision: 2}, from: 1}) // after the reconnection
	put(mail{in: machine.Input{Kind: machine.InFeedLost}, from: 1})
	put(mail{in: machine.Input{Kind: machine.InWritten, Revision: 1}})
	put(mail{in: machine.Input{Kind: machine.InWritten, Revision: 1}})
	put(mail{in: machine.Input{Kind: machine.InProclaim}, call: make(chan error, 1)})
	put(mail{in: machine.Input{Kind: machine.InProclaim}, call: make(chan error, 1)})
}

// A call does not wait any longer when its context ends, and is not made if that has ended before. The wish to resign stays, once
// for each term.
func TestMailbox_CallsThatGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Candidate{done: make(chan struct{})}
		c.box.bell = make(chan struct{}, 1)
		for number := uint64(1); number <= 2; number++ {
			term := &Term{box: &c.box, number: number, timeline: newTimeline(SystemClock()), until: new(atomic.Int64)}
			term.until.Store(int64(time.Hour))
			term.ctx = leadership{t.Context(), term}
			ended := check.Ended()
			calls := len(c.box.bell)
			check.Is(t, term.Proclaim(ended, nil), context.Canceled)
			check.Is(t, term.TransferTo(ended, "b"), context.Canceled)
			check.Equal(t, len(c.box.bell), calls, "the bell has rung %d times")
			for range 100 {
				for _, call := range []func(context.Context) error{
					func(ctx context.Context) error { return term.Proclaim(ctx, nil) },
					term.Resign,
					func(ctx context.Context) error { return term.TransferTo(ctx, "b") },
				} {
					check.Is(t, call(ended), context.Canceled)
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					check.Is(t, call(ctx), context.DeadlineExceeded)
					cancel()
				}
			}
			<-c.box.bell
		}
		resigns := func(m *mail) bool { return m.in.Kind == machine.InResign }
		check.Equal(t, c.box.count(resigns), 2, "%d wishes to resign wait")
		check.Equal(t, len(c.box.mails), 2, "%d mails wait")
	})
}
