// Package backend has the interfaces between package leader and what keeps its records: a
// bucket on a NATS server, or the store in memory of the test kit. Applications do not
// use it.
//
// Every method of these interfaces returns at once, without waiting for the bucket, and
// answers through reply. It calls reply exactly once, from any goroutine, perhaps before it
// returns, and at the latest soon after ctx has ended. Errors are those of package leader.
//
// Its files:
//
//	backend.go  the port: Store, Roster, Requests, Guard, Feed, and the types of their answers; Await: the answer to a call
//	seal.go     Sealed and Seal: the port behind an exported interface and an exported type, which their
//	            documentation does not show; Marked: a store of package seats or kvelect
//	fence.go    Fence: what the writers of package fence need of a term
//	roster.go   StoreFor and SessionOf: what package roster needs of a store and of a holder
//	kit.go      EventsOf and Crash: events without a wait, and an end without one, for the test kit
//	term.go     what package shard needs of a term, and package schedule of a candidate
//	clock.go    Wall: the time of day by the host of a clock
//	window.go   Window: the slots of a bucket for requests in flight, and the lines in which candidates wait for
//	            one
//	crew.go     Crew: a few goroutines that do the steps of many candidates
//	memory.go   Memory: what a process remembers of keys, bounded
//	errors.go   the errors of package leader that implementations of the port return
package backend

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Store is one bucket of elections.
type Store interface {
	// Known returns the settings of the bucket if they are known without asking.
	Known() (settings Settings, ok bool, err error)
	// Settings asks for the settings of the bucket. On a replicated bucket the stream's
	// leader answers. Errors: ErrNoBucket, ErrIncompatibleBucket, ErrPermission,
	// ErrUnreachable, ErrConnectionClosed.
	Settings(ctx context.Context, reply func(Settings, error))
	// Get asks for the newest message of the key. The answer may be late or come from a
	// replica that lags. No message is an Entry with Revision 0 and no error.
	Get(ctx context.Context, key string, reply func(Entry, error))
	// Update writes value if the last revision of the key is revision, 0 for no message,
	// and answers with the new revision. A refusal is a RefusedError. After any other error
	// the write may still be applied, even much later.
	Update(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error))
	// Mark is Update, but it writes a delete marker that carries the value: every KV client
	// takes the key for deleted.
	Mark(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error))
	// Watch opens a feed. After its reply, deliver is called with each change of the key
	// that becomes known, one call at a time. deliver never blocks. If instead is not nil, it
	// is a feed that has ended or was found deaf: Watch stops it, and opens one that shares
	// nothing with it. ctx is for the opening only.
	Watch(ctx context.Context, key string, instead Feed, deliver func(FeedEvent), reply func(Feed, error))

	Roster
	Requests
	Cordons
}

// Mover is a Store whose connection can move to another server.
type Mover interface {
	// Signed records a sign of a majority of the servers that has not come through this Store.
	Signed()
	// Move connects to another server, because no sign of a majority has come for quiet. It returns
	// at once, and does nothing if there is no reason or no other server. moving gets the address of
	// the server that is about to be left, from any goroutine, and returns whether it may be left.
	Move(quiet time.Duration, moving func(from string) bool)
}

// Roster is the list of the candidates that stand in each election. It is a hint: an
// announcement may lapse too early, stay too long or be forged, and no promise rests on it.
type Roster interface {
	// Announce stores entry as the announcement of the session in the election, in place of
	// its announcement before, and answers with the revision, which is greater than that of
	// every earlier announcement in the bucket. The entry lapses after life, which is rounded
	// up to whole seconds, unless it is announced again. A nil entry withdraws the
	// announcement; its life does not matter. After ErrUnreachable the entry may still be
	// stored, even much later. Errors: ErrNoRoster, ErrValueTooLarge, ErrPermission,
	// ErrUnreachable, ErrConnectionClosed.
	Announce(ctx context.Context, election, session string, entry []byte, life time.Duration, reply func(revision uint64, err error))
	// View opens a view of the candidates that stand in the election. After its reply,
	// deliver is called with each of them, then with Complete, then with every change, one
	// call at a time. deliver never blocks. A view that may have missed a change ends with an
	// Err, and so does one whose connection was lost and is back: to go on, open another.
	// The Feed's Stop ends it, and must not be called from within deliver. ctx is for the
	// opening only. Errors: as for Announce.
	View(ctx context.Context, election string, deliver func(Announcement), reply func(Feed, error))
}

// Requests carries requests to the holder of a key.
type Requests interface {
	// Listen calls deliver with every request to the holder of the key, after its reply,
	// until the close that it replied with is called. close returns at once, and calls
	// closed when nothing is left. deliver never blocks. answer must be called exactly once,
	// and never blocks either; nil is silence. ctx is for the opening only.
	Listen(ctx context.Context, key string, deliver func(request []byte, answer func([]byte)), reply func(close func(closed func()), err error))
	// Ask sends a request to the holder of the key, and replies with the answer. No answer
	// is ErrUnreachable.
	Ask(ctx context.Context, key string, request []byte, reply func([]byte, error))
}

