// Package leadertest tests programs that use package leader. The tests need no server,
// take no time, and run the same way every time.
//
// A [Store] is a bucket in memory. A [Link] is one candidate's connection to it, on which the
// test scripts faults. The time is that of a testing/synctest bubble, or that of a fake
// [Clock].
//
// # A whole service
//
// A service that calls leader.Campaign itself is tested in a bubble, with the store of
// NewStore(nil), which lives in the bubble's time. So do the service's own timers, and the
// system's clock, which candidates use by default. The service takes a leader.Store: a Link
// in the test, and a leader.Bucket in production.
//
//	// A leader that is cut off stops billing, and the next goes on when its lease is over.
//	func TestBiller_CutOff(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			o := newAgency(t)
//			o.start("a")
//			o.start("b")
//			time.Sleep(30 * time.Second)
//			o.noted("0s a begins", "5s a ends")
//			if id := o.store.Leader("billing").ID; id != "a" {
//				t.Errorf("%s leads", id)
//			}
//
//			o.store.Link("a").Cut()
//			time.Sleep(time.Minute)
//			o.noted("45s b begins", "50s b ends")
//			if id := o.store.Leader("billing").ID; id != "b" {
//				t.Errorf("%s leads", id)
//			}
//		})
//	}
//
// The rest of this test is for copying, too: service_test.go in the directory of this
// package. Three things matter there:
//
//   - time.Sleep lets time pass. synctest.Wait waits until all goroutines are at rest, and
//     comes before each look at what they have done, and before each fault.
//   - Candidates have IDs. The pauses between failed tries depend on the IDs.
//   - A service ends before its bubble does: the context of the test ends, and the clean-up
//     (tb.Cleanup) waits until the service has returned.
//
// [Store.Leader] returns the leader, and [Store.Holder] what a key names. The actions of an
// operator are methods of the store, too. [Store.Delete] deletes a key, and [Store.StepDown]
// asks the leader to hand over.
//
// # A part that takes a term
//
// Code that takes a *leader.Term needs no election. [NewTerm] returns a term that leads until
// the test ends it, with the cause that the test names.
//
// # A fake clock
//
// A [Clock] is time that moves only when the test says so. It fits a test that makes the
// candidates itself and looks at each step of them, and code that cannot run in a bubble,
// for instance because it waits for a network. A [Watcher] checks the events that a candidate
// has emitted, and ends the candidate at the end of the test:
//
//	clock := leadertest.NewClock()
//	store := leadertest.NewStore(clock)
//	link := store.Link("a")
//	candidate, err := leader.Campaign(ctx, link, "jobs", leader.Config{ID: "a"})
//	...
//	w := leadertest.Watch(t, clock, candidate)
//	w.Expect(leadertest.Elected())
//	link.Cut()
//	clock.Advance(12 * time.Second)
//	w.Expect(leadertest.Fenced(leader.ErrLeaseExpired))
//
// The clock waits for candidates, and for no other goroutine.
//
//   - It cannot see a candidate that is about to come. If a goroutine of the application
//     calls Campaign a moment later, Advance may have moved the time before. Such code
//     belongs in a bubble.
//   - A worker ends some time after its context has ended. Wait for it, by a channel or a
//     sync.WaitGroup, before you look at its results. [Clock] explains how timers of a worker
//     may take part.
//   - The methods for the test must not be called from a callback that the clock waits for,
//     such as a log handler, because they would wait for their own caller. A method that has
//     waited for 30 s panics and names what it waits for: the makers of timers, or an event.
//
// Its promises:
//
//   - Time moves only in [Clock.Advance] and [Clock.AdvanceTo], from one event
//     to the next. Two events that are due at the same instant run one after
//     the other, in the order in which they were scheduled.
//   - No event runs before all candidates of the clock are at rest, and both
//     Advance and [Clock.Settle] return when they are. So the test does not race
//     with a timer that is about to be armed, nor with the effects of a tick.
//   - Events that are due now need no Advance. A call such as Candidate.Resign or
//     Writer.Put returns by itself over a store without latency.
//   - Every method of Store and Link that is for the test, every Expect, and
//     every Campaign first wait until all is at rest. A test with one goroutine
//     therefore sees the same events at the same times in every run, if its
//     candidates have IDs.
//
// A Clock and a Watcher work in a bubble, too, if they are made there. Watch(t, nil, c)
// watches a candidate in the bubble's time. With that time, synctest.Wait takes the place of
// Settle.
//
// # What the store is
//
// The store answers as a bucket of [leader.CreateBucket] does on a server with one
// replica, or with [WithoutPurgeProtection] as a bucket of js.CreateKeyValue. It checks
// keys and sizes, and returns errors that match those of package leader. Tests of this
// module run the same scripts on both. A Store cannot be a bucket without a feed of
// republished messages, where feeds end with the connection. Nor can it be a bucket with
// settings that a candidate has yet to request.
//
// The store also keeps a roster. An announcement in it lapses at the end of its life.
// [Link.LoseAnnouncements], [Link.EndViews], [Store.DropRoster] and others are faults of
// the roster alone.
//
// # Guarded writes
//
// A second store can be the bucket that only the leader may write. The link of a candidate
// returns it as a [Guard], which makes a [Writer] for each term. A Writer is a
// [fence.KVWriter], as is a fence.BucketWriter, so the code under test takes either:
//
//	orders := leadertest.NewStore(clock, leadertest.WithoutPurgeProtection())
//	guard := orders.Link("a").Guard()
//	candidate, err := leader.Campaign(ctx, link, "jobs", leader.Config{ID: "a", Guards: []leader.Guard{guard}})
//	...
//	var writer fence.KVWriter = guard.Writer(w.Term())
//	_, err = writer.Put(ctx, "order-1", []byte("shipped"))
//
// Faults are scripted as before, on orders.Link("a"). They affect raises of the guard as
// well as writes. The actions of an operator are methods of orders, such as
// orders.Delete(fence.DefaultGuardKey).
//
// An idle Clock, Store or Watcher has no goroutine. The package imports neither testing nor a
// NATS server.
package leadertest
