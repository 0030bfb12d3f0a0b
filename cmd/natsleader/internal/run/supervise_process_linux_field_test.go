//go:build field && linux

package run

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
)

// A command that ignores the stop signal is killed at the end of its drain or of its lease,
// whichever comes first, and no earlier. An order may bring that time forward.
func TestManagedProcess_KilledInTime(t *testing.T) {
	const stopped = instant(1e15)
	at := func(d time.Duration) instant { return stopped.Add(d) }
	for name, k := range map[string]struct {
		drain, again time.Duration // again: stop is called for a second time
		lease        lease
		killAt       time.Duration
	}{
		"drain ends first":        {drain: 3 * time.Second, lease: lease{Warn: at(1), Kill: at(10 * time.Second)}, killAt: 3 * time.Second},
		"lease ends first":        {drain: 40 * time.Second, lease: lease{Warn: at(1), Kill: at(10 * time.Second)}, killAt: 10 * time.Second},
		"no lease":                {drain: 40 * time.Second, killAt: 40 * time.Second},
		"stopped for second time": {drain: 3 * time.Second, again: 2 * time.Second, killAt: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			kills := 0
			alive := &processSet{alive: []process{{pid: 7}}, denied: map[int]bool{7: true}}
			p := &managedProcess{lease: k.lease, drain: k.drain, ended: true, clear: true, stopSignal: unix.SIGWINCH}
			p.stop(stopped)
			if k.again != 0 {
				p.stop(at(k.again))
			}
			expect.That(t, !p.asked, "a command that has ended was asked to stop")
			killer := alive.killer()
			scan := killer.scan
			killer.scan = func(found func(process)) { kills++; scan(found) }
			p.killed, p.killer = 1, killer // of this process's own children none is killed
			for d, wait := range map[time.Duration]time.Duration{0: lookAgain, k.killAt - time.Second: lookAgain, k.killAt - time.Millisecond: time.Millisecond, k.killAt - 1: 1} {
				got := p.due(at(d))
				expect.That(t, got == wait && kills == 0,
					"%v after the stop signal: %d rounds of kills, again in %v, want %v", d, kills, got, wait)
			}
			got := p.due(at(k.killAt))
			expect.That(t, got == killAgain && kills != 0,
				"%v after the stop signal: %d rounds of kills, again in %v", k.killAt, kills, got)
		})
	}
}

