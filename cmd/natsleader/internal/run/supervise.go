//go:build unix

package run

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
)

// A supervisor is this binary, started by `natsleader run` with SupervisorVariable and
// supervisorArgument. It is the parent of the command, and ends the command when the
// lease ends or natsleader dies, whatever happens to natsleader itself, which may be
// killed or stopped.
const (
	SupervisorVariable = "NATSLEADER_SUPERVISOR"
	supervisorArgument = "supervise"

	// The name differs, so that "pkill -9 natsleader" leaves a process that ends the
	// command.
	supervisorName = "lease-keeper"
)

// commandVariables are the environment variables of the command.
var commandVariables = []string{"NATSLEADER_BUCKET", "NATSLEADER_ELECTION", "NATSLEADER_ID", LeaseVariable, tokenVariable}

const tokenVariable = "NATSLEADER_TOKEN" // with --notify only the lease file has it

// SuperviseIfAsked runs the supervisor, and then never returns, if this process was
// started as one.
func SuperviseIfAsked() {
	conf, asked := os.LookupEnv(SupervisorVariable)
	if !asked || len(os.Args) < 3 || os.Args[1] != supervisorArgument {
		return
	}
	var s supervisor
	if err := json.Unmarshal([]byte(conf), &s.supervision); err != nil {
		fmt.Fprintln(os.Stderr, "natsleader: supervisor:", err)
		os.Exit(front.ExitFailed)
	}
	s.argv = os.Args[2:]
	s.open()
	s.run()
	os.Exit(0)
}

// supervisor is one goroutine, which waits for nothing but its select. Any operation
// that may hang (on a full pipe, on a disk) is done by another goroutine.
type supervisor struct {
	supervision
	argv []string
	env  []string

	orders  chan order // closed: natsleader has died
	reports chan supervisorReport
	reaped  chan os.Signal // a child has ended
	notes   *leaseFile
	cgroup  cgroup // of the command, or of the last one

	orphaned bool
	command  *managedProcess // nil: none
}

func (s *supervisor) open() {
	// The kernel sends the signal for the death of a parent when the thread that has
	// started the command ends. This thread ends with the process.
	runtime.LockOSThread()
	makeThreads()
	introduceSupervisor()
	unix.CloseOnExec(s.Orders)
	unix.CloseOnExec(s.Reports)
	// Without natsleader's own variables, including those of a natsleader that runs
	// this one.
	s.env = front.EnvironWithout(SupervisorVariable)
	if len(s.LeaseFile) != 0 {
		s.env = front.EnvironWithout(append(commandVariables, SupervisorVariable)...)
	}
	// Handled and not ignored, which the command would inherit.
	catch(make(chan os.Signal, 1), append(endings, unix.SIGPIPE, unix.SIGTSTP, unix.SIGUSR1, unix.SIGUSR2)...)
	s.reaped = make(chan os.Signal, 1)
	signal.Notify(s.reaped, unix.SIGCHLD)
	s.notes = openLeaseFile(string(s.LeaseFile))
	s.orders = make(chan order)
	go s.readOrders(json.NewDecoder(os.NewFile(uintptr(s.Orders), "orders")))
	s.reports = make(chan supervisorReport, 8) // the few of one command, of which the next starts when they were read; and see reportLease
	go s.writeReports(os.NewFile(uintptr(s.Reports), "reports"))
}

func (s *supervisor) readOrders(in *json.Decoder) {
	defer close(s.orders)
	for {
		var o order
		if in.Decode(&o) != nil {
			return
		}
		s.orders <- o
	}
}

func (s *supervisor) writeReports(out io.Writer) {
	enc := json.NewEncoder(out)
	for r := range s.reports {
		_ = enc.Encode(r) // if natsleader has died, its end of the other pipe shows it
	}
}

// run returns when natsleader has died and nothing of the command is left.
func (s *supervisor) run() {
	defer func() {
		s.notes.close()
		if len(s.LeaseFile) != 0 {
			RemoveLeaseFile(string(s.LeaseFile), s.Socket)
		}
	}()
	defer func() { s.cgroup.Remove() }() // if natsleader cannot
	timer := time.NewTimer(0)
	for {
		wait := s.act(ClockNow())
		if s.orphaned && s.command == nil {
			return
		}
		timer.Stop()
		if wait >= 0 {
			timer.Reset(wait)
		}
		select {
		case o, more := <-s.orders:
			if more {
				s.handle(o)
			} else {
				s.orphaned, s.orders = true, nil
			}
		case fault := <-s.notes.faults:
			s.reportLease(fault)
		case <-s.reaped:
		case <-timer.C:
		}
	}
}

func (s *supervisor) handle(o order) {
	if o.Do == orderStart {
		s.start(o)
		return
	}
	p := s.command
	if p == nil {
		return // it ended just before
	}
	switch o.Do {
	case orderLease:
		s.extend(o)
	case orderHold:
		p.lease = o.Lease
	case orderLost:
		s.signalLost()
	case orderStop:
		p.stop(ClockNow())
	case orderKill:
		p.stop(ClockNow())
		p.killAt = 0
	case orderSignal:
		p.signalGroup(unix.Signal(o.Signal))
	}
}

