package backend

// FenceOf returns the fence of a *leader.Term at one of its guards, or nil if the term has
// none there. Package leader sets it: package fence needs what a Term does not show to
// applications.
var FenceOf func(term, guard any) Fence

// GuardRevision returns the revision at which a guard stands for a *leader.Term, or false if the
// term has no such guard.
func GuardRevision(term, guard any) (revision uint64, ok bool) {
	f := FenceOf(term, guard)
	if f == nil {
		return 0, false
	}
	revision, _ = f.Current()
	return revision, true
}

// Fence is the status of a term at one guard. It has the revision that all of the term's
// writers condition their writes on, and finds out the meaning of a rejection. Its methods
// may be called from any goroutine.
type Fence interface {
	// Current returns the revision to condition a write on, and a channel that is closed
	// when there is another.
	Current() (revision uint64, moved <-chan struct{})
	// Move records a revision at which the guard was seen standing for the term. A lower one
	// than the one known counts only if the guard was raised anew.
	Move(revision uint64, anew bool)
	// Judge compares the guard, as the stream's leader returned it, with the term's own
	// revision, which it brings up to date.
	Judge(e Entry) GuardStatus
	// Passed reports whether a later term was found to have raised the guard. No candidate
	// lowers it again.
	Passed() bool
	// Suspect reports to the candidate that the guard was found gone or raised by a later
	// term.
	Suspect()
	// Over is closed when the term's context has ended.
	Over() <-chan struct{}
	// Value returns the value of the guard, as the term raised it.
	Value() []byte
	// Shared returns what the first call of Shared made: the part that all writers of the
	// term at this guard share.
	Shared(create func() any) any
}

// GuardStatus is the result of a read of a guard, for a term.
type GuardStatus uint8

// The values of a GuardStatus.
const (
	GuardStill GuardStatus = iota // raised by this term; the current revision may have changed
	GuardOlder                    // the answer is older than the revision known
	GuardNot                      // deleted, or overwritten, but not by a later term
	GuardLater                    // a later term has raised it
	GuardTaken                    // it is another election's
)