// Cordons has the names of the candidates that an operator has cordoned.
type Cordons interface {
	// FollowCordon calls deliver with the names as soon as they are known, and with each change, one call at a time,
	// until stop is called. Names that cannot be read are none. deliver never blocks. look asks for a read if the
	// last one is long ago.
	FollowCordon(deliver func(names []string)) (look, stop func())
}

// Guard is the guard of a resource that only the leader may write: one key, on whose
// revision the resource conditions every write of the leader.
type Guard interface {
	// Check asks whether the guard protects the resource: whether it may be written, can be
	// lost, and is heeded. The candidate asks when it starts, whenever the connection of its
	// store was created again, and once a minute, then also while it asks something else.
	// Errors: ErrIncompatibleBucket, ErrNoBucket, ErrPermission, ErrUnreachable,
	// ErrConnectionClosed.
	Check(ctx context.Context, reply func(error))
	// Get asks for the guard, preferably where writes are decided. The answer may be late.
	// No message is an Entry with Revision 0.
	Get(ctx context.Context, reply func(Entry, error))
	// Update writes the guard if its last revision is revision, 0 for no message, and
	// answers with the new revision. A refusal is a RefusedError. After any other error the
	// write may still be applied.
	Update(ctx context.Context, value []byte, revision uint64, reply func(uint64, error))
}

// Feed is an open feed or view. It may lose messages: a feed is a hint.
type Feed interface {
	// Stop ends the feed and gives back what it holds.
	Stop()
}

// FeedEvent is one event of a feed.
type FeedEvent struct {
	// Entry is a message that was stored, if its Revision is not 0.
	Entry Entry
	// Reconnected: the connection was lost and is back. Messages may be missing, and the
	// settings of the bucket may have changed.
	Reconnected bool
	// Err is the reason for which the feed has ended, if it is not nil. After
	// ErrConnectionClosed there will never be another.
	Err error
	// Decoded is for package leader: Entry, decoded once for all candidates that receive it.
	Decoded any
}

// Entry is one revision of a key.
type Entry struct {
	Revision uint64    // greater than that of every earlier message of the bucket; 0: no message
	Value    []byte    // empty in a marker that was not written by [Store].Mark
	Marker   bool      // the key was deleted, purged or expired
	Created  time.Time // when the server stored it, by the server's clock
}

// Settings are what a candidate must know of a bucket.
type Settings struct {
	// PurgeProtected: nothing but a delete marker can remove a message, and no message
	// expires. An empty key of a purge-protected bucket has never been written.
	PurgeProtected bool
	// MaxLease is the longest lease that a candidate may ask for; 0: unlimited.
	MaxLease time.Duration
	// TTL is the time after which the bucket drops records; 0: never.
	TTL time.Duration
	// MaxValue is the largest record in bytes that the bucket takes; 0: unlimited.
	MaxValue int
	// Limit names the setting from which MaxValue follows, and its value, for the text of an
	// error. A message with its header must not be larger. Empty: MaxValue itself was set.
	Limit string
	// LastRevision is the last revision of the whole bucket. One lower than a revision that
	// was known when Settings was asked means that the bucket has lost its memory.
	LastRevision uint64
	// Now is the server's time when it answered, in Unix nanoseconds; 0: not known.
	Now int64
}

// Announcement is one event of a view of a roster. It has a Session, or Complete, or Err.
type Announcement struct {
	// Session is the session that the announcement is of.
	Session string
	// Revision is that of the announcement, of its withdrawal, or of its lapse.
	Revision uint64
	// Entry is the announcement of the session; nil: it stands no more.
	Entry []byte
	// Complete: all candidates that stood when the view was opened have been delivered. Until
	// then a candidate may be delivered twice, and of one that has just left, perhaps only
	// that, or nothing.
	Complete bool
	// Err is the reason for which the view has ended, if it is not nil. After
	// ErrConnectionClosed there will never be another.
	Err error
}

// ErrRefused is matched by a [RefusedError].
var ErrRefused = errors.New("leader: compare-and-set refused")

// RefusedError is the answer to a compare-and-set whose condition did not hold.
type RefusedError struct {
	// Actual is the last revision of the key, 0 for none, if Named.
	Actual uint64
	// Named: the answer named the revision. Replicated streams often refuse with code 10164,
	// which names none and does not prove that another session holds the key.
	Named bool
}

// Error names the last revision if it is known.
func (e *RefusedError) Error() string {
	if !e.Named {
		return ErrRefused.Error()
	}
	return fmt.Sprintf("%v: the last revision is %d", ErrRefused, e.Actual)
}

// Is reports whether target is [ErrRefused].
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// Await calls a method of the port, and returns its answer, which comes soon after the end of the call's context at the latest.
func Await[T any](call func(reply func(T, error))) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	call(func(v T, err error) { answers <- answer{v, err} })
	got := <-answers
	return got.value, got.err
}
