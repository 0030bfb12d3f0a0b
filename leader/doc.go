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
// after each wait, and wrap contexts derived from it by [Exact]. Let the resource refuse late
// writes: in NATS by [Config].Guards and package fence, elsewhere by comparing tokens.
//
// # More
//
// [EnsureBucket], [CreateOrUpdateBucket] and [OpenBucket] are for buckets. [Acquire] and [TryAcquire]
// are locks. [Observe] and [Lookup] find the leader, and [StepDown] asks it to hand over.
// [Candidate.Events] reports each change of a [State], to programs that look on.
// [Term.Previous] names the leader before. [Config].StallTimeout notices work that hangs.
// [Config].Succession gives an order, package roster the candidates that wait in it, package seats
// several leaders, package kvelect a key that is shared with nats-kv-leader-elect. Package leadertest
// tests all of it on a fake clock. Package shard shares many shards evenly among many processes.
//
// The pages in docs are at https://github.com/natsleader/natsleader/tree/main/docs. Begin with
// tutorial.md, howto/workers.md and howto/stopping.md. contract.md is the contract in full.
package leader
