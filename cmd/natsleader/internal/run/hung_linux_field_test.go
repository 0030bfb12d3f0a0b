//go:build field && linux

package run

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	expect "github.com/natsleader/natsleader/internal/check"
)

// A command does not begin if its lease ended while the lease file was written.
func TestSupervisor_EndedLease(t *testing.T) {
	s := onHungDisk("touch", filepath.Join(t.TempDir(), "begun"))
	go func() {
		w := <-s.notes.next
		time.Sleep(time.Until(w.Until))
		w.written <- leaseWritten{path: "lease"}
	}()
	end := ClockNow().Add(time.Second)
	s.start(order{Do: orderStart, Token: 1, Lease: lease{Warn: end, Kill: end}})
	if s.command != nil {
		_, _ = unix.Wait4(s.command.pid, nil, 0, nil)
		t.Error("it has begun")
	}
	b := <-s.reports
	expect.That(t, b.What == reportEnded && b.Stopped, "%+v", b)
}
