// Package roster reads which candidates wait in an election, and in which order they would follow.
// It needs a bucket with [leader.BucketConfig].Roster.
package roster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
)

// Lookup reads once which candidates wait in an election, in the order in which they
// would follow. The holder of the key is not among them, nor is a candidate without
// a [leader.Queue]. A candidate that died stays in the roster until its announcement
// lapses, three leases after the last one, or six if the server has forgotten that it expires.
//
// Errors are those of [leader.Lookup], and [leader.ErrNoRoster].
func Lookup(ctx context.Context, store leader.Store, election string) ([]Entry, error) {
	holder, err := leader.Lookup(ctx, store, election)
	if err != nil {
		return nil, err
	}
	ctx, cancel := deadline.Limit(ctx)
	defer cancel()
	r := reader{store: store.Backend(), election: election}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	defer r.feed.Stop()
	select {
	case <-r.bell: // the view is complete, or has ended
		all, _, err := r.read(holder)
		return all, err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", leader.ErrUnreachable, ctx.Err())
	}
}

// Observe reports on a channel which candidates wait in an election, in the order in which they would follow: when they
// and the holder are known, and whenever that changes, until ctx ends and the channel is closed. A slow reader gets the
// newest list. Observe fails as [Lookup] does; when the roster cannot be reached later, it tries again.
func Observe(ctx context.Context, store leader.Store, election string) (<-chan []Entry, error) {
	b, err := backend.StoreFor(store, election)
	if err != nil {
		return nil, err
	}
	first, cancel := deadline.Limit(ctx)
	defer cancel()
	r := reader{store: b, election: election}
	if err = r.open(first); err != nil {
		return nil, err
	}
	holders, _ := leader.Observe(ctx, store, election) // the store and the name are valid
	lists := make(chan []Entry)
	go r.observe(ctx, holders, lists)
	return lists, nil
}

// reader reads a roster.
type reader struct {
	store    backend.Roster
	election string
	view     *record.View
	feed     backend.Feed
	bell     chan struct{}
}

// open opens a view, and waits until it is open.
func (r *reader) open(ctx context.Context) error {
	bell := make(chan struct{}, 1)
	r.bell, r.view = bell, record.NewView(math.MaxInt, func() {
		select {
		case bell <- struct{}{}:
		default: // the pending ring leads to another read
		}
	})
	var err error
	r.feed, err = backend.Await(func(reply func(backend.Feed, error)) { r.store.View(ctx, r.election, r.view.Take, reply) })
	return err
}

// read returns the waiting candidates, without the holder.
func (r *reader) read(holder leader.Holder) (all []Entry, complete bool, err error) {
	holds := backend.SessionOf(holder)
	stands, complete, err := r.view.Order(func(session string) bool { return session == holds })
	for _, s := range stands {
		all = append(all, Entry{
			ID: s.ID, Value: s.Published(), Priority: s.Priority, Preempt: s.Preempt, Since: s.Since, Denied: s.Denied, DeniedAt: s.DeniedAt,
		})
	}
	return all, complete, err
}

// reopening is the pause before a view that has ended is opened again.
const reopening = time.Second

func (r *reader) observe(ctx context.Context, holders <-chan leader.Holder, lists chan<- []Entry) {
	defer close(lists)
	defer func() {
		if r.feed != nil {
			r.feed.Stop()
		}
	}()
	var holder leader.Holder
	var newest []Entry
	var out chan<- []Entry        // nil while there is nothing to send
	first, sighted := true, false // sighted: the holder is known
	for {
		var open bool
		select {
		case holder, open = <-holders:
			if !open {
				return
			}
			sighted = true
		case <-r.bell:
		case out <- newest:
			out = nil
		}
		all, known, err := r.read(holder)
		switch {
		case err != nil:
			r.reopen(ctx)
		case known && sighted && (first || !reflect.DeepEqual(all, newest)):
			newest, out, first = all, lists, false
		}
	}
}

// reopen opens the view again, or gives up at the end of ctx or the connection, which also ends the channel of holders.
func (r *reader) reopen(ctx context.Context) {
	r.feed.Stop()
	for {
		limited, cancel := deadline.Within(ctx, deadline.Default)
		err := r.open(limited)
		cancel()
		if err == nil || ctx.Err() != nil || errors.Is(err, leader.ErrConnectionClosed) {
			return
		}
		_ = deadline.Sleep(ctx, reopening) // the end of ctx is seen above
	}
}

// Entry is a candidate that waits in an election without holding its key.
type Entry struct {
	ID       string
	Value    []byte // the value that it publishes with the lease when it leads; not to be changed
	Priority int
	Preempt  bool      // asks a leader of lower priority to hand over
	Since    time.Time // when it began to wait, by the time of day of its host
	// Denied reports that the server denied the candidate's last write of the key, eight leases ago at most, and
	// that the candidate has not reconnected since. The candidate follows after all others, and tries for a free key
	// when they have not taken it. It may have been allowed to write since: it notices that with its next write.
	Denied   bool
	DeniedAt time.Time // of that write, by the time of day of its host; zero: not denied, or not known
}
