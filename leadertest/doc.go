// Package leadertest tests programs that use package leader. The tests need no server, take no time,
// and run the same way every time.
//
// A [Store] is a bucket in memory. A [Link] is the connection of one replica to it, on which the test
// causes faults. Code under test takes a leader.Store: a Link in the test, a leader.Bucket in production.
//
// # A whole service
//
// A service that calls leader.Campaign itself is tested in a bubble of testing/synctest, with the store of
// NewStore(nil), which lives in the bubble's time:
//
//	store := leadertest.NewStore(nil)
//	link := store.Link("a")
//	go service.Run(ctx, link)      // a leads at once
//	time.Sleep(30 * time.Second)
//	synctest.Wait()
//	link.Cut()
//	time.Sleep(12 * time.Second)
//	synctest.Wait()                // a has lost its lease, and stopped
//
// The file service_test.go in the directory of this package has such tests, for copying. Four things
// matter there:
//
//   - time.Sleep lets time pass. synctest.Wait waits until all goroutines are at rest, and comes before
//     each look at what they have done, and before each fault.
//   - Candidates have IDs. The pauses between failed tries depend on the IDs.
//   - A service ends before its bubble does: the context of the test ends, and the clean-up (tb.Cleanup)
//     waits until the service has returned.
//   - No goroutine holds a sync.Mutex while it sleeps or waits. Time stands still in a bubble while another goroutine
//     waits for that Mutex. A channel of one element in its place lets time pass.
//
// # A part that takes a term
//
// Code that takes a *leader.Term needs no election. [NewTerm] returns a term that leads until the test ends
// it, with the cause that the test names.
//
// # Shards
//
// A service that calls [shard.Join] is tested in a bubble, as above: another member that joins takes shards from
// it, with [shard.ErrMoved], and Link.Cut ends the others. Code that takes a *shard.Shard gets one of [NewShard], with
// guards or without. docs/howto/shards.md names a test of each kind.
//
// # A fake clock
//
// A [Clock] moves only when the test says so. It fits a test that makes the candidates itself and looks at
// each step of them, and code that cannot run in a bubble, for instance because it waits for a network. A
// [Watcher] checks the events of a candidate, in a bubble, too. The example of this package shows both.
//
// # Guarded writes
//
// A second store can be the bucket that only the leader may write, in place of a fence.Bucket. Its links make
// the guards of candidates and shards ([Link.Guard]) and the writers of their terms ([Link.Writer]). Their faults make
// writes fail, or leave their outcome unknown. [Store.Value] reads what was written.
package leadertest

// The files of this package:
//
//	doc.go    the package documentation: which test needs what
//	store.go  Clock, Store and Link of the kit, as far as tests of applications need them
//	watch.go  Watch: expected events
//	term.go   NewTerm: a term for code that takes one
//	shard.go  NewShard: a shard for code that takes one
