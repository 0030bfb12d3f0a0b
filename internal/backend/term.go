package backend

// Released reports whether Release of a *leader.Term has been called. Package leader sets it:
// the test kit shows it, while applications have no use for it.
var Released func(term any) bool
