// Package leadertest tests programs that use package leader. The tests need no server,
// do not sleep, and run the same way every time.
//
// A [Clock] is time that moves only when the test says so. A [Store] is a bucket in
// memory. A [Link] is one candidate's connection to it, on which the test scripts faults.
// A [Watcher] checks the events that a candidate has emitted:
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
// The actions of an operator are methods of the store. [Store.Delete] deletes a key, and
// [Store.StepDown] asks the leader to hand over. [Store.Holder] returns the holder that a key
// names.
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
// returns it as a [Guard], which makes a [Writer] for each term. A Writer has the methods
// of a fence.BucketWriter, so the code under test can use an interface for both:
//
//	orders := leadertest.NewStore(clock, leadertest.WithoutPurgeProtection())
//	guard := orders.Link("a").Guard()
//	candidate, err := leader.Campaign(ctx, link, "jobs", leader.Config{ID: "a", Guards: []leader.Guard{guard}})
//	...
//	writer := guard.Writer(w.Term())
//	_, err = writer.Put(ctx, "order-1", []byte("shipped"))
//
// Faults are scripted as before, on orders.Link("a"). They affect raises of the guard as
// well as writes. The actions of an operator are methods of orders, such as
// orders.Delete(fence.DefaultGuardKey).
//
// # Promises
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
//     candidates have IDs. The pauses between failed tries depend on the IDs.
//   - Nothing is left running: an idle Clock, Store or Watcher has no goroutine.
//
// # What takes part
//
// The clock waits for candidates, not for the user's own goroutines. A worker ends some
// time after its context has ended. Wait for it, by a channel or a sync.WaitGroup, before
// you look at its results. [Clock] explains how timers of a worker may take part.
//
// The methods for the test must not be called from a callback that the clock waits for, such
// as a log handler, because they would wait for their own caller. A method that has waited
// for 30 s panics and names what it waits for: the makers of timers, or an event.
//
// # Bubbles
//
// Everything works inside a testing/synctest bubble, too, either with a Clock made there,
// or with the bubble's time by NewStore(nil) and Watch(t, nil, c). With the bubble's time,
// synctest.Wait takes the place of Settle.
//
// The package imports neither testing nor a NATS server.
package leadertest
