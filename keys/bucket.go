package keys

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/keyset"
	"github.com/natsleader/natsleader/leader"
)

// lookEach is how often a bucket that is followed is looked at: it may have been deleted, and made again. Tests change it.
var lookEach = 30 * time.Second

// listEach is how often all keys are read again, for changes that the server has not delivered, for example deletions that a
// marker TTL has removed.
const listEach = time.Hour

// OpenBucket returns a bucket of keys, which exists. It sends no request. Errors: [leader.ErrInvalidConfig].
func OpenBucket(js jetstream.JetStream, name string) (Bucket, error) {
	if err := jsapi.CheckJetStream(js); err != nil {
		return nil, err
	}
	if err := jsapi.CheckBucketName(name); err != nil {
		return nil, err
	}
	return &opened{js: js, name: name}, nil
}

// opened is a bucket that any number of sets may share.
type opened struct {
	js   jetstream.JetStream
	name string
}

// KeySet returns the port of a set, for [Join].
func (o *opened) KeySet() keyset.Bucket { return &kvBucket{js: o.js, name: o.name} }

// kvBucket is the keys of a bucket on a server, for one set: each set learns by itself that the bucket was made again.
type kvBucket struct {
	js   jetstream.JetStream
	name string

	mu   sync.Mutex
	kv   jetstream.KeyValue // of the last look
	made time.Time          // when the bucket was made that was followed last; zero: none was
}

// state is what a look at a bucket shows.
type state struct {
	kv   jetstream.KeyValue
	made time.Time
	end  uint64 // its last revision
}

