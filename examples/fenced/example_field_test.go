//go:build field

package main

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// renumber is the write with a condition that docs/fencing.md shows.
func renumber(ctx context.Context, kv jetstream.KeyValue, orders *fence.Bucket, term *leader.Term) error {
	entry, err := kv.Get(ctx, "next") // any replica may answer, and late
	if err != nil {
		return err
	}
	_, err = orders.Writer(term).Update(ctx, "next", []byte("1002"), entry.Revision())
	return err // jetstream.ErrKeyRevisionMismatch: read again
}

// lagging is a bucket whose answers come from a replica that lags.
type lagging struct {
	jetstream.KeyValue
	last jetstream.KeyValueEntry
}

func (l lagging) Get(context.Context, string) (jetstream.KeyValueEntry, error) { return l.last, nil }

// A read that was late costs a refused write.
func TestLateRead_CostsARefusal(t *testing.T) {
	ctx := t.Context()
	js := connect(t)
	elections, err := leader.CreateOrUpdateBucket(ctx, js, leader.BucketConfig{Name: "elections"})
	check.OK(t, err)
	orders, err := fence.CreateOrUpdateBucket(ctx, js, jetstream.KeyValueConfig{Bucket: "orders"})
	check.OK(t, err)
	kv, err := js.KeyValue(ctx, "orders")
	check.OK(t, err)
	c, err := leader.Campaign(ctx, elections, "billing", leader.Config{Guards: []leader.Guard{orders}})
	check.OK(t, err)
	var term *leader.Term
	for event := range c.Events(ctx) {
		if e, ok := event.(leader.Elected); ok {
			term = e.Term
			break
		}
	}
	put := func(value string) jetstream.KeyValueEntry {
		_, written := orders.Writer(term).Put(ctx, "next", []byte(value))
		e, read := kv.Get(ctx, "next")
		if failed := errors.Join(written, read); failed != nil {
			t.Fatal(failed)
		}
		return e
	}
	old := put("1000")
	put("1001")
	err = renumber(ctx, lagging{kv, old}, orders, term)
	check.That(t, errors.Is(err, jetstream.ErrKeyRevisionMismatch), "after a late read: %v, want a mismatch", err)
	err = renumber(ctx, kv, orders, term)
	check.That(t, err == nil, "after a read: %v", err)
	if err = c.Stop(); err != nil {
		t.Error(err)
	}
}
