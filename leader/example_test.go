package leader_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// The README's quick start. It needs a NATS server with JetStream, so it is compiled here,
// and run by TestCommands_Run in docs/snippets.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(nats.DefaultURL, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		log.Fatal(err)
	}
	js, _ := jetstream.New(nc)
	bucket, err := leader.EnsureBucket(js, leader.BucketConfig{Name: "elections"}) // Replicas: 3 on a cluster
	if err != nil {
		log.Fatal(err)
	}
	c, err := leader.Campaign(ctx, bucket, "billing", leader.Config{Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	for term := range c.Terms() { // one at a time; others lead when the body has ended
		for lead := term.Context(); lead.Err() == nil; { // Err reads the clock, also right after a pause
			fmt.Println("an item under token", term.Token())
			time.Sleep(time.Second) // your work
		}
	}
	if err := c.Err(); err != nil {
		log.Fatal(err)
	}
}
