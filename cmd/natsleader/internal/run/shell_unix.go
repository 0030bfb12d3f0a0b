//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Shell runs command lines, one after the other, for a program that goes on.
type Shell struct {
	Patience time.Duration // from SIGTERM to SIGKILL
	Warn     func(format string, args ...any)

	adopts        sync.Once
	supervisorPID atomic.Int64 // of the command that runs, or of the last one
}

// Run runs a command line under a supervisor of its own, as `run` runs its command.
func (s *Shell) Run(ctx context.Context, line string, env []string, input []byte) error {
	s.adopts.Do(func() { // what a supervisor that is killed leaves behind
		adoptOrphans()
		reapAdopted(&s.supervisorPID)
	})
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	o, err := newSupervisorProcess(supervision{StopSignal: int(unix.SIGTERM), Drain: s.Patience, stdin: in}, []string{"sh", "-c", line})
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		return err
	}
	go func() { // the command need not read it
		_, _ = out.Write(input)
		_ = out.Close()
	}()
	s.supervisorPID.Store(int64(o.pid))
	defer o.shutDown()
	o.send(order{Do: orderStart, Env: env})
	stop := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case b, more := <-o.inbox:
			switch {
			case !more:
				return errors.New("the supervising process was killed, and the command with it")
			case b.What == reportFailed:
				return errors.New(b.Error)
			case b.What == reportStuck:
				return fmt.Errorf("cannot kill %d: %s", b.PID, b.Error)
			case b.What == reportLeft:
				s.Warn("the command of --exec has ended, and %s that it has started has not: it is ended now", leftBy(b))
			case b.What == reportEnded && b.Code != 0:
				return fmt.Errorf("exit code %d%s", b.Code, signalOf(b.Code))
			case b.What == reportEnded:
				return nil
			}
		case <-stop:
			stop, late = nil, time.After(s.Patience+patienceWithSupervisor)
			o.send(order{Do: orderStop})
		case <-late:
			o.kill()
			return errors.New("the supervising process did not end it in time, and was killed")
		}
	}
}
