// Package leader elects one leader among the replicas of a service, on a NATS
// JetStream key-value bucket.
//
// [Campaign] starts a candidate: one goroutine that owns a state machine. It
// tells what happens on a channel of typed events, and gives each leadership a
// context that ends with it. Nothing is called back.
//
//	bucket, err := leader.CreateBucket(ctx, js, leader.BucketConfig{Name: "elections"})
//	...
//	c, err := leader.Campaign(ctx, bucket, "billing", leader.Config{})
//	...
//	for event := range c.Events() {
//		if e, ok := event.(leader.Elected); ok {
//			go work(e.Term.Context(), e.Term.Token())
//		}
//	}
//
// # Promises
//
//   - One leader. At any instant at most one leadership context per election (or seat,
//     see Several leaders) is alive, on two assumptions: the clocks of two machines run at nearly the
//     same rate over one lease (they may show any time of day, and the servers'
//     clocks do not matter), and the bucket remembers what it acknowledged.
//   - Ordered terms. Every term has a fencing token greater than that of every
//     earlier term, as long as the bucket remembers; and beyond, as long as the
//     record, the winner or a [Config].MinToken given to all remembers.
//   - Cancel before announce. The context ends, with a cause, before the event
//     that reports the loss is offered, and before anybody else can be elected.
//   - Fast when it can be, patient when it must be. A leader that resigns is
//     replaced after two round trips. One that dies is replaced one lease after
//     its last renewal. One whose key was deleted behind its back is replaced
//     when no lease can be running any more.
//   - Nothing blocks a candidate: no slow or absent reader of events, no handler of
//     its log, no hung server, no lost reply delays a renewal or a fence. A connection
//     that takes no writes delays renewals, and no fence.
//   - Silence costs nothing. A waiting candidate sends no requests while it
//     hears renewals.
//
// Not promised: that a worker stops. A lease bounds what a leader may believe;
// a worker that ignores its context writes on. Have the resource that it writes
// to refuse it: in NATS with [Config].Guards, elsewhere by comparing [Term.Token]
// (see Fencing). And ask [Term.Err] before each step that matters. Nor can a lease outlast clocks that run at rates
// further apart than the margin between RenewDeadline and LeaseDuration, 20% by
// default; nor a store that forgets: an operator who deletes the bucket or
// restores a backup under a living leader, or servers that acknowledge before
// they sync to disk (the default of NATS, see sync_interval) and lose power
// together. A candidate that notices reports [ErrRegressed] and waits until no
// forgotten lease can be running. A server that led the stream and is cut off from
// the others may answer from the past for some 10 s, which looks the same: that
// costs a wait, never safety.
//
// # States
//
//	             wins the key            an acknowledged write
//	                                     sent when no other lease can be good
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
// # The lease
//
// An election is one key of the bucket. Its value is a small JSON record that
// `nats kv get` shows. Every write of it is a compare-and-set on the revision
// last seen, and only an acknowledged one makes a leader; feeds, reads and
// clocks merely decide when to try.
//
// A leader writes its record again every RenewInterval. A write that was sent at
// s and acknowledged makes the lease good until s + RenewDeadline by the
// leader's own clock. When that passes, the context ends there and then. Others
// wait for the LeaseDuration in the record, from when they received it, and a
// record is received after it was sent; so they come later. A renewal that
// fails is tried again soon, with a short wait for each attempt, until the
// deadline. The default lease of 15 s outlives the loss of one NATS server of
// three, killed or paused, which stops writes for 5 to 8 s. A lease of less
// than 12 s cannot promise that. Whose own connection leads to a server that is
// paused depends on the client to notice: with nats.PingInterval(time.Second) it
// does so in time; at the client's default, two minutes, the leader is fenced.
//
// Who wins the key leads at once if it replaced a released record, a held record
// whose lease ran out while it watched, its own record after a fence, or
// nothing in a purge-protected bucket. Otherwise it is Pending for one unknown lease, the
// longest that could be running: its own lease, or the greatest MaxLease or TTL
// that it has known the bucket to have, if that is longer. A bucket with neither bounds
// nothing; then the longest lease that it has read in another's record counts, until that
// has run out and was not read again. A delete marker that carries the record which it
// replaced is waited for as long as the lease of that record, and then led at once. A MaxLease close to the leases in use
// therefore makes the recovery from `nats kv del` fast, and a long TTL slow.
// A record that is held is believed for the lease that it names, however long: its
// leader may have begun before MaxLease was lowered. An operator deletes such a record if it
// is junk.
//
// The outcome of a write that timed out is unknown: it may be applied even a
// minute later. The candidate then reads the key before it concludes anything,
// and recognises its own writes by session and number. A leader whose read fails,
// too, renews again: the condition of the write protects it.
//
// Resigning and stopping write the record once more as released, after the
// context has ended. They never delete (but see Sharing a key) and never touch another's record. A
// candidate that resigned sits out one lease. With DrainTimeout the leader first
// becomes Fenced and keeps the lease until [Term.Release] is called or the time
// is up. A stopping candidate that cannot reach the store gives up when its last
// record keeps nobody out any more: after one lease, at most. A candidate that
// is Pending for a lease that may be running releases nothing.
//
// # Fencing
//
// The token of a term is a uint64. The write that elects carries one more than
// the greatest token known to its writer, and the term's token is that or the
// write's revision, whichever is greater. Revisions of a bucket of [CreateBucket]
// begin at the time of day in microseconds, so that a bucket created again goes on above
// the tokens of the old one. After a restore, or with a MinToken, tokens may be ahead of
// the revisions; then only the record and living candidates remember them. A record that
// expires by a TTL while no candidate lives takes its token along: give a MinToken to the
// candidates that stand next.
//
// Tokens are at most 1<<62. A record or guard with a greater one is no candidate's, and
// not read. One within 1<<32 of that is junk, since no term comes near it: no candidate is elected
// over such a record or guard, candidates report [ErrTokensExhausted] until it is deleted, and
// none of them remembers its token.
//
// Buckets and streams that only the leader may write are named in [Config].Guards
// and written with the Writer of the term:
//
//	orders, err := leader.CreateGuardedBucket(ctx, js, jetstream.KeyValueConfig{Bucket: "orders"})
//	...
//	c, err := leader.Campaign(ctx, bucket, "billing", leader.Config{Guards: []leader.Guard{orders}})
//	...
//	revision, err := orders.Writer(e.Term).Put(ctx, "next", value)
//
// One key of the bucket, [DefaultGuardKey], or one subject of the stream is its
// guard. Before [Elected] is offered, the candidate has raised it: it has written
// its token there, on the condition that what stood there was less and has not
// changed. Every write of the term is conditioned on the revision of that write,
// and the server compares: so once Elected has been received, no write of an
// earlier term is accepted any more, whatever its sender believes and however late
// it arrives. [BucketWriter] says what the errors mean, and docs/fencing.md in the
// repository what readers and watchers see, how to read what earlier terms wrote,
// what is assumed, and what can be done outside NATS. Guards need nats-server 2.11.8 or
// later on all servers that keep the bucket or stream.
//
// Raising costs an election one round trip. The guards are looked at together with
// the winning write, and raised at the same time. A leader looks after them once
// per lease and raises again what was deleted. One that finds a guard raised by a
// later term is Fenced with [ErrFenced].
//
// # Events
//
// Transitions come in order and are never dropped while the candidate lives.
// There is exactly one [Pending] before each [Elected], and exactly one
// [Deposed] for each. [Fenced] comes between where the key may still be held.
// [Observed] tells of another holder or none, when it changes and not for every
// renewal; a candidate that has seen nobody yet does not say so. A holder whose
// lease has run out is nobody. [Faulted] is told once for an outage, not once
// for every try. The channel is closed at the end, after the last Deposed.
// A leader reads in Faulted.Remaining for how long its lease is good if nothing
// gets better. [Deposed].Cause is the cause with which the context ended; so a
// term that was fenced and then overtaken has [ErrLeaseExpired].
//
// # Who comes next
//
// By default everybody tries for a free key at once. With [Config].Succession they
// follow in an order: the highest [Config].Priority first, and who has waited longest
// among equals. It is a hint. Whoever tries, the compare-and-set decides, and
// candidates of different kinds are safe together on one key.
//
// Who waits announces itself in the roster, a bucket beside that of the elections
// (see [BucketConfig].Roster), once per lease. Only the holder of the key reads it; it
// publishes the first eight sessions in the order with its lease, in the record's field
// next, and the others hear that with its renewals. The first tries as soon as the key
// is free: released, or its lease run out. Each of the others waits for one
// [Config].TurnTimeout for everybody before it; who is not among the eight comes after
// them, at some point of four more. So a vacancy costs one write, however many wait,
// and one who died in line costs one TurnTimeout. While nothing goes wrong nobody who
// stays is overtaken twice. A candidate that has led, or sat out, goes to the end.
// Where there is no order, because nobody has led yet, the bucket keeps no roster or a
// leader had none, they race.
//
// [Candidate.Transfer] names the successor in the release, in the field to: it takes
// the key at once, and all others, also those that race, wait for one TurnTimeout.
// With [Config].Preempt a leader does so by itself in favour of a higher priority that
// has stood for one lease and has just announced itself again. While preemptors do not
// take the key, leaders wait for 2, 4, 8 and so on, at most 256 leases between two such
// handovers. A candidate that may not write the key does not stand. [Roster] and
// [ObserveRoster] tell who stands. docs/succession.md in the repository has more.
//
// # Several leaders
//
// With [Config].Seats n an election has up to n leaders at once: a semaphore whose
// holders know for how long they hold it. Each leads on a seat, which is an election
// of its own: seat 1 under the election's key, so that an election with one leader can
// come to have more, seat i under the key that [SeatKey] names. Each has its own terms,
// and its own tokens: a resource that checks tokens keeps one for each [Term.Seat]. All
// that is promised of an election is promised of each seat, and beyond it:
//
//   - No candidate leads two seats at one instant, nor is Pending on one while it leads
//     another. It takes a seat only when it is certain that it has no other, and none
//     for it can come of a write under way; so a write whose outcome is unknown keeps
//     it from all other seats until that is known. In a bucket that is not purge-protected an old
//     write may still win a seat whose key was emptied: it is released, and not led.
//   - A leader that resigns sits out on all seats, as does one whose key was deleted.
//   - Which seat a candidate takes is left open; nobody changes seats. A seat whose
//     leader dies is taken one lease after its last renewal, by somebody who leads none.
//
// A candidate hears of all seats and renews its own: it costs one feed for each seat,
// and the one who leads writes as often as any. [Candidate.Leaders] tells who leads.
// [Lookup], [Observe] and [StepDown] are for one seat, by the key. Candidate.Events
// tells of all seats; [Elected] and the rest carry the seat in their Term or Holder.
//
// All candidates should be given the same number. The record carries it, and who finds
// another's in a record that is held tells [Faulted] with [ErrSeats], once for each
// other candidate. Each stands for the seats that it knows of: while the number
// changes from one process to the next there are as many leaders as the greatest
// number says. To lower it for certain, end all that have the greater one. An outage
// is told once for each seat.
//
// # Asked to hand over
//
// While a candidate on a [Bucket] leads, it listens on natsleader.ask.E.a, for the
// election a in the bucket E. [StepDown] asks it there to hand over as by
// [Candidate.Resign], and waits until it has. A request names the session and the
// token of the term that it is for, as they stand in the record, so one that comes
// late or twice pushes nobody else out. It is JSON,
// {"v":1,"do":"step-down","session":"...","token":7,"by":"who asks"}, and so is the
// answer: "answer" is accepted, refused or over, if the session leads a later term.
// [Transfer] asks likewise, with "do":"transfer" and the successor in "to".
// Nobody answers but the leader, nor to anything but an inbox. Where accounts are
// between, natsleader.ask.E.* has to be exported and imported under the same name.
//
// # Failures
//
//	what happens                        what the candidate does
//	the server cannot be reached,       Faulted, and another try, with growing and
//	the bucket or a permission missing  jittered pauses, until it works or is stopped
//	no renewal confirmed in time        Fenced; goes on trying to renew; re-elected with
//	                                    a new term, or Deposed if another has the key
//	another's record under its key      Deposed with ErrPreempted
//	the key deleted, purged, expired    Deposed with ErrDeleted; keeps away for one interval
//	the store forgot acknowledged       Faulted and Deposed with ErrRegressed; nobody leads
//	writes                              for one unknown lease
//	a record it cannot read             Faulted with ErrForeignRecord; held for one unknown
//	                                    lease from the first sight of each revision
//	a junk record                       believed while it stands, for the lease that it names;
//	                                    nothing of it is remembered that exceeds the bucket's
//	                                    MaxLease or TTL
//	a token next to 1<<62 in the        Faulted with ErrTokensExhausted; nobody is elected until
//	record or a guard                   it is deleted
//	a record in its own name that it    foreign, as above
//	has not written
//	a feed message that does not        a read; at most four of these for each RenewInterval if
//	follow from what is known           they find nothing
//	the feed is deaf                    noticed by one read after half a lease, and rebuilt
//	no feed can be had                  Faulted with ErrNoFeed; polls every RenewInterval
//	another candidate has another       Faulted with ErrSeats; goes on with its own
//	number of seats
//	the record or a guard has a token   Faulted with ErrTokensExhausted; nobody leads until it
//	that no term can have               is deleted
//	a guard is not fit, or another      Faulted with ErrIncompatibleBucket or ErrGuardTaken; does not try for
//	election's                          the key until it is
//	guards cannot be raised             Pending; after one lease gives the key up and sits one out
//	a guard deleted or overwritten      Faulted with ErrGuardDeleted; the leader raises it again
//	a guard raised by a later term      Fenced with ErrFenced; re-elected with a greater token, or
//	                                    Deposed if another has the key
//	the roster missing or out of reach  Faulted, with ErrNoRoster if there is none; another try once
//	                                    per lease; the order that was heard last, or none
//	nats.go does not send, although     as if nobody answered: every call ends with its context
//	it is connected
//	the process is paused               Term.Err and IsLeader tell at once, the timers soon
//	the application closes the          Fenced and Deposed with ErrConnectionClosed; the
//	connection                          candidate ends with that error
//
// # Buckets
//
// [CreateBucket] makes a bucket that is purge-protected: `nats kv del` works on it, but
// purges, roll-ups and expiry do not, so an empty key has never been written and
// can be led at once. Clients cannot undo that; whoever may update the stream can,
// by giving it a TTL, and must not while candidates stand. With a TTL a bucket
// cannot be purge-protected, because the server needs roll-ups for expiry markers: it then
// promises less. A client that may publish to one key of a bucket without purge protection can wipe all
// the others with the header `Nats-Rollup: all`. Leaders find out at their next
// renewal, and whoever takes such a key waits for one unknown lease. [OpenBucket]
// works with any KV bucket, under the same rules.
//
// Candidates hear of changes through the stream's republished messages where it
// has any (a bucket of [CreateBucket] does), which costs the server no consumer;
// otherwise through a KV watch. The application's connection is used as it is,
// never configured and never closed.
//
// # Sharing a key
//
// A fleet that runs nats-kv-leader-elect, or choria's election, moves over one process
// at a time, on the key and in the bucket that it has, if all its new candidates set
// [Config].KVElect, and the same LeaseDuration. Those processes create the key when it is
// absent, update it after each interval, three quarters of the bucket's TTL, take any
// update that fails for a loss, and lead when the first has succeeded: one interval after
// the tick at which they have created the key. With the setting
//
//   - a candidate gives up the key by a delete marker that carries its released
//     record ([Marker]). An old process takes it at its next tick, and leads an
//     interval later. Among candidates a handover takes two round trips, as ever.
//   - whoever replaces a foreign record, which it waited out for one unknown lease
//     (at least the TTL), is Pending for another: an old leader that is slow to find
//     out has as much time as before a successor of its own kind, and more.
//   - a foreign record is no fault; [Holder].Value has its text, the name of the process.
//   - LeaseDuration is at most three quarters of the TTL and RenewDeadline at most half,
//     so that a leader whose key was deleted by an operator is fenced before an old
//     process leads, also if it took that a quarter of the TTL to store its create.
//   - there is one leader, so no Seats above 1; and everybody races, as that bucket cannot
//     have a roster: [ErrNoRoster].
//
// What is assumed of an old process: it acts on its callbacks or its IsLeader, not on
// its State or choria's gauge, which are early, and is never late by more than an
// interval. And where an operator deletes or purges the key, or it expires early: its
// interval is the default, without a back-off; from the tick at which it creates the
// key to when that is stored takes less than three quarters of the TTL, less our
// RenewDeadline; and a leader's update takes less time than is from its interval to the
// TTL. To statistics an old leader is none ([Stats].Leaderless). Without the setting
// nothing is promised on a shared key; a candidate reports each foreign record with
// [ErrForeignRecord]. docs/kvelect.md has the rest.
//
// # Permissions
//
// For the election a in the bucket E; with a JetStream domain or API prefix, the
// subjects that begin with $JS.API begin with that prefix instead, and $KV.E.a
// is preceded by it. A client also subscribes to its inboxes, _INBOX.> unless
// set otherwise; who may subscribe to the inboxes of others reads the replies to
// them, so give clients that must not read one another a prefix each
// (nats.CustomInboxPrefix).
//
//	candidate      publish    $JS.API.STREAM.INFO.KV_E
//	               publish    $JS.API.DIRECT.GET.KV_E.$KV.E.a
//	               publish    $KV.E.a
//	               subscribe  natsleader.ask.E.a
//	  republished  subscribe  natsleader.feed.E.a
//	  KV watch     publish    $JS.API.CONSUMER.CREATE.KV_E.*.$KV.E.a
//	               publish    $JS.API.CONSUMER.DELETE.KV_E.*
//	observer       the same without $KV.E.a and natsleader.ask.E.a
//	roster
//	  candidate    publish    $JS.API.STREAM.INFO.KV_E_roster
//	               publish    $KV.E_roster.a.*
//	  who looks    publish    $JS.API.CONSUMER.CREATE.KV_E_roster.*.$KV.E_roster.a.*
//	               publish    $JS.API.CONSUMER.DELETE.KV_E_roster.*
//	StepDown and
//	Transfer       as an observer, and
//	               publish    natsleader.ask.E.a
//	guarded bucket publish    $JS.API.STREAM.INFO.KV_G
//	               publish    $JS.API.STREAM.MSG.GET.KV_G
//	               publish    $KV.G.natsleader.guard, and the keys that it writes
//	  replicas     publish    $SYS.REQ.ACCOUNT.PING.STATZ, to learn the servers' versions
//
// With several seats each line with E.a is needed once more with E.a.seat.* in its
// place. Who may not use the key of one may keep trying for it, and then stands for no other.
//
// In a purge-protected bucket a client with these permissions, and inboxes of its own, can
// neither read, write, wipe nor hear another election. Nobody needs permission to
// publish to natsleader.feed.> and nobody should have it: who may forge on the
// feed of a key a record that its holder seems to have released can make a waiting
// candidate believe it.
//
// Who may publish to natsleader.ask.E.a can push the leader of a out, again and
// again: give it to operators. NATS does not tell the leader who asks; the log has
// what the request says. [Config].RefuseRequests refuses all. A leader that may not
// subscribe to the subject leads as any other, says so in its log, and cannot be
// asked. To answer, it must be allowed to publish to the inboxes of those who ask,
// best by allow_responses; without that it hands over all the same, but its refusal
// looks like silence. It answers to no subjects but those that begin with _INBOX, or
// with the inbox prefix of its own connection.
//
// The roster is for candidates that announce themselves, and is looked at by the one
// that leads, so that each needs both. It is a hint, and an ordinary bucket: who may
// announce itself in it can announce others, or nobody, and wipe it, the rosters of
// other elections included, with the header `Nats-Rollup: all`. By announcing a high
// priority with Preempt it can push the leader out, in the long run once in 256 leases,
// unless that has RefuseRequests. It can neither stand in another election nor look at its roster.
// Where accounts are between that import no more than the API, announcements arrive,
// but nothing is seen of them.
//
// [CreateBucket] itself needs $JS.API.STREAM.INFO, CREATE and UPDATE of KV_E, and
// with a roster of KV_E_roster. To lower MaxLease, or to take a bucket that it has not
// made, it reads all keys, and needs $JS.API.CONSUMER.CREATE.KV_E.*.$KV.E.> and
// $JS.API.CONSUMER.DELETE.KV_E.*, too.
// A bucket without direct gets needs $JS.API.STREAM.MSG.GET.KV_E instead, which
// cannot be limited to a key.
//
// A permission that is missing is a Faulted event with [ErrPermission] that names
// the subject. It is found out without the connection's handlers.
package leader
