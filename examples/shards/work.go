package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// work is the program of a process: it works on the shards that it owns, until its standard input
// ends.
func work(id, url string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	bucket, err := leader.OpenBucket(js, bucketName)
	if err != nil {
		return err
	}
	m, err := shard.Join(ctx, bucket, groupName, shard.Config{Shards: shards, ID: id, LeaseDuration: 3 * time.Second})
	if err != nil {
		return err
	}
	return m.Serve(items)
}

// items works on the items of a shard, and reports each: the shard, its token, and an instant at
// which it was owned.
func items(lead context.Context, s *shard.Shard) {
	for {
		now := time.Now().UnixNano()
		if lead.Err() != nil { // asks the clock. The shard was owned before it asked
			return
		}
		fmt.Println(s.Number(), s.Token(), now)
		select {
		case <-lead.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}
