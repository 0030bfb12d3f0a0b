package schedule_test

import (
	"context"
	"log"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/schedule"
)

// A report for each full hour, on one of the replicas. A report that a leader has begun before it crashed
// is not made twice.
func Example() {
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	bucket, err := leader.EnsureBucket(js, leader.BucketConfig{Name: "elections"})
	if err != nil {
		log.Fatal(err)
	}
	s, err := schedule.Campaign(context.Background(), bucket, "report", schedule.Every(time.Hour), leader.Config{})
	if err != nil {
		log.Fatal(err)
	}
	for slot := range s.Slots() {
		if slot.Begun || len(slot.Missed) > 0 {
			log.Printf("the report of %v may be incomplete: %v; missed: %v", slot.Time, slot.Begun, slot.Missed)
		}
		if !slot.Begun {
			report(slot.Term.Context(), slot.Time)
		}
	}
	log.Fatal(s.Candidate().Err())
}

func report(context.Context, time.Time) {}
