package inspect

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// NoBucketError is the error of a bucket that is away, with the advice of this command. It is a
// leader.ErrNoBucket.
type NoBucketError string

func (e NoBucketError) Error() string { return string(e) }

func (e NoBucketError) Unwrap() error { return leader.ErrNoBucket }

// SeenBucket is what a command that goes on remembers of a bucket that it has seen.
type SeenBucket struct {
	Name  string
	Conf  jetstream.StreamConfig // as it was last read
	Until time.Time              // when the last lease of the deleted bucket is over; zero: the bucket is there
}

// See takes the settings of the bucket.
func (b *SeenBucket) See(conf jetstream.StreamConfig) { b.Conf, b.Until = conf, time.Time{} }

// maxLease returns the MaxLease of the bucket, or 0.
func (b *SeenBucket) maxLease() time.Duration {
	most, _ := time.ParseDuration(b.Conf.Metadata[wire.MaxLeaseKey])
	return max(0, most)
}

// LongestLease returns the longest lease that a leader of the bucket may have whose record is not known.
func (b *SeenBucket) LongestLease() time.Duration {
	return cmp.Or(b.maxLease(), b.Conf.MaxAge, wire.DefaultLease)
}

// Gone returns the error of the bucket when a request has found it missing. It was deleted before
// that, and no lease was renewed since. leaders are those that may lead, and lease is the longest
// of their leases. The bound is that of the first call.
func (b *SeenBucket) Gone(now time.Time, leaders []string, lease time.Duration) error {
	if b.Until.IsZero() {
		b.Until = now.Add(max(lease, b.LongestLease())).Truncate(time.Second).Add(time.Second) // as it is shown
	}
	if now.Before(b.Until) {
		return NoBucketError(fmt.Sprintf("bucket %s is gone; %s may lead until %s: wait for that", b.Name, cmp.Or(front.Some(leaders), "a leader"), front.FormatZoned(b.Until)))
	}
	return NoBucketError(fmt.Sprintf("bucket %s is gone, and every lease in it is over: `%s` makes it again", b.Name, b.addLine()))
}

// addLine returns the command that makes a bucket with the same settings. `bucket add` finds the
// history without an option. The description may be any text, and is left out of a command.
func (b *SeenBucket) addLine() string {
	words := []string{"natsleader bucket add", b.Name, "--replicas", fmt.Sprint(b.Conf.Replicas), "--storage", front.StorageName(b.Conf.Storage)}
	if most := b.maxLease(); most > 0 {
		words = append(words, "--max-lease", most.String())
	}
	if b.Conf.MaxAge > 0 {
		words = append(words, "--ttl", b.Conf.MaxAge.String())
	}
	if b.Conf.Metadata[wire.RosterKey] != "" {
		words = append(words, "--roster")
	}
	return strings.Join(words, " ")
}
