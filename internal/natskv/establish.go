package natskv

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
)

// establish creates or updates the bucket. The roster comes first, so that a bucket never
// refers to a roster that could not be created.
func (b *Bucket) establish(ctx context.Context, cfg Config) error {
	inspect := func(info *jetstream.StreamInfo, conf jetstream.StreamConfig) error {
		return b.inspect(ctx, cfg.Adopt, info, conf)
	}
	created := false
	if cfg.Roster {
		conf, _, err := b.api.Plan(ctx, cfg.newStream, cfg.reshape, inspect)
		if err == nil {
			created, err = b.roster.establish(ctx, rosterConfig{bucket: cfg.Name, like: conf})
		}
		if err != nil {
			return b.roster.undo(ctx, created, err)
		}
	}
	return b.roster.undo(ctx, created, b.api.Establish(ctx, cfg.newStream, cfg.reshape, inspect))
}

// establish creates or updates the roster, and reports whether it did not exist before.
func (r *rosterBucket) establish(ctx context.Context, like rosterConfig) (created bool, err error) {
	made := like.newStream()
	if err = r.api.Establish(ctx, func() jetstream.StreamConfig { return made }, like.reshape, nil); err != nil {
		return false, err
	}
	conf, err := r.api.Config(ctx)
	if err != nil {
		return false, err
	}
	// The first revision of each roster is the time of its creation in microseconds.
	created = conf.FirstSeq == made.FirstSeq
	if !conf.AllowMsgTTL {
		// Earlier servers ignore a setting that they do not know.
		err = fmt.Errorf("%w: the server does not know message TTLs, so it can keep no roster: update the servers to nats-server 2.11 or later", backend.ErrIncompatibleBucket)
	}
	return created, err
}

// undo deletes a roster that was created for a bucket which was refused, and returns the reason.
// If the outcome for the bucket is unknown, the roster stays, because the bucket may refer to it.
func (r *rosterBucket) undo(ctx context.Context, created bool, err error) error {
	if err == nil || !created || errors.Is(err, backend.ErrUnreachable) || errors.Is(err, backend.ErrConnectionClosed) {
		return err
	}
	if left := r.api.Delete(ctx); left != nil && !errors.Is(left, backend.ErrNoBucket) {
		return fmt.Errorf("%w (and its new roster %s could not be deleted: %w)", err, r.api.Name, left)
	}
	return err
}