// look reads the settings and the state of the bucket, which the leader of the stream answers.
func (b *kvBucket) look(ctx context.Context) (state, error) {
	kv, err := b.js.KeyValue(ctx, b.name)
	if err != nil {
		return state{}, b.fault("look at", err)
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return state{}, b.fault("look at", err)
	}
	s, ok := status.(*jetstream.KeyValueBucketStatus)
	if !ok {
		return state{}, b.fault("look at", fmt.Errorf("%T is no status of a bucket", status))
	}
	switch c := s.StreamInfo().Config; {
	case c.SubjectDeleteMarkerTTL > 0:
	case c.MaxAge > 0:
		return state{}, b.fault("use", fmt.Errorf("%w: its keys expire without a sign: make it with a LimitMarkerTTL, or without a TTL", leader.ErrIncompatibleBucket))
	case c.AllowMsgTTL:
		return state{}, b.fault("use", fmt.Errorf("%w: keys with a TTL expire without a sign (AllowMsgTTL, and no SubjectDeleteMarkerTTL): update it with a LimitMarkerTTL", leader.ErrIncompatibleBucket))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kv = kv
	return state{kv, s.StreamInfo().Created, s.StreamInfo().State.LastSeq}, nil
}

// last returns the bucket of the last look.
func (b *kvBucket) last(ctx context.Context) (jetstream.KeyValue, error) {
	b.mu.Lock()
	kv := b.kv
	b.mu.Unlock()
	if kv != nil {
		return kv, nil
	}
	now, err := b.look(ctx)
	return now.kv, err
}

// fault returns the error of a request by the names of package leader.
func (b *kvBucket) fault(what string, err error) error {
	name := fmt.Sprintf("cannot %s bucket %s", what, b.name)
	switch {
	case b.js.Conn().IsClosed():
		return fmt.Errorf("%w: %s", leader.ErrConnectionClosed, name)
	case errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("%w: %s", leader.ErrNoBucket, name)
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return fmt.Errorf("%w: %w", backend.ErrRefused, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("%w: %s: %w", leader.ErrUnreachable, name, err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// Name returns the name of the bucket.
func (b *kvBucket) Name() string { return b.name }

// Check reports whether the bucket exists, and is fit.
func (b *kvBucket) Check(ctx context.Context) error {
	_, err := b.look(ctx)
	return err
}

// Follow watches the keys until the connection was lost and is back, or for an hour.
func (b *kvBucket) Follow(ctx context.Context, filters []string, deliver func(keyset.Change)) error {
	states := b.js.Conn().StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	defer b.js.Conn().RemoveStatusListener(states)
	now, err := b.lookFor(ctx)
	if err != nil {
		return err
	}
	b.mu.Lock()
	isOther := !b.made.IsZero() && !now.made.Equal(b.made)
	b.made = now.made
	b.mu.Unlock()
	if isOther {
		deliver(keyset.Change{Kind: keyset.Remade})
	}
	w, err := now.kv.WatchFiltered(ctx, append([]string(nil), filters...)) // which it changes
	if err != nil {
		return b.fault("watch", err)
	}
	defer drain(w)
	updates, last := w.Updates(), now.end
	looks, end := time.NewTicker(lookEach), time.NewTimer(listEach)
	defer looks.Stop()
	defer end.Stop()
	for {
		select {
		case entry, open := <-updates:
			switch {
			case !open && ctx.Err() != nil:
				return ctx.Err()
			case !open:
				return b.fault("watch", errors.New("the watch has ended"))
			case entry == nil:
				deliver(keyset.Change{Kind: keyset.Listed, Entry: keyset.Entry{Revision: now.end}})
			default:
				kind := keyset.Gone
				if entry.Operation() == jetstream.KeyValuePut {
					kind = keyset.Put
				}
				last = max(last, entry.Revision())
				deliver(keyset.Change{Kind: kind, Entry: keyset.Entry{Name: entry.Key(), Value: entry.Value(), Revision: entry.Revision()}})
			}
		case <-looks.C:
			switch later, err := b.lookFor(ctx); {
			case errors.Is(err, leader.ErrNoBucket), errors.Is(err, leader.ErrIncompatibleBucket):
				return err
			case err == nil && updates == nil: // the connection is back
				return nil
			case err == nil && (!later.made.Equal(now.made) || later.end < last): // made again, or it has lost messages
				return nil
			case err == nil:
				last = max(last, later.end)
			}
		case state := <-states:
			switch state {
			case nats.CLOSED:
				return b.fault("watch", nats.ErrConnectionClosed)
			case nats.CONNECTED:
				return nil
			default: // the connection is lost
				if updates != nil {
					updates = nil
					deliver(keyset.Change{Kind: keyset.Away})
				}
			}
		case <-end.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drainLimit bounds how long drain waits.
const drainLimit = time.Second

// drain ends a watch. A message that waits for its reader holds up a goroutine of nats.go until it is read.
func drain(w jetstream.KeyWatcher) {
	_ = w.Stop()
	limit := time.After(drainLimit)
	for {
		select {
		case _, open := <-w.Updates():
			if !open {
				return
			}
		case <-limit:
			return
		}
	}
}

// lookFor is look with a limit.
func (b *kvBucket) lookFor(ctx context.Context) (state, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	return b.look(ctx)
}

// Get reads a key.
func (b *kvBucket) Get(ctx context.Context, key string) (keyset.Entry, error) {
	kv, err := b.last(ctx)
	if err != nil {
		return keyset.Entry{}, err
	}
	entry, err := kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return keyset.Entry{}, nil
	case err != nil:
		return keyset.Entry{}, b.fault("read", err)
	}
	return keyset.Entry{Name: key, Value: entry.Value(), Revision: entry.Revision()}, nil
}

// Delete deletes a key at a revision.
func (b *kvBucket) Delete(ctx context.Context, key string, revision uint64) error {
	kv, err := b.last(ctx)
	if err != nil {
		return err
	}
	if err := kv.Delete(ctx, key, jetstream.LastRevision(revision)); err != nil {
		return b.fault("delete a key of", err)
	}
	return nil
}

// Guard returns a guard in the bucket.
func (b *kvBucket) Guard(key string) (leader.Guard, func(*leader.Term) fence.KVWriter, error) {
	g, err := fence.OpenBucket(b.js, b.name, fence.GuardKey(key))
	if err != nil {
		return nil, nil, err
	}
	return g, func(t *leader.Term) fence.KVWriter { return g.Writer(t) }, nil
}
