package kvelect_test

import (
	"context"
	"log"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/kvelect"
	"github.com/natsleader/natsleader/leader"
)

// A process of the new kind, in the bucket and under the key of the old ones.
func ExampleBeside() {
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	bucket, err := leader.OpenBucket(js, "ELECTIONS")
	if err != nil {
		log.Fatal(err)
	}
	c, err := leader.Campaign(context.Background(), kvelect.Beside(bucket), "billing", leader.Config{})
	if err != nil {
		log.Fatal(err)
	}
	for term := range c.Terms() {
		log.Print("leads with token ", term.Token())
	}
}
