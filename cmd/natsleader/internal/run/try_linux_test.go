package run

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The record of a leader that was renewed since the first look is no expired one.
func TestRivals(t *testing.T) {
	r := rivals{seats: 2, expired: map[int]uint64{1: 7}, taken: make(map[int]bool)}
	for i, x := range []struct {
		seat     int
		revision uint64
		another  bool
		all      bool
	}{
		{2, 9, true, false},
		{1, 7, true, false}, // expired
		{1, 8, true, true},
		{1, 10, false, false}, // given up
		{0, 11, true, true},
	} {
		all := r.lead(leader.Holder{ID: "b", Seat: x.seat, Revision: x.revision}, x.another)
		expect.That(t, all == x.all, "%d: %v", i, all)
	}
}

// --try waits for twice the longest lease, for --delay, and for the answers of the server. The number of seats
// is none, so that nothing but the bucket is read.
func TestRunTry_WaitsForDelay(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		nc := w.Connect()
		defer nc.Close()
		c := &runLoop{run: &run{Globals: w.Globals(), delay: time.Hour, busyCode: front.ExitBusy}}
		expect.OK(w.T, c.lookForLeader(w.Context(), nc, w.Js, nil, leader.BucketInfo{MaxLease: time.Minute}))
		began := time.Now()
		<-c.waited
		took := time.Since(began)
		expect.That(w.T, took == 2*time.Minute+time.Hour+5*time.Second, "it waits for %v", took)
	})
}
