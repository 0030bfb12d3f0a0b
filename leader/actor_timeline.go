package leader

import "time"

// timeline turns instants of the clock into those that the machines know, and back. The
// machines' instants have no zone and no monotonic reading, so that they can be compared.
type timeline struct {
	clock Clock
	start time.Time // when the candidate began, by the clock
	base  time.Time // the same instant as the machines know it
}

func newTimeline(clock Clock, start time.Time) timeline {
	return timeline{clock: clock, start: start, base: start.Round(0).UTC()}
}

// now returns the clock's time as the machines know it.
func (l *timeline) now() time.Time { return l.inside(l.clock.Now()) }

// outside turns an instant of the machines into one of the clock.
func (l *timeline) outside(t time.Time) time.Time { return l.start.Add(t.Sub(l.base)) }

// inside turns an instant of the clock into one of the machines.
func (l *timeline) inside(t time.Time) time.Time { return l.base.Add(t.Sub(l.start)) }
