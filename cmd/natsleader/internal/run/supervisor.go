//go:build unix

package run

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
)

// supervisorProcess is natsleader's side of a supervisor that was started.
type supervisorProcess struct {
	process child
	pid     int
	begun   instant
	killed  instant          // by kill, and when first: it runs no command any more; 0: not yet
	end     *os.ProcessState // set before inbox is closed; nil: not known
	orders  chan []order     // those that wait, in one message
	reports reports
	cgroup  cgroup // of the command
	// inbox is closed when the supervisor has ended and nothing of the command
	// is left.
	inbox     chan supervisorReport
	strangers map[int]bool // children of this process from before
}

// child is a process that was started.
type child interface {
	Kill() error
	Signal(sig os.Signal) error
	Wait() (*os.ProcessState, error)
}

// newSupervisorProcess starts a supervisor for a command.
func newSupervisorProcess(conf supervision, argv []string) (*supervisorProcess, error) {
	binary := ownBinary
	if binary == "" {
		path, err := os.Executable()
		if err != nil {
			return nil, err
		}
		binary = path
	}
	o := &supervisorProcess{begun: ClockNow(), orders: make(chan []order, 1), inbox: make(chan supervisorReport, 8), strangers: make(map[int]bool)}
	for _, pid := range descendants(nil) {
		o.strangers[pid] = true
	}
	ordersIn, ordersOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = ordersIn.Close() }()
	reportsIn, reportsOut, err := os.Pipe()
	if err != nil {
		_ = ordersOut.Close()
		return nil, err
	}
	defer func() { _ = reportsOut.Close() }()
	var process *os.Process
	if o.reports.pipe, err = reportsIn.SyscallConn(); err == nil {
		process, err = launch(binary, conf, argv, ordersIn, reportsOut)
	}
	if err != nil {
		_, _ = ordersOut.Close(), reportsIn.Close()
		return nil, err
	}
	o.process, o.pid = process, process.Pid
	go o.writeOrders(ordersOut)
	go o.readReports(reportsIn)
	return o, nil
}

// launch starts the process. The command inherits the descriptors that natsleader was
// started with, under their numbers, so the pipes get higher ones.
func launch(binary string, conf supervision, argv []string, orders, reports *os.File) (*os.Process, error) {
	var err error
	if conf.Orders, err = inheritable(orders); err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(conf.Orders) }()
	if conf.Reports, err = inheritable(reports); err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(conf.Reports) }()
	text, err := json.Marshal(conf)
	if err != nil {
		return nil, err
	}
	hidden := []string{SupervisorVariable}
	if !conf.Credentials {
		hidden = append(hidden, front.CredentialVariables...)
	}
	return os.StartProcess(binary, append([]string{supervisorName, supervisorArgument}, argv...), &os.ProcAttr{
		Env:   append(front.EnvironWithout(hidden...), SupervisorVariable+"="+string(text)),
		Files: []*os.File{cmp.Or(conf.stdin, os.Stdin), os.Stdout, os.Stderr},
		// A session of its own: signals to natsleader's group or from its terminal do
		// not stop or end the supervisor.
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

// inheritable returns a second descriptor of a file, which a program that is started
// inherits.
func inheritable(f *os.File) (fd int, err error) {
	const above = 64
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(own uintptr) { fd, failed = unix.FcntlInt(own, unix.F_DUPFD, above) })
	if err == nil {
		err = failed
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EMFILE) {
		err = fmt.Errorf("raise the limit of open files (ulimit -Hn) above %d: %w", above+2, err)
	}
	return fd, err
}

// writeOrders writes orders until there are no more. The supervisor takes the end of the
// orders for the end of natsleader.
func (o *supervisorProcess) writeOrders(out *os.File) {
	defer func() { _ = out.Close() }()
	enc := json.NewEncoder(out)
	for waiting := range o.orders {
		for _, order := range waiting {
			_ = enc.Encode(order) // if the supervisor has died, the end of its reports shows it
		}
	}
}

// send gives an order. It does not wait for a supervisor that does not read. Of the orders
// that wait, the last one of each kind is kept, and the last one of each signal.
func (o *supervisorProcess) send(last order) {
	if o.orders == nil {
		return // no supervisor could be started
	}
	var waiting []order
	select {
	case waiting = <-o.orders:
	default:
	}
	waiting = slices.DeleteFunc(waiting, func(w order) bool { return w.Do == last.Do && w.Signal == last.Signal })
	o.orders <- append(waiting, last)
}

// readReports reads the reports until the supervisor has ended, and then ends the processes
// of the command that are left.
func (o *supervisorProcess) readReports(in *os.File) {
	defer close(o.inbox)
	defer func() { _ = in.Close() }()
	group := 0
	o.reports.each(in, func(b supervisorReport) {
		switch b.What {
		case reportStarted:
			group, o.cgroup = b.PID, cgroup(b.Cgroup)
		case reportEnded:
			group = 0
			o.cgroup.Remove()
		}
		o.inbox <- b
	})
	o.end, _ = o.process.Wait()
	o.killLeftovers(group)
	o.cgroup.Remove()
}

// unread reports whether the supervisor has reported something that the run loop
// has not read.
func (o *supervisorProcess) unread() bool { return len(o.inbox) > 0 || o.reports.unread() }

// kill ends the supervisor. The processes of the command that are left end after it.
func (o *supervisorProcess) kill() {
	if o.killed == 0 {
		o.killed = ClockNow()
	}
	_ = o.process.Kill()
}

// shutDown lets a supervisor without a command end.
func (o *supervisorProcess) shutDown() {
	if o.orders == nil {
		return
	}
	close(o.orders)
	limit := time.After(patienceWithSupervisor)
	for {
		select {
		case _, more := <-o.inbox:
			if !more {
				return
			}
		case <-limit:
			o.kill()
			return
		}
	}
}
