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
// stopped. [Candidate.Terms] yields its terms, and the loop's body is the work. While the
// body runs, the candidate campaigns for no other term. At its end the key is handed over.
//
// # Promises
//
//   - At any instant at most one [Term.Context] per election is alive. The clocks of two
//     machines must run at nearly the same rate over one lease; they may show any time of
//     day. And the bucket must remember what it acknowledged.
//   - [Term.Token] is greater than that of every earlier term.
//   - The context ends, with a cause, before the key is released and before another
//     candidate can lead. Its Err and Done compare the clock with the lease.
//   - A leader that stops is replaced two round trips after its work has ended, a leader
//     that dies one lease (15 s by default) after its last renewal.
//   - No work, reader of events, log handler or hung server blocks a candidate. A waiting
//     candidate sends no requests.
//
// A lease bounds what a leader may believe. It cannot stop an item that outlives it. Ask the
// context before each item, also after each wait, and wrap contexts derived from it by [Exact]. Let
// the resource refuse late writes: in NATS by [Config].Guards and package fence, elsewhere by
// comparing tokens.
//
// # States
//
// A [Candidate] waits, in StateCandidate. It has won the key in StatePending, and waits
// until no earlier lease can be valid, usually no time at all. It leads in StateLeader. In
// StateFenced its term is over, and it may still hold the key: its lease was not confirmed in
// time, its work is drained, or a later term has raised a guard. [Candidate.Events] reports
// each change, to programs that look on. After [Candidate.Done] is closed the candidate is in
// StateEnded.
//
// # More
//
// [EnsureBucket], [CreateOrUpdateBucket] and [OpenBucket] are for buckets. [Acquire] and [TryAcquire]
// are locks. [Observe] and [Lookup] find the leader. [StepDown] asks it to hand
// over. [Term.Previous] names the leader before, and [Config].StallTimeout notices work that
// hangs. [Config].Succession gives an order, package roster the candidates that wait in it, package
// seats several leaders, package kvelect a key that is shared with nats-kv-leader-elect. Package
// leadertest tests all of it on a fake clock.
//
// These pages are in the folder docs of the repository
// (https://github.com/natsleader/natsleader/tree/main/docs): tutorial.md, howto/workers.md,
// howto/stopping.md, contract.md (the contract in full: the work of a term, lease, tokens,
// events, failures, buckets), protocol.md (the rules and their reasons) and production.md.
package leader
