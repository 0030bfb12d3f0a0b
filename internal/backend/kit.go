package backend

// EventsOf returns a new reader of the events of a *leader.Candidate: next takes the oldest
// unread one and does not wait for any, and bell rings when there may be another. bell is closed
// when no more come. Package leader sets it: the test kit must not wait for a candidate
// that is at rest, as a reader of the channel of Candidate.Events does.
var EventsOf func(candidate any) (next func() (event any, ok bool), bell <-chan struct{})

// Crash ends a *leader.Candidate at once: it waits neither for its work nor for its store, and may keep its key. A test
// that has no more time, because its clock stands still, ends candidates so. Package leader sets it.
var Crash func(candidate any)
