package natskv

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

const (
	// leastMaxLease leaves 16 ms from one renewal to the next, and a margin of 20 ms for
	// round trips, timers and clocks.
	leastMaxLease = 100 * time.Millisecond

	// clockMargin is the greatest difference to expect between the clocks of two servers
	// that lead a stream one after the other.
	clockMargin = time.Minute
	// mostKeys is the greatest number of keys of an existing bucket that inspect reads.
	mostKeys = 100_000
)

// inspection holds the conditions on the content of an existing bucket before the bucket
// is brought to a configuration.
type inspection struct {
	stream   string
	now      time.Time     // by the server's clock
	strange  bool          // the bucket is not known to be one for elections
	maxLease time.Duration // in the new configuration
	was      time.Duration // in the old configuration; 0: unlimited, or not known
}

// inspect rejects changes that would destroy an application's data, or would let a lease
// that may be running be longer than MaxLease. It does not read the content of a bucket
// of CreateOrUpdateBucket if MaxLease is not lowered.
func (b *Bucket) inspect(ctx context.Context, adopt bool, info *jetstream.StreamInfo, conf jetstream.StreamConfig) error {
	_, own := info.Config.Metadata[wire.MaxLeaseKey]
	i := inspection{stream: b.api.Name, now: info.TimeStamp, strange: !own && !adopt}
	i.was, _ = parseMaxLease(info.Config.Metadata) // a value that is not valid counts as not known
	var err error
	if i.maxLease, err = parseMaxLease(conf.Metadata); err != nil {
		return err
	}
	lowers := i.was == 0 || i.maxLease < i.was
	if s := info.State; s.Msgs == 0 {
		return nil
	} else if ttl := info.Config.MaxAge; ttl > 0 && conf.MaxAge == 0 && !adopt {
		return i.unfit("has a TTL of %v, by which clients may end the leases of its %d keys: set that TTL, or set Adopt to take it off", ttl, s.NumSubjects)
	} else if !i.strange && !lowers {
		return nil
	} else if i.strange && s.Msgs > s.NumSubjects {
		return i.unfit("holds %d messages of %d keys, and only the newest of each would be kept: take another name, or set Adopt", s.Msgs, s.NumSubjects)
	} else if s.NumSubjects > mostKeys {
		return i.unfit("holds %d keys, more than the %d that are looked at to see that no lease is longer than MaxLease %v", s.NumSubjects, mostKeys, i.maxLease)
	}
	_, err = jsapi.InTime(ctx, &b.api, func() (struct{}, error) { return struct{}{}, b.lookThrough(ctx, i.look) }, nil)
	return err
}

func (i inspection) unfit(format string, args ...any) error {
	return fmt.Errorf("%w: stream %s exists and %s", backend.ErrIncompatibleBucket, i.stream, fmt.Sprintf(format, args...))
}

// look checks the newest message of one key.
func (i inspection) look(key string, e backend.Entry) error {
	if key == wire.CordonKey {
		return nil
	}
	s := record.DecodeEntry(e)
	if i.strange && s.Kind == record.EntryForeign {
		return i.unfit("the key %.100q holds what is no record of an election, and the bucket would deny purges for good: take another name, or set Adopt", key)
	}
	lease, holder := i.was, "whose leader is not known"
	if s.Kind != record.EntryRecord && e.Marker { // step-down --force leaves the held record in the marker
		s.Rec, _ = record.Decode(e.Value)
	}
	switch s.Rec.Phase {
	case record.PhaseReleased:
		return nil
	case record.PhasePending, record.PhaseElect, record.PhaseLeading:
		lease, holder = s.Rec.Lease, fmt.Sprintf("which %.100q holds", s.Rec.ID)
		if e.Marker {
			lease, holder = max(lease, i.was), fmt.Sprintf("which %.100q held when it was deleted", s.Rec.ID)
		}
	case record.PhaseNone:
	}
	if over := e.Created.Add(lease + clockMargin); lease <= i.maxLease || over.Before(i.now) {
		return nil
	}
	return i.unfit("MaxLease %v is less than a lease of %v that may be running in the election %.100q, %s: stop that candidate, or delete the key if there is none, and try again %v after its last record, of %s",
		i.maxLease, lease, key, holder, lease+clockMargin, e.Created.UTC().Format(time.RFC3339))
}

// lookThrough calls look with the newest message of each key, until it returns an error.
// It may wait for the connection's lock.
func (b *Bucket) lookThrough(ctx context.Context, look func(key string, e backend.Entry) error) error {
	var s jsapi.Subscription
	consumer, last := "", uint64(0)
	ended := make(chan error, 1)
	end := func(err error) {
		select {
		case ended <- err:
		default: // it has ended before
		}
	}
	defer func() {
		s.Close()
		b.api.DeleteConsumer(consumer)
	}()
	made, err := b.api.Follow(ctx, &s, jetstream.ConsumerConfig{FilterSubject: b.pre + ">"}, func(name string) { consumer = name },
		func(m *nats.Msg, meta *nats.MsgMetadata) {
			if meta == nil {
				return
			}
			if last++; meta.Sequence.Consumer != last {
				end(fmt.Errorf("%w: messages of stream %s were lost on their way", backend.ErrUnreachable, b.api.Name))
				return
			}
			key, _ := strings.CutPrefix(m.Subject, b.pre)
			err := look(key, jsapi.NewEntry(meta.Sequence.Stream, meta.Timestamp, m.Header, m.Data))
			if err != nil || meta.NumPending == 0 {
				end(err)
			}
		})
	if err != nil || made.NumPending == 0 && made.Delivered.Consumer == 0 {
		return err
	}
	select {
	case err = <-ended:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: reading stream %s: %w", backend.ErrUnreachable, b.api.Name, ctx.Err())
	}
}
