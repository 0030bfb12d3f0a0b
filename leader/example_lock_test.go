package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// A migration that one process at a time may run. The others wait for a minute.
func ExampleAcquire() {
	var bucket leader.Store = leadertest.NewStore(leadertest.NewClock()) // in production a leader.Bucket
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lock, err := leader.Acquire(ctx, bucket, "migration", leader.Config{ID: "ann"})
	if err != nil {
		log.Fatal(err)
	}
	for _, step := range []string{"tables", "indexes"} {
		if err = lock.Err(); err != nil { // asks the clock
			break
		}
		fmt.Println("migrates", step)
	}
	if err = errors.Join(err, lock.Unlock(context.Background())); err != nil {
		log.Fatal(err)
	}
	// Output:
	// migrates tables
	// migrates indexes
}

// A job that is left out while another process runs it.
func ExampleTryAcquire() {
	var bucket leader.Store = leadertest.NewStore(leadertest.NewClock()) // in production a leader.Bucket
	report := func(id string, work func()) {
		lock, err := leader.TryAcquire(context.Background(), bucket, "report", leader.Config{ID: id})
		var held *leader.HeldError
		switch {
		case errors.As(err, &held):
			fmt.Println(err)
			return
		case err != nil:
			log.Fatal(err)
		}
		work()
		if err = lock.Unlock(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
	report("ann", func() {
		fmt.Println("ann writes the report")
		report("bob", func() { fmt.Println("bob writes the report") })
	})
	// Output:
	// ann writes the report
	// leader: the lock "report" is held: "ann" leads with token 1, renewed at 2000-01-01T00:00:00Z
}
