package leader

// LockSessions returns how many sessions this process asks for a lock with, or holds one with.
func LockSessions() int {
	ownLocks.mu.Lock()
	defer ownLocks.mu.Unlock()
	return len(ownLocks.owner)
}

// Readers returns how many readers the events of a lock's candidate have.
func Readers(l *Lock) int {
	l.c.out.mu.Lock()
	defer l.c.out.mu.Unlock()
	return len(l.c.out.readers)
}
