package leadertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

var (
	_ fence.KVWriter = (*fence.BucketWriter)(nil)
	_ fence.KVWriter = (*leadertest.Writer)(nil)
	_ leader.Guard   = leadertest.Guard{}
)

// office is an election. Only its leader writes orders.
type office struct {
	*testing.T
	clock         *leadertest.Clock
	store, orders *leadertest.Store
}

func newOffice(t *testing.T, opts ...leadertest.Option) office {
	clock := leadertest.NewClock()
	return office{t, clock, leadertest.NewStore(clock), leadertest.NewStore(clock, append([]leadertest.Option{leadertest.WithoutPurgeProtection()}, opts...)...)}
}

// stand starts a candidate on the links of its name.
func (o office) stand(id string) *leadertest.Watcher {
	o.Helper()
	link, guard := o.store.Link(id), o.orders.Link(id).Guard()
	c, err := leader.Campaign(o.Context(), link, "jobs", leader.Config{ID: id, Guards: []leader.Guard{guard}})
	check.OK(o, err)
	return leadertest.Watch(o, o.clock, c)
}

// lead starts a candidate, "a", that is elected.
func (o office) lead() *leadertest.Writer {
	o.Helper()
	w := o.stand("a")
	w.Expect(leadertest.Elected())
	return o.orders.Link("a").Guard().Writer(w.Term())
}

// want fails the test unless a write returned the wanted revision and error.
func (o office) want(revision uint64, err error, wantRevision uint64, wantErr error) {
	o.Helper()
	check.Must(o, revision == wantRevision && errors.Is(err, wantErr) && (err == nil) == (wantErr == nil),
		"%d %v, want %d %v", revision, err, wantRevision, wantErr)
}

// background starts a call that takes time of the clock, and returns when the call waits
// for that time.
func background(do func() (uint64, error)) (answer func() (uint64, error)) {
	var revision uint64
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		revision, err = do()
	}()
	synctest.Wait()
	return func() (uint64, error) {
		<-done
		return revision, err
	}
}

// A write of unknown outcome is stored before later writes or never. fence.BucketWriter
// promises the same: "not any more once a later write of the same term has been
// acknowledged".
func TestWriter_UnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		w := o.lead()
		o.orders.Link("a").ApplyLate(2, 8*time.Second)
		first := background(func() (uint64, error) { return w.Put(t.Context(), "k", []byte("first")) })
		o.clock.Advance(5*time.Second - 1)
		second := background(func() (uint64, error) { return w.Put(t.Context(), "k", []byte("second")) })
		o.clock.Advance(1)
		revision, err := first()
		o.want(revision, err, 0, fence.ErrUnknownOutcome)
		o.clock.Advance(3 * time.Second)
		e := o.orders.Entry("k")
		check.Must(t, string(e.Value) == "first", "%+v", e)
		revision, err = w.Put(t.Context(), "k", []byte("third"))
		o.want(revision, err, 3, nil)
		o.clock.Advance(time.Minute)
		revision, err = second()
		o.want(revision, err, 0, fence.ErrUnknownOutcome)
		if e := o.orders.Entry("k"); string(e.Value) != "third" {
			t.Fatalf("%+v", e)
		}
		revision, err = w.Put(t.Context(), "k", nil)
		check.Must(t, err == nil, "%v %v", revision, err)
	})
}

// The outcome of a write is unknown if the reply is lost.
func TestWriter_LostReplyIsUnknown(t *testing.T) {
	lose := map[string]func(link *leadertest.Link){
		"the reply":      func(link *leadertest.Link) { link.LoseReplies(1) },
		"the request":    func(link *leadertest.Link) { link.LoseWrites(1) },
		"the connection": func(link *leadertest.Link) { link.Delay(time.Second) },
		"the client":     func(link *leadertest.Link) { link.Delay(time.Second) },
	}
	for what, how := range lose {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOffice(t)
				w := o.lead()
				link := o.orders.Link("a")
				how(link)
				put := background(func() (uint64, error) { return w.Put(t.Context(), "k", nil) })
				o.clock.Advance(time.Second)
				switch what {
				case "the connection":
					link.Cut()
				case "the client":
					link.Close()
				default:
					o.clock.Advance(4 * time.Second)
				}
				revision, err := put()
				o.want(revision, err, 0, fence.ErrUnknownOutcome)
				stored := o.orders.Entry("k").Revision != 0
				check.Must(t, stored == (what != "the request"), "stored: %v", stored)
			})
		})
	}
}

