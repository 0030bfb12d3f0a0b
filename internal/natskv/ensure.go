package natskv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/wire"
)

// Ensure returns the bucket of that name. Candidates create it with these settings if it does
// not exist.
func Ensure(js jetstream.JetStream, cfg Config) (*Bucket, error) {
	b, err := Open(js, cfg.Name)
	if err != nil {
		return nil, err
	}
	if err = cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Adopt {
		return nil, fmt.Errorf("%w: Adopt is for CreateOrUpdateBucket: EnsureBucket changes no bucket", backend.ErrInvalidConfig)
	}
	b.ensure, b.made = &cfg, &latch{opened: make(chan struct{})}
	return b, nil
}

// SettingsEnsured is Settings for a candidate. It creates a bucket of EnsureBucket that does not
// exist, unless it was seen through this Bucket before.
//
// A winner in the new bucket leads at once, although a process of which nothing is known here
// may lead in a bucket of that name that was deleted just before. JetStream keeps no trace of
// a deleted stream, so that case cannot be distinguished from a first deployment. To be safe,
// every winner in every bucket younger than MaxLease would have to wait, not only those of the
// process that created it. Each first deployment would begin with 15 s without a leader, for
// the sake of an operation that is documented as unsafe for CreateOrUpdateBucket likewise.
func (b *Bucket) SettingsEnsured(ctx context.Context, reply func(backend.Settings, error)) {
	if b.ensure == nil {
		b.Settings(ctx, reply)
		return
	}
	go func() {
		seen := b.api.Seen.Load() // if another candidate creates it meanwhile, the answer is old
		s, err := b.readSettings(ctx)
		if errors.Is(err, backend.ErrNoBucket) && !seen {
			if err = b.createInTurn(ctx); err == nil {
				s, err = b.readSettings(ctx)
			}
		}
		reply(s, err)
	}()
}

// createInTurn creates the bucket when there is a slot, unless it has been found meanwhile.
// Thousands of candidates may learn at the same time that there is none.
func (b *Bucket) createInTurn(ctx context.Context) error {
	done, err := b.api.Turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	if !b.api.Seen.Load() {
		if err = b.createMissing(ctx); err != nil {
			return err
		}
	}
	b.made.open()
	return nil
}

// latch is opened once.
type latch struct {
	once   sync.Once
	opened chan struct{}
}

func (l *latch) open() { l.once.Do(func() { close(l.opened) }) }

// createMissing creates the bucket. The roster comes first: if this process dies between the
// two, there is no bucket yet, and the next candidate goes on from there.
func (b *Bucket) createMissing(ctx context.Context) error {
	site := b.api.Site(ctx)
	if site.IsLeaf(ctx) {
		return b.onLeaf(site.Domain)
	}
	conf := b.ensure.newStream()
	keepDomain(&conf, site.Domain)
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

// Difference returns an error that names the first setting of EnsureBucket that the bucket
// does not have, or nil. It returns false if nothing is to be compared, or not known.
func (b *Bucket) Difference() (err error, known bool) {
	conf := b.api.Known.Load()
	if b.ensure == nil || conf == nil {
		return nil, false
	}
	if text := b.ensure.difference(*conf); text != "" {
		err = fmt.Errorf("%w: bucket %s has %s; it is used as it is", backend.ErrBucketDiffers, b.name, text)
	}
	return err, true
}

// difference returns the first setting of an existing bucket that is not as in c, and what it
// is in c, or an empty string.
func (c Config) difference(old jetstream.StreamConfig) string {
	maxLease, err := parseMaxLease(old.Metadata)
	switch {
	case old.MaxAge != c.TTL:
		return fmt.Sprintf("TTL %s, not %s", orNone(old.MaxAge), orNone(c.TTL))
	case err == nil && c.MaxLease != 0 && maxLease != c.MaxLease:
		return fmt.Sprintf("MaxLease %s, not %v", orNone(maxLease), c.MaxLease)
	case c.TTL == 0 && !elections(old, c.Name).Protected():
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

// establish creates or updates the bucket. The roster comes first, so that a bucket never
// refers to a roster that could not be created.
func (b *Bucket) establish(ctx context.Context, cfg Config) error {
	inspect := func(info *jetstream.StreamInfo, conf jetstream.StreamConfig) error {
		return b.inspect(ctx, cfg.Adopt, info, conf)
	}
	reshape := func(old jetstream.StreamConfig) (conf jetstream.StreamConfig, changed bool, err error) {
		conf, changed, err = cfg.reshape(old)
		domain, _ := b.api.Domain()
		keepDomain(&conf, domain)
		return conf, changed || conf.Metadata[wire.DomainKey] != old.Metadata[wire.DomainKey], err
	}
	fresh := func() jetstream.StreamConfig {
		conf := cfg.newStream()
		keepDomain(&conf, b.api.Site(ctx).Domain)
		return conf
	}
	created := false
	if cfg.Roster {
		conf, _, err := b.api.Plan(ctx, fresh, reshape, inspect)
		if err == nil {
			created, err = b.roster.establish(ctx, rosterConfig{bucket: cfg.Name, like: conf})
		}
		if err != nil {
			return b.roster.undo(ctx, created, err)
		}
	}
	return b.roster.undo(ctx, created, b.api.Establish(ctx, fresh, reshape, inspect))
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
