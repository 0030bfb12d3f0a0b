package leader

import (
	"context"
	"time"
)

// Registry is what a [Store] may also be: it keeps the roster, which is who stands
// in an election. [Bucket] does it in a bucket beside its own (see
// [BucketConfig].Roster), leadertest.Store in memory.
//
// A roster is a hint: an announcement may lapse too early, stay too long or be
// forged, and no promise rests on it.
//
// Like those of Store its methods return at once, and call reply exactly once.
type Registry interface {
	// Announce stores entry as what the session says of itself in the election, in
	// place of what it said before, and answers with its revision, which is greater
	// than that of every earlier announcement in the bucket. After life, which is
	// rounded up to whole seconds, the entry lapses, unless it was announced again.
	// A nil entry withdraws what was announced; its life does not matter. After
	// [ErrUnreachable] the entry may still be stored, even much later. Errors:
	// [ErrNoRoster], [ErrValueTooLarge], [ErrPermission], [ErrUnreachable],
	// [ErrConnectionClosed].
	Announce(ctx context.Context, election, session string, entry []byte, life time.Duration, reply func(revision uint64, err error))
	// Stands opens a view of who stands in the election. From its reply on, deliver
	// is called, one call at a time, with everybody who stands, then with Complete,
	// then with every change. deliver never blocks. A view that may have missed
	// something ends with an Err, and so does one whose connection was lost and is
	// back: to go on, open another. The Feed's Stop ends it, and must not be called
	// from within deliver. ctx is for the opening only. Errors: as for Announce.
	Stands(ctx context.Context, election string, deliver func(Announcement), reply func(Feed, error))
}

// Announcement is one thing that a view of a roster has to tell. It has a Session,
// or Complete, or Err.
type Announcement struct {
	// Session is whose announcement it is.
	Session string
	// Revision is that of the announcement, or of what withdrew it or tells of its
	// lapse.
	Revision uint64
	// Entry is what the session says of itself; nil: it stands no more.
	Entry []byte
	// Complete tells that everybody who stood when the view was opened has been
	// told. Until then somebody may be told twice, and who has just left, not at all
	// or only that.
	Complete bool
	// Err is set when the view has ended, and tells why; with
	// [ErrConnectionClosed] there will never be another.
	Err error
}
