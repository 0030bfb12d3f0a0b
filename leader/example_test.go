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

// The README's quick start. It needs a NATS server with JetStream, so it is
// compiled but not run; the programs in examples/ bring their own.
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
		for lead := term.Context(); lead.Err() == nil; { // asks the clock, also right after a pause
			item(lead, term.Token())
		}
	}
	if err := c.Err(); err != nil {
		log.Fatal(err)
	}
}

// item is one step of the work. It ends what it has begun. It waits no longer when the term
// is over, so that the next leader need not wait for it.
func item(lead context.Context, token uint64) {
	fmt.Println("an item under token", token)
	select {
	case <-time.After(time.Second):
	case <-lead.Done():
	}
}
