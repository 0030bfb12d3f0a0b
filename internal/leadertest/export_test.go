package leadertest

import "github.com/natsleader/natsleader/leader"

// WatchEvents returns a watcher of events that need no candidate. The bell rings when there may be another.
func WatchEvents(tb TB, clock *Clock, events <-chan leader.Event, bell <-chan struct{}) *Watcher {
	return &Watcher{tb: tb, clock: clock, bell: bell, unread: func() (any, bool) {
		select {
		case e := <-events:
			return e, true
		default:
			return nil, false
		}
	}}
}
