package leader

import (
	"context"
	"time"
)

// Registry is an optional interface of a [Store]. It keeps the roster: the candidates
// that wait in an election. [Bucket] does so in a bucket beside its own (see
// [BucketConfig].Roster), leadertest.Store in memory.
//
// A roster is a hint: an announcement may lapse too early, stay too long or be forged,
// and no promise rests on it.
//
// Like those of Store its methods return at once, and call reply exactly once.
type Registry interface {
	// Announce stores entry as the announcement of the session in the election, in place of
	// its earlier one, and answers with its revision. The revision is greater than that of
	// every earlier announcement in the bucket. After life, which is rounded up to whole
	// seconds, the entry lapses, unless it was announced again. A nil entry withdraws the
	// announcement; life does not matter then. After [ErrUnreachable] the entry may still be
	// stored, even much later. Errors: [ErrNoRoster], [ErrValueTooLarge], [ErrPermission],
	// [ErrUnreachable], [ErrConnectionClosed].
	Announce(ctx context.Context, election, session string, entry []byte, life time.Duration, reply func(revision uint64, err error))
	// Stands opens a view of the waiting candidates of the election. From its reply on,
	// deliver is called, one call at a time, with every candidate that waits, then with
	// Complete, then with every change. deliver never blocks. A view that may have missed
	// something ends with an Err, and so does a view after its connection was lost and is
	// back: to go on, open another. The Feed's Stop ends the view, and must not be called
	// from within deliver. ctx is for the opening only. Errors: as for Announce.
	Stands(ctx context.Context, election string, deliver func(Announcement), reply func(Feed, error))
}

// Announcement is one event of a view of a roster. It has a Session, or Complete, or Err.
type Announcement struct {
	// Session is the session that the announcement belongs to.
	Session string
	// Revision is the revision of the announcement, of its withdrawal, or of the marker of
	// its lapse.
	Revision uint64
	// Entry is the announcement of the session; nil: its candidate waits no more.
	Entry []byte
	// Complete reports that every candidate that waited when the view was opened has been
	// delivered. Until then a candidate may be delivered twice. A candidate that has just
	// left may not be delivered at all, or only its leaving.
	Complete bool
	// Err is the reason why the view has ended, or nil. After [ErrConnectionClosed] there
	// will never be another view.
	Err error
}
