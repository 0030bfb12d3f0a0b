package leaderasynq_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hibiken/asynq"

	"github.com/natsleader/natsleader/contrib/leaderasynq"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// The process that leads enqueues a report every hour. This one is stopped at once.
func ExampleRun() {
	newScheduler := func() (*asynq.Scheduler, error) {
		s := asynq.NewScheduler(asynq.RedisClientOpt{Addr: "localhost:6379"}, nil)
		_, err := s.Register("@every 1h", asynq.NewTask("report", nil))
		return s, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	store := leadertest.NewStore(nil) // in production a leader.Bucket
	c, err := leader.Campaign(ctx, store, "periodic", leader.Config{})
	if err != nil {
		log.Fatal(err)
	}
	cancel() // in production: when the process ends
	for term := range c.Terms() {
		if err := leaderasynq.Run(term.Context(), newScheduler); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(c.Err())
	// Output: <nil>
}
