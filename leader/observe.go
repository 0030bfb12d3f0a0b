package leader

import (
	"context"
	"fmt"

	"github.com/natsleader/natsleader/internal/backend"
)

// Observe tells who holds the key of an election: at once when it is known, nil
// holder included, and again whenever it changes, until ctx ends and the channel
// is closed. A reader that is slow gets the newest. It fails only for a name
// that is no election's, with [ErrInvalidConfig]; while the store cannot be
// reached it tries again.
//
// Whoever observes needs less permission than a candidate and never writes.
func Observe(ctx context.Context, store Store, election string) (<-chan Holder, error) {
	b, err := backendOf(store)
	if err != nil {
		return nil, err
	}
	c, err := stand(ctx, b, election, Config{Clock: clockOf(store)}, params{observe: true})
	if err != nil {
		return nil, err
	}
	holders := make(chan Holder)
	go func() {
		defer close(holders)
		var newest Holder
		var out chan<- Holder // nil while there is nothing to tell
		for {
			select {
			case e, ok := <-c.Events():
				if !ok {
					return
				}
				if o, ok := e.(Observed); ok {
					newest, out = o.Holder, holders
				}
			case out <- newest:
				out = nil
			}
		}
	}()
	return holders, nil
}

// Lookup reads once who holds the key of an election. A Holder with an empty ID
// means that nobody does. Whether the lease is still good cannot be known from
// one look: compare Renewed and Lease, or use [Observe]. On a replicated bucket
// the answer may come from a replica that lags.
//
// Errors are [ErrInvalidConfig], [ErrNoBucket], [ErrPermission],
// [ErrUnreachable], [ErrConnectionClosed] and that of ctx. It waits for 5 s
// at most if ctx has no deadline; a permission that is missing is told when the
// time is over.
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
func look(ctx context.Context, store backend.Store, election string) (sight, error) {
	if err := checkKey(election); err != nil {
		return sight{}, err
	}
	ctx, cancel := limit(ctx)
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
			return sight{}, fmt.Errorf("%w: %w", got.err, ctx.Err())
		}
		return sight{}, got.err
	}
	return sees(got.entry), nil
}
