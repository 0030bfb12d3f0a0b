package fence_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/leader"
)

// A leader writes to a bucket that only the leader may write. It needs a NATS server with
// JetStream, so it is compiled but not run.
func Example() {
	ctx := context.Background()
	nc, err := nats.Connect(nats.DefaultURL, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		log.Fatal(err)
	}
	js, _ := jetstream.New(nc)
	elections, err := leader.EnsureBucket(js, leader.BucketConfig{Name: "elections"})
	if err != nil {
		log.Fatal(err)
	}
	orders, err := fence.CreateOrUpdateBucket(ctx, js, jetstream.KeyValueConfig{Bucket: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	c, err := leader.Campaign(ctx, elections, "billing", leader.Config{
		Guards: []leader.Guard{orders}, // raised before Elected
	})
	if err != nil {
		log.Fatal(err)
	}
	for term := range c.Terms() {
		_, err := orders.Writer(term).Put(term.Context(), "next", []byte("1001"))
		if errors.Is(err, leader.ErrFenced) {
			fmt.Println("another leads:", err) // nothing was written
			continue
		}
		<-term.Context().Done() // more work
	}
	if err := c.Err(); err != nil {
		log.Fatal(err)
	}
}

// A batch of a stream's writer is written as a whole or not at all.
func ExampleStreamWriter_Batch() {
	var (
		ctx  context.Context
		js   jetstream.JetStream
		term *leader.Term // of a candidate that was given the stream as one of its Guards
	)
	ledger, err := fence.OpenStream(js, "LEDGER", "ledger.guard")
	if err != nil {
		log.Fatal(err)
	}
	b := ledger.Writer(term).Batch()
	b.Publish("ledger.debit", []byte("100"))
	b.Publish("ledger.credit", []byte("100"))
	ack, err := b.Commit(ctx)
	switch {
	case errors.Is(err, fence.ErrUnknownOutcome):
		fmt.Println("perhaps written:", err) // settled by the next write of the term
	case err != nil:
		fmt.Println("not written:", err)
	default:
		fmt.Println("the last message has the sequence", ack.Sequence)
	}
}
