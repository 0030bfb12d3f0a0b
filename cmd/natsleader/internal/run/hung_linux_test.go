package run

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	expect "github.com/natsleader/natsleader/internal/check"
)

// onHungDisk returns a supervisor whose writes of the lease wait for the test.
func onHungDisk(argv ...string) *supervisor {
	return &supervisor{supervision: supervision{LeaseFile: []byte("/nowhere/lease")}, argv: argv, reports: make(chan supervisorReport, 8), notes: &leaseFile{next: make(chan leaseWrite, 1)}}
}

// A command does not begin if the lease file cannot be written.
func TestSupervisor_FailingDisk(t *testing.T) {
	s := onHungDisk("true")
	go func() { (<-s.notes.next).written <- leaseWritten{err: errors.New("no disk")} }()
	end := ClockNow().Add(time.Hour)
	s.start(order{Do: orderStart, Token: 1, Lease: lease{Warn: end, Kill: end}})
	expect.Deep(t, <-s.reports, supervisorReport{What: reportFailed, Code: front.ExitCannotRun, Error: "cannot write the lease: no disk"})
}

// A command does not begin if the lease file cannot be written in time.
func TestSupervisor_HangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := onHungDisk("true")
		begun, end := time.Now(), ClockNow().Add(time.Hour)
		s.start(order{Do: orderStart, Token: 1, Lease: lease{Warn: end, Kill: end}})
		took := time.Since(begun)
		expect.That(t, s.command == nil && took == patienceWithDisk, "it has begun: %t, after %v", s.command != nil, took)
		if b := <-s.reports; b.What != reportFailed || b.Code != front.ExitCannotRun || b.Error != "cannot write the lease: not done within 5s" {
			t.Errorf("%+v", b)
		}
	})
}
