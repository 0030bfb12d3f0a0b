//go:build field && unix

package leader_test

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// scaleGroup is a control group of processes that share a part of one processor.
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

// scaleLimit limits the processor time of processes by a control group. Where none can be
// written, it stops and continues the processes, which needs no permission. Either way a
// process runs for a part of each tenth of a second. Busy loops would need hundreds of
// processes on a large machine, and their effect depends on the scheduler.
type scaleLimit struct {
	tb    testing.TB
	group scaleGroup // nil: stop and continue
	all   []*scaleProcess
	stop  func() // ends stopping and continuing; nil: not begun
}

// scalePeriod is the time within which a process uses up its share, the default of
// control groups.
const scalePeriod = 100 * time.Millisecond

// scaleLimitOf makes a limit for processes that are started afterwards: the group can be
// removed only when they have ended.
func scaleLimitOf(tb testing.TB) *scaleLimit {
	tb.Helper()
	l := &scaleLimit{tb: tb, group: scaleNewGroup()}
	tb.Cleanup(func() {
		l.lift()
		l.remove()
	})
	return l
}

func (l *scaleLimit) remove() {
	if l.group != nil {
		tcpEventually(l.tb, "the control group can be removed", func() bool { return l.group.remove() == nil })
	}
	l.group = nil
}

// name says how the processes are limited.
func (l *scaleLimit) name() string {
	if l.group == nil {
		return "SIGSTOP and SIGCONT"
	}
	return l.group.name()
}

func (l *scaleLimit) add(p *scaleProcess) {
	l.tb.Helper()
	l.all = append(l.all, p)
	if l.group == nil {
		return
	}
	if err := l.group.add(p.Cmd.Process.Pid); err != nil {
		l.tb.Logf("no use of %s: %v", l.group.name(), err)
		check.Must(l.tb, len(l.all) <= 1, "another process is in it")
		l.remove()
	}
}

// to limits all processes together to that share of one processor.
func (l *scaleLimit) to(share float64) {
	l.tb.Helper()
	if l.group != nil {
		check.OK(l.tb, l.group.limit(share))
		return
	}
	end := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() { l.alternate(share, end) })
	l.stop = func() { close(end); done.Wait() }
}

// periods are those of the control group.
func (l *scaleLimit) periods() scalePeriods {
	l.tb.Helper()
	p := check.Got(l.group.periods())(l.tb)
	return p
}

// alternate lets the processes run for a part of each period, until the end. Together they
// use all processors while they run.
func (l *scaleLimit) alternate(share float64, end <-chan struct{}) {
	busy := min(len(l.all), runtime.NumCPU())
	run := time.Duration(share * float64(scalePeriod) / float64(busy))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for stopped := false; ; stopped = !stopped {
		select {
		case <-timer.C:
		case <-end:
			l.signal(syscall.SIGCONT)
			return
		}
		if stopped {
			l.signal(syscall.SIGCONT)
			timer.Reset(run)
		} else {
			l.signal(syscall.SIGSTOP)
			timer.Reset(scalePeriod - run)
		}
	}
}

func (l *scaleLimit) signal(s syscall.Signal) {
	for _, p := range l.all {
		_ = p.Cmd.Process.Signal(s) // it may have ended
	}
}

// lift ends the limit.
func (l *scaleLimit) lift() {
	l.tb.Helper()
	switch {
	case l.group != nil:
		check.OK(l.tb, l.group.limit(0))
	case l.stop != nil:
		l.stop()
		l.stop = nil
	}
}
