package leadergocron_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/natsleader/natsleader/contrib/leadergocron"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// One of several processes runs all jobs. At an orderly end, the next leader waits for a run that goes on.
func ExampleElector() {
	store := leadertest.NewStore(nil) // in production a leader.Bucket
	c, err := leader.Campaign(context.Background(), store, "cron", leader.Config{})
	if err != nil {
		log.Fatal(err)
	}
	elector := leadergocron.Elector{Candidate: c}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	ran := make(chan error)
	job := func(lead context.Context) error {
		ran <- leader.Err(lead)
		return nil
	}
	once := gocron.OneTimeJob(gocron.OneTimeJobStartImmediately())
	if _, err := scheduler.NewJob(once, elector.Task(job)); err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	fmt.Println("runs in a term:", <-ran)
	fmt.Println(scheduler.Shutdown(), c.Stop())
	// Output:
	// runs in a term: <nil>
	// <nil> <nil>
}

// Each process has the jobs, and each run goes to the one that is first.
func ExampleLocker() {
	store := leadertest.NewStore(nil) // in production a leader.Bucket
	locker := &leadergocron.Locker{Store: store, Prefix: "cron.", Hold: time.Minute}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(scheduler.Shutdown())
	// Output: <nil>
}
