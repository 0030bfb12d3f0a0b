package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// noBucketError is the error of a bucket that is away, with the advice of this command. It is a
// leader.ErrNoBucket.
type noBucketError string

func (e noBucketError) Error() string { return string(e) }
func (e noBucketError) Unwrap() error { return leader.ErrNoBucket }

// neverSeen is the advice of a command that has never seen the bucket.
func neverSeen(bucket string) string { return judge.NeverSeen(bucket) }

// seenBucket is what a command that goes on remembers of a bucket that it has seen.
type seenBucket struct {
	name  string
	conf  jetstream.StreamConfig // as it was last read
	until time.Time              // when the last lease of the deleted bucket is over; zero: the bucket is there
}

// see takes the settings of the bucket.
func (b *seenBucket) see(conf jetstream.StreamConfig) { b.conf, b.until = conf, time.Time{} }

// maxLease returns the MaxLease of the bucket, or 0.
func (b *seenBucket) maxLease() time.Duration {
	most, _ := time.ParseDuration(b.conf.Metadata[wire.MaxLeaseKey])
	return max(0, most)
}

// longestLease returns the longest lease that a leader of the bucket may have whose record is not known.
func (b *seenBucket) longestLease() time.Duration {
	return cmp.Or(b.maxLease(), b.conf.MaxAge, wire.DefaultLease)
}

// gone returns the error of the bucket when a request has found it missing. It was deleted before
// that, and no lease was renewed since. leaders are those that may lead, and lease is the longest
// of their leases. The bound is that of the first call.
func (b *seenBucket) gone(now time.Time, leaders []string, lease time.Duration) error {
	if b.until.IsZero() {
		b.until = now.Add(max(lease, b.longestLease())).Truncate(time.Second).Add(time.Second) // as it is shown
	}
	if now.Before(b.until) {
		return noBucketError(fmt.Sprintf("bucket %s is gone; %s may lead until %s: wait for that", b.name, cmp.Or(some(leaders), "a leader"), formatZoned(b.until)))
	}
	return noBucketError(fmt.Sprintf("bucket %s is gone, and every lease in it is over: `%s` makes it again", b.name, b.addLine()))
}

// addLine returns the command that makes a bucket with the same settings. `bucket add` finds the
// history without an option. The description may be any text, and is left out of a command.
func (b *seenBucket) addLine() string {
	words := []string{"natsleader bucket add", b.name, "--replicas", fmt.Sprint(b.conf.Replicas), "--storage", storageName(b.conf.Storage)}
	if most := b.maxLease(); most > 0 {
		words = append(words, "--max-lease", most.String())
	}
	if b.conf.MaxAge > 0 {
		words = append(words, "--ttl", b.conf.MaxAge.String())
	}
	if b.conf.Metadata[wire.RosterKey] != "" {
		words = append(words, "--roster")
	}
	return strings.Join(words, " ")
}
