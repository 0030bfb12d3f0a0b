package schedule

import (
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// Server returns between which instants the server's time is, as far as the last term knows it, in Unix nanoseconds, and how long
// ago the last answer was asked for. Without an answer it returns zeros.
func (s *Schedule) Server() (least, most int64, ago time.Duration) {
	t, elapsed := s.time, backend.ElapsedOf(s.candidate)
	if t == nil {
		return 0, 0, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.most == 0 {
		return 0, 0, 0
	}
	return t.least + int64(elapsed), t.most + int64(elapsed), elapsed - t.asked
}
