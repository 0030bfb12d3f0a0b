package schedule

import (
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/slots"
)

// One request for the server's time is in flight. It ends with its reply, or is given up for the next one after 10 s, and then its
// late reply does not count.
func TestServerTime_OneRequest(t *testing.T) {
	s := &serverTime{replied: make(chan struct{}, 1)}
	first, due := s.ask(t.Context(), 1)
	check.That(t, due && first.Err() == nil, "no request is sent")
	_, due = s.ask(t.Context(), maxWait)
	check.That(t, !due && first.Err() == nil, "it is given up before 10 s")
	second, due := s.ask(t.Context(), maxWait+1)
	check.That(t, due && first.Err() != nil && second.Err() == nil, "it is not given up after 10 s")
	s.hear(5, 1, maxWait+2)
	check.That(t, s.between(maxWait+2) == slots.Server{} && !check.Now(s.replied) && second.Err() == nil, "a late reply counts")
	s.hear(100, maxWait+1, maxWait+3)
	check.Deep(t, s.between(maxWait+3), slots.Server{Least: 100, Most: 102})
	check.That(t, check.Now(s.replied) && second.Err() != nil, "the reply does not end the request")
	_, due = s.ask(t.Context(), maxWait+askEach)
	check.That(t, !due, "it is asked for again before a minute is over")
	_, due = s.ask(t.Context(), maxWait+1+askEach)
	check.That(t, due, "it is not asked for again after a minute")
}
