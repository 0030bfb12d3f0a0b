package leader

import (
	"context"
	"fmt"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
)

// Observe reports the holder of the key of an election on a channel: at once when it is
// known, even if there is none, and again whenever it changes, until ctx ends or the
// application closes the connection, and the channel is closed. A slow reader gets the
// newest holder. Observe fails only for a name that is not that of an election or seat, and
// for a store that is nil or was not opened, with [ErrInvalidConfig]; while the store cannot
// be reached it tries again.
//
// An observer needs less permission than a candidate and never writes.
func Observe(ctx context.Context, store Store, election string) (<-chan Holder, error) {
	b, err := backendOf(store)
	if err != nil {
		return nil, err
	}
	c, err := stand(ctx, b, election, Config{Clock: clockOf(store)}, params{observe: true})
	if err != nil {
		return nil, err
	}
	holders, events := make(chan Holder), c.reader()
	go func() {
		defer close(holders)
		var newest Holder
		var out chan<- Holder // nil while there is nothing to send
		for {
			select {
			case _, open := <-events.bell:
				if !open {
					return
				}
				for e, ok := events.next(); ok; e, ok = events.next() {
					if o, ok := e.(Observed); ok {
						newest, out = o.Holder, holders
					}
				}
			case out <- newest:
				out = nil
			}
		}
	}()
	return holders, nil
}

// Lookup reads the holder of the key of an election once. A Holder with an empty ID means
// that there is none, unless it is Foreign: then the key holds a value that is no record of
// this package, and counts as held. One read cannot show whether the lease is still valid:
// compare Renewed and Lease, or use [Observe]. On a replicated bucket the answer may come
// from a replica that lags.
//
// Errors are [ErrInvalidConfig], [ErrNoBucket], [ErrPermission], [ErrUnreachable],
// [ErrConnectionClosed] and that of ctx. Lookup waits for 5 s at most if ctx has no
// deadline.
func Lookup(ctx context.Context, store Store, election string) (Holder, error) {
	b, err := backendOf(store)
	if err != nil {
		return Holder{}, err
	}
	s, err := look(ctx, b, election)
	if err != nil {
		return Holder{}, err
	}
	return holderOf(s, seatOf(election)), nil
}

// look reads the key once.
func look(ctx context.Context, store backend.Store, election string) (observation, error) {
	if err := checkKey(election); err != nil {
		return observation{}, err
	}
	ctx, cancel := deadline.Limit(ctx)
	defer cancel()
	type answer struct {
		entry backend.Entry
		err   error
	}
	answers := make(chan answer, 1)
	store.Get(ctx, election, func(e backend.Entry, err error) { answers <- answer{e, err} })
	got := <-answers // soon after ctx has ended, at the latest
	if got.err != nil {
		if ctx.Err() != nil {
			return observation{}, fmt.Errorf("%w: %w", got.err, ctx.Err())
		}
		return observation{}, got.err
	}
	return decodeEntry(got.entry), nil
}
