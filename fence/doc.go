// Package fence has buckets and streams in NATS that only the leader of an election may
// write. The server rejects the writes of every earlier term, however late they arrive.
//
//	orders, err := fence.CreateOrUpdateBucket(ctx, js, jetstream.KeyValueConfig{Bucket: "orders"})
//	...
//	c, err := leader.Campaign(ctx, elections, "billing", leader.Config{Guards: []leader.Guard{orders}})
//	...
//	for term := range c.Terms() {
//		writer := orders.Writer(term)
//		for lead := term.Context(); lead.Err() == nil; {
//			revision, err := writer.Put(lead, "next", value) // leader.ErrFenced: a later term leads
//			...
//		}
//	}
//
// One key of the bucket ([DefaultGuardKey], or see [GuardKey]), or one subject of the stream,
// is the guard. Before a term begins, its candidate writes the token of the term there. Every
// write of the term is conditioned on the revision of that write.
//
// # Promises
//
//   - After [leader.Elected] has been received, the server accepts no write of an earlier
//     term. This holds whatever the writing process believes, and needs no clock.
//   - A write that returns no error is stored. One that returns [ErrUnknownOutcome] may be
//     stored, or may be stored later: as long as the guard of its term stands, but not after
//     a later write of the same term has been acknowledged. After any other error nothing was written, and nothing will be.
//   - A batch is written as a whole or not at all, unless a server without replicas runs out
//     of storage in the middle of it.
//   - Every write ends with its context, or after 5 seconds if that has no deadline.
//
// The promises need nats-server 2.11.8 or later on all servers that keep the bucket or
// stream. A candidate checks that, and that the stream keeps its guard, when it starts and
// once a minute. While the check fails the candidate reports
// [leader.ErrIncompatibleBucket] and does not try for the key. A bucket or stream that was
// made by other means is opened with [OpenBucket] or [OpenStream]. It needs
// AllowAtomicPublish for batches, and for conditions of the caller's own.
//
// A guard binds only clients that write through the writers. A client that writes to the
// bucket without them is stopped by permissions (docs/permissions.md in the repository). A
// hostile client of the same account can overwrite keys in spite of them, by a reply of the
// server. Over the guard, such a reply admits no write of an earlier term. Only an account of
// its own protects the other keys.
// Readers use the bucket or stream like any other, but a replica may answer them late.
//
// # Use
//
// All candidates of an election are given the same guards in [leader.Config].Guards. Guards
// cost each new term one round trip. [Bucket.Writer] and [Stream.Writer] make a writer for a
// term. All writers of one term at one guard share one queue, so a writer is made where it
// is needed, and any number of goroutines may use it. Writes are accepted until a later term
// has raised the guard, also after the end of the term.
//
// [BucketWriter] explains the errors. docs/fencing.md in the repository has the reasons, how a
// new leader reads what earlier terms have written, and fences for databases and HTTP
// services. A leadertest.Link has a guard in memory for tests. Its writers and a BucketWriter are
// both a [KVWriter].
package fence

// The files of this package:
//
//	doc.go       the package documentation: promises and use
//	bucket.go    Bucket, CreateOrUpdateBucket, OpenBucket, GuardKey; KVWriter, BucketWriter, BucketBatch
//	stream.go    Stream, CreateStream, OpenStream; StreamWriter, StreamBatch
//	guard.go     reading and writing the guard, for the candidate
//	check.go     whether a stream protects its guard, and whether its servers compare: settings, a probe,
//	             versions
//	header.go    headers and subjects that could hide the condition from old servers
//	create.go    the settings of a stream that keeps its guard
//	change.go    the messages of one call, and the checks of them
//	queue.go     the write queue of one term on one stream
//	request.go   one publish request, single or batch, until its outcome is known
//	exchange.go  sending one message and sorting the answers; ErrUnknownOutcome
