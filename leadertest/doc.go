// Package leadertest tests programs that use package leader, without a server,
// without sleeping, and every time the same.
//
// A [Clock] is time that moves only when the test says so, a [Store] is a bucket
// in memory, a [Link] is one candidate's connection to it, on which faults are
// scripted, and a [Watcher] checks which events a candidate has told:
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
// An operator's deeds are methods of the store: it deletes a key, and asks the leader
// to hand over with [Store.StepDown].
//
// The store answers as a bucket of [leader.CreateBucket] on a server with one replica does,
// or with [WithoutPurgeProtection] as one of js.CreateKeyValue: it checks keys and sizes, and returns
// errors that match the same of package leader. Tests of this module run the same
// scripts on both. What a Store cannot be: a bucket without a feed of republished messages,
// whose feeds end with the connection, and one whose settings a candidate has yet to
// ask for.
//
// The store keeps a roster, too: who stands lapses at the end of its life, and
// [Link.LoseAnnouncements], [Link.EndViews], [Store.DropRoster] and others befall the
// roster alone.
//
// # Guarded writes
//
// A second store is what only the leader may write. Seen through the link of a
// candidate it is a [Guard], which makes a [Writer] for each term. That has the
// methods of a leader.BucketWriter, so that the code under test knows an interface
// and not which of them it has:
//
//	orders := leadertest.NewStore(clock, leadertest.WithoutPurgeProtection())
//	guard := orders.Link("a").Guard()
//	candidate, err := leader.Campaign(ctx, link, "jobs", leader.Config{ID: "a", Guards: []leader.Guard{guard}})
//	...
//	writer := guard.Writer(w.Term())
//	_, err = writer.Put(ctx, "order-1", []byte("shipped"))
//
// Faults are scripted as before, on orders.Link("a"): they befall what raises the
// guard as well as what is written. An operator's deeds are methods of orders, such
// as orders.Delete(leader.DefaultGuardKey).
//
// # Promises
//
//   - Time moves only in [Clock.Advance] and [Clock.AdvanceTo], from one event
//     to the next. Two things that are due at the same instant happen one after
//     the other, in the order in which they were scheduled.
//   - Nothing happens before all candidates of the clock are at rest, and both
//     Advance and [Clock.Settle] return when they are. So there is no race
//     between the test and a timer about to be armed, nor between a tick and
//     what the test looks at afterwards.
//   - What is due now needs no Advance: a call such as Candidate.Resign or
//     Writer.Put returns by itself over a store that takes no time.
//   - Every method of Store and Link that is for the test, every Expect, and
//     every Campaign first wait until all is at rest. A test with one goroutine
//     therefore sees the same events at the same times whenever it runs, if its
//     candidates have IDs: the pauses between tries that failed depend on them.
//   - Nothing is left running: an idle Clock, Store or Watcher has no goroutine.
//
// # What takes part
//
// The clock waits for candidates, not for the user's own goroutines. A worker
// that was told by its context to end does so in its own time: wait for it, by
// a channel or a sync.WaitGroup, before looking at what it did. How timers of a
// worker may take part is told at [Clock].
//
// The methods for the test must not be called from a callback that the clock waits
// for, such as a log handler: they would wait for the one who calls them. Whatever waits for 30 s panics and says for whom.
//
// # Bubbles
//
// Everything works inside a testing/synctest bubble, too, either with a Clock
// made there, or with the bubble's time: NewStore(nil) and Watch(t, nil, c).
// Then synctest.Wait takes the place of Settle.
//
// The package imports neither testing nor a NATS server.
package leadertest
