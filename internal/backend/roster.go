package backend

// Package leader sets these functions. Package roster needs what a leader.Store and a leader.Holder
// do not show to applications.
var (
	// StoreFor returns the port of a leader.Store that was opened, for a call that names the key of an election.
	StoreFor func(store Sealed[Store], election string) (Store, error)
	// SessionOf returns the session of the candidate that a leader.Holder names, or an empty string.
	SessionOf func(holder any) string
)
