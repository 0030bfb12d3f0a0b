package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

func someNames(names []string) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = printable(name)
	}
	return strings.Join(texts, ", ")
}

// cordon reads the names that are cordoned, and the revision of the key.
func (s *inspector) cordon(ctx context.Context) (names []string, revision uint64, err error) {
	x, err := answer(ctx, s, func(ctx context.Context) (electionStatus, error) { return s.one(ctx, wire.CordonKey) })
	if err != nil {
		return nil, 0, err
	}
	if names, err = cordonOf(x); err != nil {
		err = fmt.Errorf("%w: `nats kv del %s %s` deletes it", err, s.name, wire.CordonKey)
	}
	return names, x.entry.Revision, err
}

// cordonOf returns the names in the key of the cordon. Candidates take a junk value for none.
func cordonOf(x electionStatus) ([]string, error) {
	if x.entry.Marker {
		return nil, nil
	}
	names, err := records.DecodeCordon(x.entry.Value)
	if err != nil {
		return nil, exitf(exitFailed, "key %s does not hold a cordon, so nothing is cordoned (%v)", wire.CordonKey, err)
	}
	return names, nil
}

// recordon changes the cordon. Another client may change it at the same time. change returns an error and the names
// as they were if there is nothing to change. Writing them shows whether they were the newest.
func (s *inspector) recordon(ctx context.Context, change func(names []string) ([]string, error)) ([]string, error) {
	info, err := answer(ctx, s, s.info)
	switch {
	case err != nil:
		return nil, err
	case info.Config.MaxAge > 0:
		return nil, exitf(exitFailed, "bucket %s drops its keys after %v, and a cordon with them: step the leaders down and stop their processes instead", s.name, info.Config.MaxAge)
	}
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		names, revision, err := s.cordon(ctx)
		if err != nil {
			return nil, err
		}
		names, unfit := change(names)
		slices.Sort(names)
		names = slices.Compact(names)
		value, err := records.EncodeCordon(names)
		if err != nil {
			return nil, usagef("%v; nothing was changed", err)
		}
		_, err = answer(ctx, s, func(ctx context.Context) (uint64, error) {
			return backend.Await(func(reply func(uint64, error)) {
				s.bucket.Backend().Update(ctx, wire.CordonKey, value, revision, reply)
			})
		})
		if !errors.Is(err, backend.ErrRefused) {
			return names, cmp.Or(err, unfit)
		}
		if pause > time.Second {
			return nil, exitf(exitUnreachable, "the cordon changes all the time, or the replica that answers is behind; nothing was changed")
		}
		if deadline.Sleep(ctx, pause) != nil {
			return nil, ctx.Err()
		}
	}
}

// cordonLine returns what is said of the cordon beside an election without a leader, if anything. A client that may not
// read the cordon does not see it.
func (s *inspector) cordonLine(ctx context.Context) [][]string {
	names, _, err := s.cordon(ctx)
	if err != nil || len(names) == 0 {
		return nil
	}
	return [][]string{{"Cordoned:", someNames(names) + ": these candidates do not take it (natsleader undrain)"}}
}

// cordonedNames completes the name of a cordoned candidate.
func (g *globals) cordonedNames() []string {
	return g.complete("cordoned", func(ctx context.Context, s *inspector) ([]string, error) {
		names, _, err := s.cordon(ctx)
		return slices.DeleteFunc(names, func(name string) bool { return !unquoted(name) }), err
	})
}
