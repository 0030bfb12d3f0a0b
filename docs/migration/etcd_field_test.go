//go:build field

package migration_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/leader"
)

func lead(ctx context.Context, store leader.Store, orders *fence.Bucket) (err error) {
	c, err := leader.Campaign(ctx, store, "billing", leader.Config{
		Value:  []byte("10.0.0.1:8080"),
		Guards: []leader.Guard{orders},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop(context.Background())) }() // Resign, and the session's Close

	for term := range c.Terms() { // Campaign, again and again
		if err := c.Proclaim(ctx, []byte("10.0.0.1:8443")); err != nil { // Proclaim
			return err
		}
		// A transaction on Key and Rev: the server refuses it when another leads.
		if _, err := orders.Writer(term).Put(term.Context(), "next", []byte("1001")); err != nil {
			return err
		}
		<-term.Context().Done() // Session.Done
	}
	return c.Err()
}

// The page shows the counterpart of an election of etcd.
func TestEtcd_Election(t *testing.T) {
	_, js := connect(t)
	bucket, err := leader.CreateBucket(t.Context(), js, leader.BucketConfig{Name: "elections"})
	if err != nil {
		t.Fatal(err)
	}
	orders, err := fence.CreateBucket(t.Context(), js, jetstream.KeyValueConfig{Bucket: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	read, err := js.KeyValue(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	written, err := read.Watch(t.Context(), "next")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- lead(ctx, bucket, orders) }()
	for entry := range written.Updates() {
		if entry != nil && string(entry.Value()) == "1001" {
			break
		}
	}
	h, err := leader.Lookup(t.Context(), bucket, "billing")
	if err != nil || !h.Leads() || string(h.Value) != "10.0.0.1:8443" {
		t.Errorf("%v, %v", h, err)
	}
	cancel()
	if err = <-ended; err != nil {
		t.Error(err)
	}
	if h, err = leader.Lookup(t.Context(), bucket, "billing"); err != nil || !h.Released {
		t.Errorf("not released: %v, %v", h, err)
	}
	if err := written.Stop(); err != nil {
		t.Error(err)
	}
}
