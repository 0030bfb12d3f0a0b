// Package leader elects one leader among the replicas of a service, on a NATS
// JetStream key-value bucket.
//
// [Campaign] starts a candidate: one goroutine that owns a state machine. The
// candidate reports what happens on a channel of typed events, and gives each term of
// leadership a context that ends with the term. It calls nothing back.
//
//	bucket, err := leader.CreateBucket(ctx, js, leader.BucketConfig{Name: "elections"})
//	...
//	c, err := leader.Campaign(ctx, bucket, "billing", leader.Config{})
//	...
//	for event := range c.Events() {
//		if e, ok := event.(leader.Elected); ok {
//			work(e.Term.Context(), e.Term.Token()) // returns when the context ends
//		}
//	}
//
// The work runs in the loop, so the next term's work begins after this one's has
// returned. Events wait for their reader and delay nothing.
//
// # Promises
//
//   - One leader. At any instant at most one leadership context per election (or seat,
//     see Several leaders) is alive, on two assumptions. The clocks of two machines run
//     at nearly the same rate over one lease; they may show any time of day, and the
//     servers' clocks do not matter. And the bucket remembers what it acknowledged.
//   - Ordered terms. Every term has a fencing token greater than that of every earlier
//     term, as long as the bucket, the record, the winner or a [Config].MinToken given
//     to all candidates remembers it.
//   - Cancel before announce. The context ends, with a cause, before the event that
//     reports the loss is offered, and before another candidate can be elected.
//   - Short handovers. A leader that resigns is replaced after two round trips. A
//     leader that dies is replaced one lease after its last renewal. A leader whose key
//     was deleted is replaced when no lease can be running any more.
//   - Nothing blocks a candidate. No slow or absent reader of events, no handler of its
//     log, no hung server and no lost reply delays a renewal or the end of a context. A
//     connection that takes no writes delays renewals, but not the end of a context.
//   - Waiting is free. A waiting candidate sends no requests while it hears renewals.
//
// A lease bounds what a leader may believe. It does not stop a worker that ignores its
// context. Let the resource refuse such a worker: in NATS by [Config].Guards, elsewhere
// by comparing [Term.Token] (see Fencing). And check [Term.Err] before each step that
// matters.
//
// The promise of one leader ends where an assumption ends. Over one lease, clocks must not
// drift apart by more than the margin between RenewDeadline and LeaseDuration, 20% of the
// lease by default. The bucket forgets if an operator deletes it or restores a backup while
// a leader lives, or if servers that acknowledge before they sync to disk (the default of
// NATS, see sync_interval) lose power together. A candidate that notices reports
// [ErrRegressed] and waits until no forgotten lease can be running. A server that led the
// stream and is cut off from the others may answer from the past for some 10 s. That looks
// the same; it costs a wait and no safety.
//
// # States
//
//	             wins the key            an acknowledged write
//	                                     sent when no other lease can be valid
//	Candidate ───────────────▶ Pending ───────────────▶ Leader
//	  ▲  ▲                        │ ▲                    │  │
//	  │  └────────────────────────┘ │ confirmed again:   │  │ lease not confirmed
//	  │        lost the key         │ a new term         │  │ in time, or draining
//	  │                             └──────── Fenced ◀───┼──┘
//	  │  lost the key, or drained               │        │
//	  ├─────────────────────────────────────────┘        │
//	  └──────────────────────────────────────────────────┘
//	     resigned, stopped, or found another's record or none
//
// A fenced candidate is in one of three situations, which the Cause of its [Fenced] event
// tells apart. Its lease was not confirmed in time ([ErrLeaseExpired]). Or it is draining: it
// steps down, and waits for [Term.Release] ([ErrResigned], [ErrStopped]). Or a later term has
// raised one of its guards ([ErrFenced]). A candidate whose Done is closed is in [StateEnded].
//
// # The lease
//
// An election is one key of the bucket. Its value is a small JSON record that
// `nats kv get` shows. Every write of it is a compare-and-set on the revision last seen,
// and only an acknowledged write makes a leader. Feeds, reads and clocks decide when to
// try.
//
// A leader writes its record again every RenewInterval. A write that was sent at s and
// acknowledged makes the lease valid until s + RenewDeadline by the leader's own clock. When
// that passes, the context ends. Other candidates wait for the LeaseDuration in the record,
// from when they received it. A record is received after it was sent, so their wait ends
// later. A renewal that fails is tried again soon, with a short wait for each attempt, until
// the deadline.
//
// The default lease of 15 s outlives the loss of one NATS server of three, killed or
// paused, which stops writes for 5 to 8 s. A lease of less than 12 s may not. If the
// connection leads to a server that is paused, the NATS client has to notice: with
// nats.PingInterval(time.Second) it does so in time; with its default of two minutes the
// leader is fenced.
//
// The winner of the key leads at once if it replaced a released record, a held record whose
// lease ran out while it watched, its own record after a fence, or nothing in a
// purge-protected bucket. It also leads at once if it replaced a delete marker that carries
// a record, because it has waited for the lease of that record before. Otherwise it is
// [Pending] for one unknown lease: the longest that could be running, which is its own
// lease, or the greatest MaxLease or TTL that it has known the bucket to have, if that is
// longer. So a MaxLease close to the leases in use makes the recovery from `nats kv del`
// fast, and a long TTL makes it slow. A bucket with neither bounds nothing. There the
// longest lease that the candidate has read in another's record counts, too, if it is
// longer, until it has run out and was not read again.
//
// The outcome of a write that timed out is unknown: the server may apply it a minute
// later. The candidate reads the key before it concludes anything, and recognises its own
// writes by session and number.
//
// A candidate that resigns or stops ends its context and then writes the record once more as
// released. It deletes no key (but see [Config].KVElect) and never touches another's record.
// A candidate that is Pending for a lease that may be running releases nothing. A candidate
// that resigned sits out one lease. With DrainTimeout the leader first becomes Fenced and
// keeps the lease until [Term.Release] is called or the time is up. A stopping candidate
// that cannot reach the bucket gives up when its last record keeps no other candidate out:
// after one lease, at most. docs/protocol.md in the repository has each rule with the reason
// for it.
//
// # Fencing
//
// The token of a term is a uint64: one more than the greatest token known to the winner, or
// the revision of the winning write, whichever is greater. Revisions of a bucket of
// [CreateBucket] begin at the Unix time in microseconds, so a bucket that is created again
// goes on above the tokens of the old one. A record that expires by a TTL while no candidate
// lives takes its token along: give a MinToken to the candidates that stand next. After a
// restore, or with a MinToken, tokens may be ahead of the revisions. Then only the record
// and living candidates remember them. Tokens are at most 1<<62. A record with a greater one
// is foreign, and a guard with a greater one is no guard record. A token within 1<<32 of
// that is junk: candidates report [ErrForeignRecord], and none is elected, until the
// record or guard is deleted.
//
// Package fence has buckets and streams in NATS that only the leader may write. They are
// named in [Config].Guards. Before a term begins, the candidate writes its token to each of
// them, and the server accepts no write of an earlier term from then on, however late it
// arrives. docs/fencing.md in the repository has the rest.
//
// # Events
//
// Transitions come in order and are never dropped while the candidate lives. There is
// exactly one [Pending] before each [Elected], and exactly one [Deposed] for each. [Fenced]
// comes between them where the candidate may still hold the key. [Pending].Reason states why
// the candidate may not lead yet, and is empty if it leads at once. [Deposed].Cause is the
// cause with which the context ended, so a term that was fenced and then overtaken has
// [ErrLeaseExpired]. [Observed] reports a change of the holder, not each renewal; a
// candidate that has not seen a holder yet emits no Observed to say that there is none. A
// holder whose lease has run out counts as none. [Faulted] reports an outage once, not each
// attempt, and tells a leader in Remaining how long its lease is valid if nothing gets
// better. The channel is closed at the end, after the last Deposed.
//
// # Succession
//
// By default all candidates try for a free key at once. With [Config].Queue they
// follow an order: the highest [Config].Priority first, and the longest wait first among
// equals. The order is a hint. The compare-and-set decides, so candidates of different
// kinds are safe together on one key. Candidates announce themselves in a roster, a
// bucket beside that of the elections ([BucketConfig].Roster). Only the holder reads it
// and publishes the first eight, so a vacancy costs one write. [Candidate.Transfer] hands
// over to a candidate by name. With [Config].Preempt a leader hands over to a higher
// priority by itself; handovers in vain grow rare. [Roster] and [ObserveRoster] list the
// candidates. docs/succession.md in the repository has the details.
//
// [StepDown] and [Transfer] ask the leader from outside to hand over, on the subject
// natsleader.ask.E.a for the election a in the bucket E. A request names the session and
// the token of the term that it is for, so one that arrives late or twice ends no other
// term. [Config].RefuseRequests refuses them.
//
// # Several leaders
//
// With [Config].Seats n an election has up to n leaders at once. Each leads on a seat,
// which is an election of its own, under the key that [SeatKey] names, with its own terms
// and tokens: a resource that checks tokens keeps one for each [Term.Seat]. All promises
// hold for each seat. And no candidate leads two seats at one instant, nor is Pending on
// one while it leads another. Give all candidates the same number: while the number
// changes, there are as many leaders as the greatest number says, and candidates report
// [ErrInvalidConfig]. docs/succession.md in the repository has the details.
//
// # Locks
//
// [Acquire] waits for the lead of an election and returns the term as a [Lock], for work
// that begins and ends at the wish of the application. [TryAcquire] does not wait, and
// names the holder. [Lock.Unlock] releases the key. A lock is a term: it has a context, a
// fencing token and guards, and can be lost. A lock that was lost does not come back.
//
// # Failures
//
//	what happens                        what the candidate does
//	server out of reach, bucket or      Faulted, and another try, with growing and jittered
//	permission missing                  pauses, until it works or the candidate is stopped
//	no renewal confirmed in time        Fenced; goes on trying to renew; elected again with
//	                                    a new term, or Deposed if another has the key
//	another's record under its key      Deposed with ErrPreempted
//	key deleted, purged or expired      Deposed with ErrDeleted; keeps away for one interval
//	bucket forgot acknowledged writes   Faulted and Deposed with ErrRegressed; no candidate
//	                                    leads for one unknown lease
//	record that cannot be read, or in   Faulted with ErrForeignRecord; counts as held for one
//	its name and not its own            unknown lease from the first sight of each revision
//	junk record                         believed while it stands, for the lease that it names;
//	                                    remembered up to the bucket's MaxLease or TTL
//	token next to 1<<62 in a record     Faulted with ErrForeignRecord; no candidate is
//	or guard                            elected until it is deleted
//	feed message that does not follow   reads the key, at most four times in a RenewInterval
//	from what is known                  if the reads find nothing
//	deaf feed                           notices by one read after half a lease, and opens it anew
//	no feed                             Faulted with ErrNoFeed; polls every RenewInterval
//	candidate with another number of    Faulted with ErrInvalidConfig; goes on with its own
//	seats                               number
//	bucket unlike what EnsureBucket     Faulted with ErrInvalidConfig; goes on with the bucket
//	asks for                            as it is
//	guard not fit, or another           Faulted with ErrIncompatibleBucket; does not try for
//	election's                          the key until it is mended
//	guards cannot be raised             Pending; gives the key up after one lease, sits one out
//	guard deleted or overwritten        Faulted with ErrDeleted; the leader raises it again
//	guard raised by a later term        Fenced with ErrFenced; elected again with a greater
//	                                    token, or Deposed if another has the key
//	roster missing or out of reach      Faulted, with ErrNoRoster if there is none; another try
//	                                    per lease; the last order, or a race
//	nats.go connected, but not sending  as if the server were out of reach: every call ends with
//	                                    its context
//	process paused                      Term.Err and IsLeader tell at once, the timers soon
//	application closes the connection,  Fenced and Deposed with ErrConnectionClosed; the
//	or it gives up reconnecting         candidate ends with that error, and a warning in its log
//
// # Buckets
//
// [CreateBucket] makes a purge-protected bucket: `nats kv del` works on it, but purges,
// roll-ups and expiry do not, so an empty key has never been written and can be led at once.
// Clients cannot undo that. An administrator of the stream can, by giving it a TTL, and must
// not while candidates stand. A bucket with a TTL cannot be purge-protected, because the
// server needs roll-ups for expiry markers. [EnsureBucket] asks nothing: the first candidate
// creates the bucket if there is none, and an existing one is never changed. [OpenBucket]
// works with any KV bucket, under the same rules: in one that is not purge-protected, the
// winner of an empty key waits for one unknown lease. Candidates hear of changes through the
// messages that the stream republishes (one of [CreateBucket] does), which costs the server
// no consumer, or else through a KV watch. The application's connection is used as it is,
// never configured and never closed.
//
// A fleet that runs nats-kv-leader-elect, or the election of choria, can move over one
// process at a time on its own key: see [Config].KVElect and docs/kvelect.md in the
// repository. docs/permissions.md lists the permissions of each kind of client.
package leader
