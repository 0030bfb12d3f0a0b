package leader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
)

// Roster reads once which candidates wait in an election, in the order in which they
// would follow. The holder of the key is not among them, nor is a candidate without
// [Config].Roster. A candidate that died stays in the roster until its announcement
// lapses, three leases after the last one.
//
// Errors are those of [Lookup], and [ErrNoRoster].
func Roster(ctx context.Context, store Store, election string) ([]RosterEntry, error) {
	b, err := backendOf(store)
	if err != nil {
		return nil, err
	}
	s, err := look(ctx, b, election)
	if err != nil {
		return nil, err
	}
	ctx, cancel := deadline.Limit(ctx)
	defer cancel()
	holder := ""
	if s.held() {
		holder = s.rec.session
	}
	r := reader{election: election}
	if err := r.open(ctx, b); err != nil {
		return nil, err
	}
	defer r.feed.Stop()
	for {
		select {
		case <-r.bell:
			if all, told, err := r.read(holder); told || err != nil {
				return all, err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, ctx.Err())
		}
	}
}

// ObserveRoster reports on a channel which candidates wait in an election, in the order
// in which they would follow: at once, and whenever that changes, until ctx ends and the
// channel is closed. A slow reader gets the newest list. ObserveRoster fails as [Roster]
// does; when the roster cannot be reached later, it tries again.
func ObserveRoster(ctx context.Context, store Store, election string) (<-chan []RosterEntry, error) {
	b, err := backendOf(store)
	if err != nil {
		return nil, err
	}
	first, cancel := deadline.Limit(ctx)
	defer cancel()
	r := reader{election: election}
	if err = r.open(first, b); err != nil {
		return nil, err
	}
	holders, err := stand(ctx, b, election, Config{Clock: clockOf(store)}, params{observe: true})
	if err != nil {
		r.feed.Stop()
		return nil, err
	}
	told := make(chan []RosterEntry)
	go r.observe(ctx, b, holders, told)
	return told, nil
}

// reader reads a roster for an observer.
type reader struct {
	election string
	view     *view
	feed     backend.Feed
	bell     chan struct{}
}

// open opens a view, and waits until it is open.
func (r *reader) open(ctx context.Context, store backend.Roster) error {
	if err := checkKey(r.election); err != nil {
		return err
	}
	bell := make(chan struct{}, 1)
	r.bell, r.view = bell, newView(math.MaxInt, func() {
		select {
		case bell <- struct{}{}:
		default: // the pending ring leads to another read
		}
	})
	type answer struct {
		feed backend.Feed
		err  error
	}
	answers := make(chan answer, 1)
	store.Stands(ctx, r.election, r.view.take, func(f backend.Feed, err error) { answers <- answer{f, err} })
	got := <-answers // soon after ctx has ended, at the latest
	r.feed = got.feed
	return got.err
}

// read returns the waiting candidates, without the holder.
func (r *reader) read(holder string) (all []RosterEntry, told bool, err error) {
	stands, told, err := r.view.order(func(session string) bool { return session == holder })
	for _, s := range stands {
		all = append(all, s.show())
	}
	return all, told, err
}

// reopening is the pause before a view that has ended is opened again.
const reopening = time.Second

func (r *reader) observe(ctx context.Context, store backend.Roster, holders *Candidate, told chan<- []RosterEntry) {
	defer close(told)
	defer func() {
		for range holders.Events() { // until the observer has ended
		}
	}()
	defer func() {
		if r.feed != nil {
			r.feed.Stop()
		}
	}()
	var newest []RosterEntry
	var out chan<- []RosterEntry // nil while there is nothing to send
	first := true
	for {
		select {
		case _, ok := <-holders.Events():
			if !ok {
				return
			}
		case <-r.bell:
		case out <- newest:
			out = nil
			continue
		}
		all, known, err := r.read(holders.shownSession())
		switch {
		case err != nil:
			if !r.reopen(ctx, store) {
				return
			}
		case known && (first || !reflect.DeepEqual(all, newest)):
			newest, out, first = all, told, false
		}
	}
}

// reopen opens the view again, and returns false if that can never succeed.
func (r *reader) reopen(ctx context.Context, store backend.Roster) bool {
	r.feed.Stop()
	for {
		limited, cancel := deadline.Within(ctx, deadline.Default)
		err := r.open(limited, store)
		cancel()
		switch {
		case err == nil:
			return true
		case ctx.Err() != nil || errors.Is(err, ErrConnectionClosed):
			return false
		}
		_ = deadline.Sleep(ctx, reopening) // the end of ctx is seen above
	}
}

// shownSession returns the session of the key's holder, as far as is known.
func (c *Candidate) shownSession() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown.session
}
