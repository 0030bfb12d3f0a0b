package leader_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// The README's quick start. It needs a NATS server with JetStream, so it is
// compiled but not run; the programs in examples/ bring their own.
func Example() {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // its end stops the candidate
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	js, _ := jetstream.New(nc)
	bucket, err := leader.CreateBucket(ctx, js, leader.BucketConfig{Name: "elections"}) // Replicas: 3 on a cluster
	if err != nil {
		log.Fatal(err)
	}
	c, err := leader.Campaign(ctx, bucket, "billing", leader.Config{})
	if err != nil {
		log.Fatal(err)
	}
	for event := range c.Events() { // closed when the candidate has stopped
		fmt.Println(event)
		if e, ok := event.(leader.Elected); ok {
			go work(e.Term.Context(), e.Term.Token()) // the context ends with the leadership
		}
	}
}

func work(ctx context.Context, token uint64) {
	fmt.Println("working under token", token)
	<-ctx.Done()
	fmt.Println("stopped working:", context.Cause(ctx))
}
