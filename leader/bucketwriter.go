package leader

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// BucketWriter writes to a guarded bucket as the leader of one term.
type BucketWriter struct {
	b *GuardedBucket
	f *fence
}

// Writer returns the writer of a term.
func (b *GuardedBucket) Writer(t *Term) *BucketWriter {
	return &BucketWriter{b: b, f: t.fence(b)}
}

// Put writes a key.
func (w *BucketWriter) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	if w.f == nil {
		return 0, fmt.Errorf("%w: %s was not given to Campaign", ErrInvalidConfig, w.b)
	}
	for {
		revision, _ := w.f.current()
		seq, err := w.b.store(ctx, &nats.Msg{
			Subject: w.b.to + w.b.pre + key,
			Header: nats.Header{
				jetstream.ExpectedLastSubjSeqHeader:           {strconv.FormatUint(revision, 10)},
				"Nats-Expected-Last-Subject-Sequence-Subject": {w.b.guard},
			},
			Data: value,
		})
		if !errors.Is(err, ErrRefused) {
			return seq, err
		}
		e, err := w.b.lastOf(ctx, w.b.guard)
		if err != nil {
			return 0, err
		}
		if w.f.judge(e) == standsLater {
			return 0, ErrFenced
		}
	}
}