// supervises returns a supervisor of a child of this process. The child ignores the stop
// signal, and nothing of it is left when the test has ended.
func supervises(t *testing.T, conf supervision, l lease) *supervisor {
	t.Helper()
	sleep := expect.Got(lookUp("sleep"))(t)
	pid := expect.Got(syscall.ForkExec(sleep, []string{"sleep", "1000"}, &syscall.ProcAttr{Sys: commandAttr()}))(t)
	s := &supervisor{supervision: conf, reports: make(chan supervisorReport, 8), notes: &leaseFile{next: make(chan leaseWrite, 1)}}
	s.command = &managedProcess{pid: pid, token: 7, lease: l, begun: ClockNow(), stopSignal: unix.SIGWINCH, drain: conf.Drain}
	t.Cleanup(func() {
		if unix.Kill(pid, unix.SIGKILL) == nil {
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
	})
	return s
}

// noted returns the note that waits for the disk, and whether there is one.
func noted(s *supervisor) (LeaseNote, bool) {
	select {
	case w := <-s.notes.next:
		return w.LeaseNote, true
	default:
		return LeaseNote{}, false
	}
}

// ends acts until the command has ended, and returns the last report.
func ends(t *testing.T, s *supervisor, now instant) supervisorReport {
	t.Helper()
	testworld.Eventually(t, "the command has ended", func() bool { s.act(now); return len(s.reports) > 0 })
	b := <-s.reports
	expect.That(t, s.command == nil && s.act(now) == -1 && len(s.reports) == 0, "there still is a command: %+v", s.command)
	return b
}

// The supervisor waits for the end of the lease, asks the command to stop, and kills it before
// the lease can be another's. What comes first is looked at in time.
func TestSupervisor_ActsOnLease(t *testing.T) {
	const warn, kill = instant(1e15), instant(1e15 + 5e9)
	l := lease{Warn: warn, Kill: kill, Beat: time.Second}
	s := supervises(t, supervision{Drain: time.Hour}, l)
	for _, x := range []struct {
		now      instant
		wait     time.Duration
		stopping bool
	}{{warn - 3e9, time.Second, false}, {warn - 1e8, 1e8, false}, {warn, lookAgain, true}, {kill - 1e6, 1e6, true}} {
		if wait := s.act(x.now); wait != x.wait || s.command.stopping != x.stopping || s.command.killed != 0 {
			t.Errorf("%v before the end: again in %v, %+v", warn.sub(x.now), wait, s.command)
		}
	}
	b := ends(t, s, kill)
	expect.That(t, b.What == reportEnded && b.Code == 128+9 && b.Stopped && b.At == kill, "%+v", b)
}

// Each order has its effect on the command, and a command that has ended gets none.
func TestSupervisor_HandlesOrders(t *testing.T) {
	const now = instant(1e15)
	first, later := lease{Warn: now + 5e9, Kill: now + 6e9, Beat: 1e9}, lease{Warn: now + 9e9, Kill: now + 10e9, Beat: 1e9}
	s := supervises(t, supervision{Drain: time.Hour}, first)
	p := s.command
	s.handle(order{Do: orderLease, Token: 8, Lease: later})
	n, ok := noted(s)
	expect.That(t, ok && n.Token == 8 && n.Boottime == later.Warn.Uptime() && p.lease == later && p.token == 8,
		"lease: %v, %+v, %+v", ok, n, p)
	before := ClockNow()
	s.handle(order{Do: orderLost})
	if n, ok := noted(s); !ok || n.Token != 8 || n.Boottime < before.Uptime() || n.Boottime > ClockNow().Uptime() || p.lease != later || p.stopping {
		t.Errorf("lost: %v, %+v, %+v", ok, n, p)
	}
	s.handle(order{Do: orderHold, Lease: first})
	if _, ok := noted(s); ok || p.lease != first || p.token != 8 || p.stopping {
		t.Errorf("hold: %+v", p)
	}
	s.handle(order{Do: orderSignal, Signal: int(unix.SIGWINCH)})
	before = ClockNow()
	s.handle(order{Do: orderStop})
	expect.That(t, p.stopping && p.asked && p.killAt >= before.Add(time.Hour) && p.killAt <= ClockNow().Add(time.Hour),
		"stop: %+v", p)
	s.handle(order{Do: orderKill})
	s.act(ClockNow())
	expect.Must(t, p.killed != 0, "not killed: %+v", p)
	b := ends(t, s, ClockNow())
	expect.That(t, b.What == reportEnded && b.Code == 128+9 && b.Stopped, "kill: %+v", b)
	for _, do := range []string{orderLease, orderHold, orderLost, orderStop, orderKill, orderSignal} {
		s.handle(order{Do: do, Signal: 9})
	}
	if n, ok := noted(s); ok || s.command != nil || len(s.reports) > 0 {
		t.Errorf("after the end: %+v, %+v", n, s.command)
	}
}

// A command that is notified by signals lives on when its lease is over. The lease ends once in
// its file. It ends with natsleader.
func TestSupervisor_NotifiedCommandLivesOn(t *testing.T) {
	const warn = instant(1e15)
	s := supervises(t, supervision{Drain: time.Hour, Won: int(unix.SIGWINCH), Lost: int(unix.SIGURG)}, lease{Warn: warn, Kill: warn + 1e9, Beat: 1e9})
	p := s.command
	p.won = true
	wait := s.act(warn)
	expect.That(t, wait == -1 && !p.won && !p.stopping && p.lease == (lease{}),
		"at the end of the lease: again in %v, %+v", wait, p)
	n, ok := noted(s)
	expect.That(t, ok && n.Token == 7, "%v, %+v", ok, n)
	s.act(warn + 2e9)
	if n, ok := noted(s); ok || p.stopping {
		t.Errorf("later: %+v, %+v", n, p)
	}
	s.orphaned = true
	s.act(warn + 3e9)
	expect.That(t, p.stopping && p.killAt == warn+3e9+instant(time.Hour), "natsleader has died: %+v", p)
	p.killAt = 0
	b := ends(t, s, warn+4e9)
	expect.That(t, b.Code == 128+9, "%+v", b)
}

// A process that does not die is reported once, a second after it was killed first.
func TestSupervisor_ReportsStuckOnce(t *testing.T) {
	const now = instant(1e15)
	s := supervises(t, supervision{Drain: time.Hour}, lease{})
	p := s.command
	p.stopping, p.killAt, p.killed = true, now, now
	p.killer = (&processSet{alive: []process{{pid: p.pid}}}).killer() // which reaches no process
	p.pid, p.clear = unlikelyPID, true
	for _, at := range []instant{now, now.Add(patienceWithKilled - 1)} {
		if s.act(at); len(s.reports) > 0 {
			t.Errorf("reported after %v: %+v", at.sub(now), <-s.reports)
		}
	}
	p.killer.scan = func(func(process)) {}
	for range 3 {
		s.act(now.Add(patienceWithKilled))
	}
	expect.Must(t, len(s.reports) == 1 && p.stuck, "%d reports, %+v", len(s.reports), p)
	b := <-s.reports
	expect.That(t, b.What == reportStuck && b.PID != 0 && b.Error == "it is held up in the kernel", "%+v", b)
}

// unlikelyPID is the number of no process.
const unlikelyPID = 1 << 30

// openFiles returns the open files of this process whose names have that beginning.
func openFiles(t *testing.T, beginning string) map[string]bool {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	expect.OK(t, err)
	open := make(map[string]bool)
	for _, fd := range fds {
		if name, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(name, beginning) {
			open[fd.Name()+" "+name] = true
		}
	}
	return open
}

// stillOpen fails if a file of that beginning is open that was not open before.
func stillOpen(t *testing.T, when, beginning string, before map[string]bool) {
	t.Helper()
	for name := range openFiles(t, beginning) {
		expect.That(t, before[name], "%s: still open: %s", when, name)
	}
}

// A supervisor that has ended, and one that could not be started, leave no pipe open.
func TestSupervisorProcess_LeavesNoPipe(t *testing.T) {
	const pipe = "pipe:"
	before := openFiles(t, pipe)
	if _, err := newSupervisorProcess(supervision{}, []string{strings.Repeat("x", 1<<20)}); err == nil {
		t.Fatal("an argument of a megabyte is possible")
	}
	stillOpen(t, "not started", pipe, before)
	o, err := newSupervisorProcess(supervision{LeaseFile: []byte(filepath.Join(t.TempDir(), "lease", "lease"))}, []string{"true"})
	expect.OK(t, err)
	o.shutDown()
	expect.That(t, o.killed == 0 && o.end.Success(), "killed at %d: %v", o.killed, o.end)
	stillOpen(t, "ended", pipe, before)
}

// What a killed supervisor has left behind is killed and reaped, and nothing else: neither a
// process that was there before, nor a group that has ended.
func TestKillLeftovers_OfTheCommandOnly(t *testing.T) {
	start := func() int {
		t.Helper()
		pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "sleep 1000 & exec sleep 1000"}, &syscall.ProcAttr{Sys: commandAttr()})
		expect.OK(t, err)
		return pid
	}
	adoptOrphans()
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	stranger := start()
	o := &supervisorProcess{inbox: make(chan supervisorReport, 8), strangers: map[int]bool{stranger: true}}
	left, other := start(), start() // other: in a group of its own
	for _, group := range []int{left, 0} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			o.killLeftovers(group)
		}()
		select {
		case <-done:
		case <-time.After(testworld.Patience / 6):
			t.Fatal("it does not end")
		}
		for _, group := range []int{left, other} {
			err := unix.Kill(-group, 0)
			expect.That(t, errors.Is(err, unix.ESRCH), "of the command is left: %v", err)
		}
		err := unix.Kill(stranger, 0)
		expect.That(t, err == nil, "the process from before was killed: %v", err)
	}
	o.strangers = nil
	o.killLeftovers(stranger)
	if len(o.inbox) > 0 {
		t.Errorf("%+v", <-o.inbox)
	}
}
