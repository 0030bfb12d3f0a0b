//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// runShell runs a command line under a supervisor of its own, as `run` runs its command.
func (h *hooks) runShell(ctx context.Context, line string, env []string, input []byte) error {
	h.adopts.Do(func() { // what a supervisor that is killed leaves behind
		adoptOrphans()
		reapAdopted(&h.supervisorPID)
	})
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	o, err := newSupervisorProcess(supervision{StopSignal: int(unix.SIGTERM), Drain: hookPatience, stdin: in}, []string{"sh", "-c", line})
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		return err
	}
	go func() { // the command need not read it
		_, _ = out.Write(input)
		_ = out.Close()
	}()
	h.supervisorPID.Store(int64(o.pid))
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
				h.warn("the command of --exec has ended, and %s that it has started has not: it is ended now", leftBy(b))
			case b.What == reportEnded && b.Code != 0:
				return fmt.Errorf("exit code %d%s", b.Code, signalOf(b.Code))
			case b.What == reportEnded:
				return nil
			}
		case <-stop:
			stop, late = nil, time.After(hookPatience+patienceWithSupervisor)
			o.send(order{Do: orderStop})
		case <-late:
			o.kill()
			return errors.New("the supervising process did not end it in time, and was killed")
		}
	}
}
