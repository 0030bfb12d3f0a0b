//go:build field && unix

package leader_test

import (
	"fmt"
	"time"
)

// scaleGroup is a control group of processes that share a part of one processor. So a process runs for
// a part of each tenth of a second. Busy loops would need hundreds of processes on a large machine, and
// their effect depends on the scheduler.
type scaleGroup interface {
	name() string
	add(pid int) error
	// limit lets the processes have that share of one processor, or all of them at 0.
	limit(share float64) error
	// periods are those that the kernel has counted so far.
	periods() (scalePeriods, error)
	remove() error
}

// scalePeriods are what the kernel says of a limit.
type scalePeriods struct {
	all       int // in which the processes had something to do
	throttled int // in which they used up their share, and waited
}

func (p scalePeriods) since(before scalePeriods) scalePeriods {
	return scalePeriods{p.all - before.all, p.throttled - before.throttled}
}

// held returns an error unless the processes used up their share in half of the periods of a
// time.
func (p scalePeriods) held(d time.Duration) error {
	if least := int(d / scalePeriod / 2); p.all < least || 2*p.throttled < p.all {
		return fmt.Errorf("the kernel counted %d periods, and the processes used up their share in %d of them: the limit was not set, or other processes left them less", p.all, p.throttled)
	}
	return nil
}

// scalePeriod is the time within which a process uses up its share, the default of
// control groups.
const scalePeriod = 100 * time.Millisecond
