package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/wire"
)

// EnsureBucket returns a bucket that its candidates create if it does not exist. It sends no
// request, so it works before there is a server (nats.RetryOnFailedConnect). The first
// candidate that learns from the server that there is no bucket creates it with these
// settings, and with a roster if cfg.Roster is set. Any number of processes may do that at
// the same time: one of them creates the bucket, and the others use it. A candidate that
// cannot create the bucket reports the reason in a [Faulted] event, for example
// [ErrPermission], and tries again with growing pauses. Observers and functions like [Lookup]
// create nothing. They return [ErrNoBucket], or wait, until there is a bucket.
//
// An existing bucket is never changed. If it differs from cfg, each candidate goes on with
// the bucket as it is, and reports once, in a [Faulted] event with [ErrInvalidConfig], the
// first setting that differs. Settings that have a default of their own in cfg are not
// compared. In a bucket that no election can work with, such as the roster of another bucket,
// candidates report [ErrIncompatibleBucket]. Use [CreateBucket] to change a bucket.
//
// A bucket that was found once through this Bucket, or one that [Bucket.WithFeedSubject] made
// of it, is not created again. If it is deleted, candidates report [ErrNoBucket] until there
// is a bucket again. But a process that has never seen the bucket creates it, and a candidate
// leads in it at once. A leader of the deleted bucket that is connected finds out when it
// hears of the first record of its election in the new bucket, or else at its next renewal.
// A leader that is cut off from NATS at that time goes on until its lease is over, so there
// are two leaders for up to one lease. Only a resource that compares tokens is safe from that.
// So stop all candidates before you delete a bucket, or let no candidate start for one
// MaxLease. docs/production.md in the repository has more about that.
//
// Errors: [ErrInvalidConfig] for settings that cannot work, and for Adopt.
func EnsureBucket(js jetstream.JetStream, cfg BucketConfig) (*Bucket, error) {
	b, err := OpenBucket(js, cfg.Name)
	if err != nil {
		return nil, err
	}
	if err = cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Adopt {
		return nil, fmt.Errorf("%w: Adopt is for CreateBucket: EnsureBucket changes no bucket", ErrInvalidConfig)
	}
	b.s.ensure = &cfg
	return b, nil
}

// settingsEnsured is Settings for the candidates of a bucket of EnsureBucket. It creates a
// bucket that does not exist, unless it was seen through this Bucket before.
//
// A winner in the new bucket leads at once, although a process of which nothing is known here
// may lead in a bucket of that name that was deleted just before. JetStream keeps no trace of
// a deleted stream, so that case cannot be distinguished from a first deployment. To be safe,
// every winner in every bucket younger than MaxLease would have to wait, not only those of the
// process that created it. Each first deployment would begin with 15 s without a leader, for
// the sake of an operation that is documented as unsafe for CreateBucket likewise.
func (b *bucketStore) settingsEnsured(ctx context.Context, reply func(backend.Settings, error)) {
	go func() {
		seen := b.api.Seen.Load() // if another candidate creates it meanwhile, the answer is old
		s, err := b.readSettings(ctx)
		if errors.Is(err, ErrNoBucket) && !seen {
			if err = b.createInTurn(ctx); err == nil {
				s, err = b.readSettings(ctx)
			}
		}
		reply(s, err)
	}()
}

// createInTurn creates the bucket when there is a slot, unless it has been found meanwhile.
// Thousands of candidates may learn at the same time that there is none.
func (b *bucketStore) createInTurn(ctx context.Context) error {
	done, err := b.api.Turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	if b.api.Seen.Load() {
		return nil
	}
	return b.createMissing(ctx)
}

// createMissing creates the bucket. The roster comes first: if this process dies between the
// two, there is no bucket yet, and the next candidate goes on from there.
func (b *bucketStore) createMissing(ctx context.Context) error {
	conf := b.ensure.newStream()
	if b.ensure.Roster {
		if err := b.roster.api.Create(ctx, rosterConfig{bucket: b.name, like: conf}.newStream()); err != nil {
			return fmt.Errorf("create the roster of bucket %s: %w", b.name, err)
		}
	}
	if err := b.api.Create(ctx, conf); err != nil {
		return fmt.Errorf("create bucket %s: %w", b.name, err)
	}
	return nil
}

// difference returns an error that names the first setting of EnsureBucket that the bucket
// does not have, or nil.
func (b *bucketStore) difference() error {
	conf := b.api.Known.Load()
	if b.ensure == nil || conf == nil {
		return nil
	}
	if text := b.ensure.difference(*conf); text != "" {
		return fmt.Errorf("%w: bucket %s has %s; it is used as it is", backend.ErrBucketDiffers, b.name, text)
	}
	return nil
}

// difference returns the first setting of an existing bucket that is not as in c, and what it
// is in c, or an empty string.
func (c BucketConfig) difference(old jetstream.StreamConfig) string {
	maxLease, err := parseMaxLease(old.Metadata)
	switch {
	case old.MaxAge != c.TTL:
		return fmt.Sprintf("TTL %s, not %s", orNone(old.MaxAge), orNone(c.TTL))
	case err == nil && c.MaxLease != 0 && maxLease != c.MaxLease:
		return fmt.Sprintf("MaxLease %s, not %v", orNone(maxLease), c.MaxLease)
	case c.TTL == 0 && !isPurgeProtected(old):
		return "PurgeProtected false, not true"
	case old.Storage != c.Storage:
		return fmt.Sprintf("Storage %v, not %v", old.Storage, c.Storage)
	case c.Replicas != 0 && old.Replicas != c.Replicas:
		return fmt.Sprintf("Replicas %d, not %d", old.Replicas, c.Replicas)
	case c.Placement != nil && !samePlacement(old.Placement, c.Placement):
		return fmt.Sprintf("Placement %+v, not %+v", old.Placement, c.Placement)
	case c.Roster && old.Metadata[wire.RosterKey] == "":
		return "Roster false, not true"
	default:
		return ""
	}
}

func orNone(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return d.String()
}

func samePlacement(a, b *jetstream.Placement) bool {
	return a != nil && a.Cluster == b.Cluster && slices.Equal(a.Tags, b.Tags)
}
