package leadercron_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/schedule"
)

// At 3:00 in Berlin, on one of the processes, also over a handover. Slots that a crash has cost are
// reported.
func Example() {
	night, err := cron.ParseStandard("CRON_TZ=Europe/Berlin 0 3 * * *")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(night.Next(time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)).UTC())

	ctx, cancel := context.WithCancel(context.Background())
	store := leadertest.NewStore(leadertest.NewClock()) // in production a leader.Bucket
	jobs, err := schedule.Campaign(ctx, store, "night", night, leader.Config{})
	if err != nil {
		log.Fatal(err)
	}
	cancel() // in production: when the process ends
	for slot := range jobs.Slots() {
		log.Printf("works at %v; missed: %v", slot.Time, slot.Missed)
	}
	// Output: 2026-11-27 02:00:00 +0000 UTC
}
