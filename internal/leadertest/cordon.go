package leadertest

import (
	"slices"
	"time"

	wirerecord "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// cordonFeed delivers the cordon of the bucket to one candidate.
type cordonFeed struct {
	link    *Link
	deliver func(names []string)
	over    bool
}

// FollowCordon delivers the cordon after one round trip, after each change, and after a reconnection. It is no request
// that counts or that a script befalls.
func (l linkBackend) FollowCordon(deliver func(names []string)) (look, stop func()) {
	s := l.link.store
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &cordonFeed{link: l.link, deliver: deliver}
	s.cordons = append(s.cordons, c)
	c.tell(2 * l.link.oneWay())
	return func() {}, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.over = true
		s.cordons = slices.DeleteFunc(slices.Clone(s.cordons), func(other *cordonFeed) bool { return other == c })
	}
}

// tell delivers the cordon after d, over a link that works. The lock is held.
func (c *cordonFeed) tell(d time.Duration) {
	if !c.link.reached() {
		return
	}
	c.link.transit(d, func() func() {
		if c.over {
			return nil
		}
		names, err := wirerecord.DecodeCordon(c.link.store.keys[wire.CordonKey].Value)
		if err != nil {
			names = nil
		}
		return func() { c.deliver(names) }
	})
}
