// Package leader elects one leader among the replicas of a service, on a NATS
// JetStream key-value bucket.
//
//	bucket, err := leader.EnsureBucket(js, leader.BucketConfig{Name: "elections"})
//	...
//	c, err := leader.Campaign(ctx, bucket, "billing", leader.Config{})
//	...
//	for term := range c.Terms() { // one at a time; others lead when the body has ended
//		for lead := term.Context(); lead.Err() == nil; { // asks the clock
//			item(lead, term.Token())
//		}
//	}
//	return c.Err() // nil if ctx has ended
//
// [Campaign] starts a candidate: one goroutine that stands in the election until it is
// stopped. [Candidate.Terms] yields its terms, and the body of the loop is the work. At the end
// of the body the key is handed over.
//
// A program that reads events starts its work by [Term.Go], in any number of goroutines. The key is not given up before
// they have returned:
//
//	for e := range c.Events(context.Background(), leader.Elected{}) { // closed when c has ended
//		term := e.(leader.Elected).Term
//		term.Go(func(lead context.Context) {
//			for lead.Err() == nil {
//				item(lead, term.Token())
//			}
//		})
//	}
//
// # Promises
//
//   - At any instant at most one [Term.Context] per election is alive. The clocks of two
//     machines must run at nearly the same rate over one lease; they may show any time of
//     day. And the bucket must remember what it acknowledged.
//   - [Term.Token] is greater than that of every earlier term.
//   - The context ends, with a cause, before the key is released and before another
//     candidate can lead.
//   - A leader that stops is replaced two round trips after its work has ended, a leader
//     that dies one lease (15 s by default) after its last renewal.
//   - No work, reader of events, log handler or hung server blocks a candidate. A waiting
//     candidate sends no requests.
//
// A lease cannot stop an item of work that outlives it. Ask the context before each item and
// after each wait, and wrap contexts derived from it by [Exact]. An item that must not be broken off by an
// orderly end, as a transaction, gets the context of [Grace]. Let the resource refuse late
// writes: in NATS by [Config].Guards and package fence, elsewhere by comparing tokens.
//
// # More
//
// [Acquire] and [TryAcquire] are locks. [Observe] and [Lookup] find the leader, and [StepDown] asks it to hand over.
// [Config].Queue gives an order, package roster the candidates that wait in it, package seats several leaders, package
// kvelect a key that is shared with nats-kv-leader-elect. Package shard shares many shards among many processes. Package
// leadertest tests all of it on a fake clock.
//
// The pages are at https://github.com/natsleader/natsleader/tree/main/docs. Begin with tutorial.md. contract.md is the
// contract in full.
package leader

// The files of this package:
//
//	doc.go             the package documentation: use, promises, and the way to contract.md
//	campaign.go        Campaign and the methods of Candidate; starts its goroutine, or one for each seat
//	ready.go           Ready waits until the candidate leads or knows the holder that it follows; Ping asks
//	                   whether its goroutine answers
//	term.go            Term: lease, watchdog
//	term_context.go    the context of a term, which reads the clock; Exact, FromContext and Err for contexts that
//	                   are derived from it
//	subterm.go         a term within another, for package shard: its context, and the guards that are kept
//	                   raised for it
//	term_work.go       work that belongs to a term: Go, Resign, TransferTo, Proclaim
//	term_grace.go      Grace: the context of the work in hand, while the key is kept for it
//	terms.go           Candidate.Terms: loops whose body is the work of a term
//	lock.go            Acquire, TryAcquire, Lock: one term of a candidate, as a lock
//	lock_process.go    the locks of this process, so that Acquire does not wait for its own process
//	lock_seats.go      refuses a lock while a holder lives that is set to another number of seats
//	state.go           State, and the transitions between the states
//	events.go          the events, Holder
//	errors.go          the errors and causes
//	config.go          Config, and the checks of its fields, of elections and IDs
//	name.go            Name: the name of an election for any text
//	observe.go         Observe and Lookup, and the Holder that a revision of the key shows
//	stepdown.go        StepDown from outside, and the handovers of a candidate; format of the reply (the request
//	                   is wire.StepDownRequest)
//	stats.go           Stats, and the counters behind it
//	clock.go           Clock, SystemClock; instants of the clock, of the machines, and of the day (limits of calls
//	                   are in internal/deadline)
//	clock_linux.go     the time during which a Linux host was suspended
//	clock_other.go     the same elsewhere: not known
//	pause.go           the hint that the machine was paused: its time of day has run ahead of its clock
//	actor.go           the goroutine: how it is made, select, timer, steps, events
//	actor_requests.go  the requests of the machine to the store, and the feed
//	actor_opening.go   what a new candidate asks for at once
//	actor_foresight.go what the candidate of a lock takes for granted
//	actor_faults.go    which faults of requests and settings are news. Guards, roster, seats, window and silence
//	                   remember their own
//	actor_lasting.go   which faults last, and the signs that they are over
//	actor_end.go       the end of a candidate
//	actor_crowd.go     the steps of a candidate of many, on the stacks of a few
//	actor_mailbox.go   inputs on their way to the actor, bounded
//	actor_events.go    events on their way to the readers, with a list and a bound for each
//	actor_work.go      offers terms to loops, notices work that hangs, reminds of work that goes on, bounds a
//	                   stop
//	actor_silence.go   signs of a majority of the servers, and what follows when they are missing
//	sightings.go       what a candidate of TryAcquire knows of the key from those before it in the process
//	actor_calls.go     calls of a term that wait for an answer, or for a stored value
//	actor_guards.go    the driver of one guard: requests, rechecks, faults
//	actor_stepdown.go  the leader's side of step-down requests: listening, answering, logging
//	actor_roster.go    announcing a waiting candidate in the roster; the holder's view of it; preemptors
//	seats.go           the permit that keeps a candidate from two seats
//	cordon.go          the cordon, which withholds the key from a candidate
//	log.go             the log line of each event
//	store.go           Store: a bucket of elections, as applications see it
//	bucket.go          Bucket, the Store on NATS: CreateOrUpdateBucket, OpenBucket, EnsureBucket
//	guard.go           Guard; one term's revision at one guard, shared by its writers
