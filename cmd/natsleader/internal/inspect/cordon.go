package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// Cordon reads the names that are cordoned, and the revision of the key.
func (s *Inspector) Cordon(ctx context.Context) (names []string, revision uint64, err error) {
	x, err := Answer(ctx, s, func(ctx context.Context) (facts.ElectionStatus, error) { return s.One(ctx, wire.CordonKey) })
	if err != nil {
		return nil, 0, err
	}
	if names, err = CordonOf(x); err != nil {
		err = fmt.Errorf("%w: `nats kv del %s %s` deletes it", err, s.Name, wire.CordonKey)
	}
	return names, x.Entry.Revision, err
}

// CordonOf returns the names in the key of the cordon. Candidates take a junk value for none.
func CordonOf(x facts.ElectionStatus) ([]string, error) {
	if x.Entry.Marker {
		return nil, nil
	}
	names, err := records.DecodeCordon(x.Entry.Value)
	if err != nil {
		return nil, front.Exitf(front.ExitFailed, "key %s does not hold a cordon, so nothing is cordoned (%v)", wire.CordonKey, err)
	}
	return names, nil
}

// Recordon changes the cordon. Another client may change it at the same time. change returns an error and the names
// as they were if there is nothing to change. Writing them shows whether they were the newest.
func (s *Inspector) Recordon(ctx context.Context, change func(names []string) ([]string, error)) ([]string, error) {
	info, err := Answer(ctx, s, s.Info)
	switch {
	case err != nil:
		return nil, err
	case info.Config.MaxAge > 0:
		return nil, front.Exitf(front.ExitFailed, "bucket %s drops its keys after %v, and a cordon with them: step the leaders down and stop their processes instead", s.Name, info.Config.MaxAge)
	}
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		names, revision, err := s.Cordon(ctx)
		if err != nil {
			return nil, err
		}
		names, unfit := change(names)
		slices.Sort(names)
		names = slices.Compact(names)
		value, err := records.EncodeCordon(names)
		if err != nil {
			return nil, front.Usagef("%v; nothing was changed", err)
		}
		_, err = Answer(ctx, s, func(ctx context.Context) (uint64, error) {
			return backend.Await(func(reply func(uint64, error)) {
				s.Bucket.Backend().Update(ctx, wire.CordonKey, value, revision, reply)
			})
		})
		if front.CodeOf(err) == front.ExitUnreachable && !errors.Is(err, backend.ErrRefused) {
			err = fmt.Errorf("it is not known whether the cordon was changed, which natsleader status shows: %w", err)
		}
		if !errors.Is(err, backend.ErrRefused) {
			return names, cmp.Or(err, unfit)
		}
		if pause > time.Second {
			return nil, front.Exitf(front.ExitUnreachable, "the cordon changes all the time, or the replica that answers is behind; nothing was changed")
		}
		if deadline.Sleep(ctx, pause) != nil {
			return nil, ctx.Err()
		}
	}
}

// CordonLine returns what is said of the cordon beside an election without a leader, if anything.
func CordonLine(names []string) [][]string {
	if len(names) == 0 {
		return nil
	}
	return [][]string{{"Cordoned:", front.SomeNames(names) + ": these candidates do not take it (natsleader undrain)"}}
}