// A writer tries a write again that cannot be made now.
func TestWriter_RetriesFailedWrites(t *testing.T) {
	odd := errors.New("odd")
	for what, hinder := range map[string]func(o office) (mend func()){
		"cut": func(o office) func() {
			link := o.orders.Link("a")
			link.Cut()
			return link.Restore
		},
		"failing": func(o office) func() {
			link := o.orders.Link("a")
			link.FailWrites(-1, leader.ErrUnreachable)
			return link.Heal
		},
		"refusing": func(o office) func() {
			link := o.orders.Link("a")
			link.Refuse(-1, false)
			return link.Heal
		},
		"gone": func(o office) func() {
			before := o.orders.Snapshot()
			o.orders.Drop()
			return func() { o.orders.Recreate(); o.orders.Rollback(before) }
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOffice(t)
				w := o.lead()
				mend := hinder(o)
				ctx, cancel := context.WithCancelCause(t.Context())
				given := background(func() (uint64, error) { return w.Put(ctx, "k", nil) })
				limited := background(func() (uint64, error) { return w.Put(t.Context(), "k", nil) })
				o.clock.Advance(time.Second)
				cancel(odd)
				revision, err := given()
				o.want(revision, err, 0, odd)
				o.clock.Advance(4 * time.Second)
				revision, err = limited()
				o.want(revision, err, 0, context.DeadlineExceeded)
				put := background(func() (uint64, error) { return w.Put(t.Context(), "k", nil) })
				o.clock.Advance(time.Second)
				mend()
				o.clock.Advance(10 * time.Millisecond)
				revision, err = put()
				o.want(revision, err, 2, nil)
			})
		})
	}
}

// A writer writes one message each time, and returns other errors as they are.
func TestWriter_OtherErrors(t *testing.T) {
	o := newOffice(t)
	w := o.lead()
	link := o.orders.Link("a")
	for _, at := range []uint64{2, 3} { // the guard was 1
		revision, err := w.Put(t.Context(), "k", nil)
		o.want(revision, err, at, nil)
	}
	link.FailWrites(1, leader.ErrPermission)
	revision, err := w.Put(t.Context(), "k", nil)
	o.want(revision, err, 0, leader.ErrPermission)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	revision, err = w.Put(ctx, "k", nil)
	o.want(revision, err, 0, context.Canceled)
	link.Close()
	revision, err = w.Put(t.Context(), "k", nil)
	o.want(revision, err, 0, leader.ErrConnectionClosed)
}

// A writer is for many goroutines at the same time.
func TestWriter_ConcurrentUse(t *testing.T) {
	o := newOffice(t)
	w := o.lead()
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			check.Is(t, check.Err(w.Put(t.Context(), fmt.Sprint(i), nil)), nil)
		})
	}
	all.Wait()
	e := o.orders.Entry("63")
	check.That(t, e.Revision != 0, "%+v", e)
}

// The guard of a bucket that forgets is unfit.
func TestGuard_ForgetfulBucketIsUnfit(t *testing.T) {
	o := newOffice(t, leadertest.WithTTL(time.Minute))
	w := o.stand("a")
	w.ExpectExactly(leadertest.Faulted(leader.ErrIncompatibleBucket))
	o.orders.Configure(leadertest.WithoutPurgeProtection())
	o.clock.Advance(time.Minute)
	w.Expect(leadertest.Elected())
}

// A guard works in the time of a bubble.
func TestGuard_InBubbleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, orders := leadertest.NewStore(nil), leadertest.NewStore(nil, leadertest.WithLatency(time.Second))
		guard := orders.Link("a").Guard()
		c, err := leader.Campaign(t.Context(), store.Link("a"), "jobs", leader.Config{ID: "a", Guards: []leader.Guard{guard}})
		check.OK(t, err)
		w := leadertest.Watch(t, nil, c)
		w.Expect(leadertest.Elected())
		begin := time.Now()
		if _, err := guard.Writer(w.Term()).Put(t.Context(), "k", nil); err != nil || time.Since(begin) != 2*time.Second {
			t.Fatal(err, time.Since(begin))
		}
		orders.Link("a").Refuse(1, true)
		if _, err := guard.Writer(w.Term()).Put(t.Context(), "k", nil); err != nil || time.Since(begin) != 6*time.Second {
			t.Fatal(err, time.Since(begin))
		}
		store.Link("a").Close()
		<-c.Done()
		time.Sleep(5 * time.Second) // the limits of the writes
	})
}

// The same test of guards has the same events every time.
func TestGuard_IsDeterministic(t *testing.T) {
	tell := func() (lines []string) {
		synctest.Test(t, func(t *testing.T) {
			o := newOffice(t, leadertest.WithLatency(3*time.Millisecond))
			wa := o.stand("a")
			wb := o.stand("b")
			o.clock.Advance(time.Second)
			a := o.orders.Link("a").Guard().Writer(wa.Term())
			o.orders.Link("a").Refuse(3, false)
			var answers []func() (uint64, error)
			for i := range 5 {
				answers = append(answers, background(func() (uint64, error) { return a.Put(t.Context(), "k", []byte{byte(i)}) }))
				o.clock.Advance(time.Millisecond)
			}
			o.store.Link("a").Cut()
			o.clock.Advance(30 * time.Second)
			answers = append(answers, background(func() (uint64, error) { return a.Put(t.Context(), "k", nil) }))
			o.clock.Advance(time.Second)
			for _, answer := range answers {
				lines = append(lines, fmt.Sprint(answer()))
			}
			for _, w := range []*leadertest.Watcher{wa, wb} {
				lines = append(lines, fmt.Sprint(w.Events()))
			}
			lines = append(lines, fmt.Sprintf("%+v", o.orders.Requests()))
		})
		return lines
	}
	first := tell()
	for range 20 {
		then := tell()
		check.Must(t, slices.Equal(first, then), "first\n%q\nthen\n%q", first, then)
	}
}
