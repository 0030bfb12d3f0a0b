package main

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
)

// takeStock returns the keys of a guarded bucket as earlier terms have left them.
// raised is the GuardRevision of the writer.
//
// A watch delivers the data of one replica, which may lag. But it delivers writes in
// the order of their revisions. Once it has delivered the guard of this term, it has
// delivered every write of the earlier terms.
func takeStock(ctx context.Context, kv jetstream.KeyValue, raised uint64) (map[string]jetstream.KeyValueEntry, error) {
	watch, err := kv.WatchAll(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = watch.Stop() }()
	stock := make(map[string]jetstream.KeyValueEntry)
	for entry := range watch.Updates() {
		switch {
		case entry == nil: // all that this replica knew; there may be more
		case entry.Key() == fence.DefaultGuardKey:
			if entry.Revision() >= raised {
				return stock, nil
			}
		case entry.Operation() == jetstream.KeyValuePut:
			stock[entry.Key()] = entry
		default:
			delete(stock, entry.Key())
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, errors.New("the watch ended before it came to the guard")
}
