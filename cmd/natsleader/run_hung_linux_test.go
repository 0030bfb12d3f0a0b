package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// onHungDisk returns a supervisor whose writes of the lease wait for the test.
func onHungDisk(argv ...string) *supervisor {
	return &supervisor{argv: argv, reports: make(chan supervisorReport, 8), notes: &leaseFile{next: make(chan leaseWrite, 1)}}
}

// A command does not begin if the lease file cannot be written in time.
func TestSupervisor_HangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := onHungDisk("true")
		begun, end := time.Now(), clockNow().add(time.Hour)
		s.start(order{Do: orderStart, Token: 1, Lease: lease{Warn: end, Kill: end}})
		if took := time.Since(begun); s.command != nil || took != patienceWithDisk {
			t.Errorf("it has begun: %t, after %v", s.command != nil, took)
		}
		if b := <-s.reports; b.What != reportFailed || b.Code != exitCannotRun || b.Error != "cannot write the lease: not done within 5s" {
			t.Errorf("%+v", b)
		}
	})
}
