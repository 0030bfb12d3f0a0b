package leader

// LockSessions returns how many sessions this process asks for a lock with, or holds one with.
func LockSessions() int {
	ownLocks.mu.Lock()
	defer ownLocks.mu.Unlock()
	return len(ownLocks.owner)
}