// start starts the command. Without --notify, the command does not begin if its term is
// over already: natsleader, or this process, may have been stopped since the election.
func (s *supervisor) start(o order) {
	env := slices.DeleteFunc(slices.Clone(s.env), func(v string) bool { // a variable has one value
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(o.Env, func(other string) bool { return strings.HasPrefix(other, name+"=") })
	})
	env = append(env, o.Env...)
	if len(s.LeaseFile) != 0 {
		if s.tooLate(o) {
			return
		}
		path, err := s.notes.write(NewLeaseNote(o.Token, o.Lease.Warn))
		if err != nil {
			s.reports <- supervisorReport{What: reportFailed, Code: front.ExitCannotRun, Error: fmt.Sprintf("cannot write the lease: %v", err)}
			return
		}
		s.LeaseFile = []byte(path)
		if s.tooLate(o) { // the disk took its time
			return
		}
		for i, value := range []string{s.Bucket, s.Election, o.ID, path, strconv.FormatUint(o.Token, 10)} {
			if name := commandVariables[i]; name != tokenVariable || !s.notifies() {
				env = append(env, name+"="+value)
			}
		}
	}
	if s.Stall > 0 {
		env = append(env, NotifySocket+"="+string(s.Socket), fmt.Sprintf("%s=%d", WatchdogTime, s.Stall.Microseconds()))
	}
	pid, err := s.spawn(env)
	if err != nil {
		s.reports <- supervisorReport{What: reportFailed, Code: front.CodeOf(err), Error: err.Error()}
		return
	}
	s.command = &managedProcess{pid: pid, begun: ClockNow(), token: o.Token, lease: o.Lease, stopSignal: unix.Signal(s.StopSignal), drain: s.Drain, cgroup: s.cgroup}
	s.reports <- supervisorReport{What: reportStarted, PID: pid, Cgroup: string(s.cgroup), LeaseFile: s.LeaseFile}
}

// spawn starts the command. The calling goroutine is locked to its thread.
func (s *supervisor) spawn(env []string) (pid int, err error) {
	path, err := lookUp(s.argv[0])
	if err != nil {
		return 0, err
	}
	fork := func(attr *syscall.SysProcAttr) (int, error) {
		return syscall.ForkExec(path, s.argv, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: attr})
	}
	attr := commandAttr()
	s.cgroup = MakeCgroup()
	if started, ok := s.cgroup.startIn(attr); ok {
		pid, err = fork(attr)
		if started(); err == nil {
			return pid, nil
		}
		s.cgroup.Remove() // the group cannot be used; or the program cannot be run, and then the next fork fails, too
		s.cgroup = ""
	}
	if pid, err = fork(commandAttr()); err != nil {
		return 0, cannotRun(s.argv[0], err)
	}
	return pid, nil
}

// reportLease reports that the file of the lease cannot be written, or is written again. It leaves room for other reports where
// natsleader does not read them because it is stopped: its lease ends then.
func (s *supervisor) reportLease(fault string) {
	if len(s.reports) < cap(s.reports)/2 { // no other goroutine fills it
		s.reports <- supervisorReport{What: reportLease, Error: fault}
	}
}

// tooLate reports whether the command must not begin any more.
func (s *supervisor) tooLate(o order) bool {
	late := !s.notifies() && ClockNow() >= o.Lease.Warn
	if late {
		s.reports <- supervisorReport{What: reportEnded, Stopped: true, At: ClockNow()}
	}
	return late
}

// extend sets a new lease.
func (s *supervisor) extend(o order) {
	p := s.command
	p.lease, p.token = o.Lease, o.Token
	if hung := s.notes.hangs(ClockNow()); hung >= patienceWithDisk {
		s.reportLease(fmt.Sprintf("the disk has not answered for %v", hung.Round(time.Second)))
	}
	s.notes.put(NewLeaseNote(o.Token, o.Lease.Warn))
}

// signalLost signals to the command that it does not lead any more.
func (s *supervisor) signalLost() {
	p := s.command
	s.notes.put(NewLeaseNote(p.token, ClockNow()))
	if s.notifies() {
		p.lease = lease{}
	}
	if p.won {
		p.won = false
		p.signal(unix.Signal(s.Lost))
	}
}

// act does the work that is due, and returns how long no more is due; -1: for ever.
func (s *supervisor) act(now instant) time.Duration {
	p := s.command
	if p == nil {
		return -1
	}
	if p.gone() {
		s.reports <- supervisorReport{What: reportEnded, Code: p.code, Stopped: p.asked, At: now}
		s.command = nil
		return -1
	}
	left := supervisorReport{What: reportLeft}
	leaves := false
	if p.ended && !p.stopping && !p.behind && !s.orphaned {
		left.PID, left.Error, leaves = p.left()
	}
	over := p.lease.Warn != 0 && now >= p.lease.Warn
	switch {
	case s.orphaned, p.ended, over && !s.notifies(): // ended: but not all its processes
		p.stop(now)
	case over:
		s.signalLost()
	}
	if leaves {
		s.reports <- left
	}
	wait := p.due(now)
	if p.behind {
		wait = 0
	}
	if p.killed != 0 && !p.stuck && now >= p.killed.Add(patienceWithKilled) {
		all := descendants(nil)
		if !p.ended {
			all = append(all, p.pid)
		}
		if pid, why := survivor(all); pid != 0 {
			p.stuck = true
			s.reports <- supervisorReport{What: reportStuck, PID: pid, Error: why}
		}
	}
	if s.notifies() && p.lease.Warn != 0 && !p.won && !p.stopping {
		switch slow := now >= p.begun.Add(longestStart); {
		case p.expects(unix.Signal(s.Won)):
			p.won = true
			p.signal(unix.Signal(s.Won))
		case !slow:
			wait = min(wait, lookAgain)
		default: // the command would die of the signal
			if !p.notSent {
				p.notSent = true
				s.reports <- supervisorReport{What: reportNotSent}
			}
			wait = min(wait, lookSeldom)
		}
	}
	return wait
}
