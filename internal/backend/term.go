package backend

// Released reports whether Release of a *leader.Term has been called. Package leader sets it:
// the test kit shows it, while applications have no use for it.
var Released func(term any) bool

// ClockOf returns the leader.Clock of a *leader.Candidate, for package schedule. Package leader sets it.
var ClockOf func(candidate any) any
