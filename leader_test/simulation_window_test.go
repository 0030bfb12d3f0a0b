package leader_test

import (
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// rivals are the other candidates of a process. They share the slot of its connection, and use it,
// or wait for it, for a while.
type rivals struct {
	window *backend.Window
	place  backend.Place
	use    int // how often they have come
}

// Granted does nothing: the rivals use the slot until they leave.
func (*rivals) Granted() {}

// crowded are the faults of a connection that many candidates use.
func (s *simulation) crowded() []fault {
	return []fault{{"others use the slot", 6, false, func(l *life) bool {
		l.rivals.leave(s)
		l.rivals.use++
		use := l.rivals.use
		l.rivals.window.Take(&l.rivals.place, backend.Rank(s.rng.IntN(int(backend.RankOverdue)+1)), &l.rivals, time.Time{})
		s.later(s.between(0, s.lease), func() {
			if use == l.rivals.use {
				l.rivals.leave(s)
			}
		})
		return true
	}}}
}

// leave gives the slot back, and wakes the candidate that waits for it.
func (r *rivals) leave(s *simulation) {
	if n, _ := r.window.Waiting(time.Time{}); n > 0 && r.window.Has(&r.place) {
		s.count("a request that waits for the slot")
	}
	s.begin(func() { r.window.Return(&r.place, backend.Reply{}) })
}
