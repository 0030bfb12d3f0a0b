// Package leadertest is the test kit: a bucket in memory with faults, a clock that moves only when the test
// says so, a watcher of events, and terms. The tests of this module use it. The public package of the same
// name wraps the part that tests of applications need.
//
// A [Store] answers as a bucket of [leader.CreateOrUpdateBucket] does on a server with one replica, or with
// [WithoutPurgeProtection] as a bucket of js.CreateKeyValue. It checks keys and sizes, and returns errors
// that match those of package leader. Tests of this module run the same scripts on both. A Store cannot be
// a bucket without a feed of republished messages, where feeds end with the connection. Nor can it be a
// bucket with settings that a candidate has yet to request.
//
// The promises of a [Clock]:
//
//   - Time moves only in [Clock.Advance], from one event to the next. Two events that are due at the same
//     instant run one after the other, in the order in which they were scheduled.
//   - No event runs before all candidates of the clock are at rest, and both Advance and [Clock.Settle]
//     return when they are. So the test does not race with a timer that is about to be armed, nor with the
//     effects of a tick.
//   - Events that are due now need no Advance. A call such as Term.Proclaim or Writer.Put returns by
//     itself over a store without latency.
//   - Every method of Store and Link that is for the test, every Expect, and every Campaign first wait until
//     all is at rest. A test with one goroutine therefore sees the same events at the same times in every
//     run, if its candidates have IDs.
//
// The methods for the test must not be called from a callback that the clock waits for, such as a log
// handler, because they would wait for their own caller. A method that has waited for 30 s panics and names
// what it waits for: the makers of timers, or an event.
//
// An idle Clock, Store or Watcher has no goroutine. The package imports neither testing nor a NATS server,
// because it becomes part of the users' test programs.
//
// Its files:
//
//	doc.go       the package documentation: promises of the kit
//	clock.go     the fake clock, and when all candidates are at rest
//	queue.go     events of the kit by time, on the fake clock or the process'
//	store.go     the bucket in memory
//	link.go      one candidate's connection to the store: requests, replies, feeds
//	faults.go    scripted faults of a link
//	operator.go  acts of an operator on the store, such as put, delete, purge and roll back
//	cordon.go    the cordon of a store in memory
//	led.go       Led, Work and Resign: what tests of this module do with the term of a candidate
//	keyset.go    a store as a bucket of keys, for package keys
//	roster.go    the roster in memory, and its faults
//	stepdown.go  step-down requests in memory
//	guard.go     a store as a guard
//	writer.go    guarded writes in memory
//	watcher.go   expectations on the events of a candidate, and the end of the candidate with the test
//	term.go      NewTerm: a term that the test ends
//	match.go     matchers for the events
package leadertest
