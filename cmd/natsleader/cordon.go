package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

const cordonHelp = `A cordoned candidate takes no key of the bucket until uncordon, also after a restart of
its process. It keeps a key that it holds: drain NAME --cordon ends its terms, too. A name
is an ID, or the host of candidates that were given no ID, as for drain. Without a name
it shows who is cordoned.

Candidates that may not read the key natsleader.cordon of the bucket heed no cordon. A
process that is cut off sees a change when it is connected again. If all candidates
of an election are cordoned, nobody leads it. A bucket takes 64 names at most.

Members of groups are not concerned: drain NAME --cordon drains these, too.

The exit code is 1 if the bucket has a TTL, which would end the cordon.

  natsleader cordon "$(hostname)"
  natsleader cordon`

const uncordonHelp = `A candidate that waits for a free key takes it at once. Drained members of groups with
that ID, or on that host, take shards again.

The exit code is 1 if a name is not cordoned, and then nothing is changed.

  natsleader uncordon "$(hostname)"`

// cordoning is a change of the bucket's cordon.
type cordoning struct {
	*globals
	names  []string
	asJSON bool
}

func registerCordon(app *fisk.Application, g *globals) {
	c := &cordoning{globals: g}
	flag := func(cmd *fisk.CmdClause, run func(context.Context, *inspector) error) {
		cmd.Flag("json", "Print the names that are cordoned then as JSON").Short('j').UnNegatableBoolVar(&c.asJSON)
		cmd.Action(func(*fisk.ParseContext) error { return g.inspectBucket(run) })
	}
	add := app.Command("cordon", "Keep candidates from taking elections").HelpLong(cordonHelp)
	add.Arg("name", "ID or host; without one, show who is cordoned").HintAction(g.leaderIDs).StringsVar(&c.names)
	flag(add, c.add)
	remove := app.Command("uncordon", "Let cordoned candidates take elections again").HelpLong(uncordonHelp)
	remove.Arg("name", "ID or host").Required().HintAction(g.cordonedNames).StringsVar(&c.names)
	flag(remove, c.remove)
}

func (c *cordoning) add(ctx context.Context, look *inspector) error {
	if len(c.names) == 0 {
		names, _, err := look.cordon(ctx)
		lines := []string{"nothing is cordoned in bucket " + c.bucket}
		if len(names) > 0 {
			lines = printableNames(names)
		}
		if err != nil {
			return err
		}
		return c.print(names, lines)
	}
	names, err := look.recordon(ctx, func(names []string) ([]string, error) { return append(names, c.names...), nil })
	if err != nil {
		return err
	}
	return c.print(names, []string{"cordoned in bucket " + c.bucket + ": " + someNames(c.names)})
}

func (c *cordoning) remove(ctx context.Context, look *inspector) error {
	names, err := look.recordon(ctx, func(names []string) ([]string, error) {
		for _, name := range c.names {
			if !slices.Contains(names, name) {
				return names, exitf(exitFailed, "%s is not cordoned in bucket %s; nothing was changed", printable(name), c.bucket)
			}
		}
		return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(c.names, name) }), nil
	})
	if err != nil {
		return err
	}
	lines, err := c.undrainMembers(ctx, look)
	return cmp.Or(err, c.print(names, append([]string{"no longer cordoned: " + someNames(c.names)}, lines...)))
}

func (c *cordoning) print(names, lines []string) error {
	return printResult(c.out(), c.asJSON, map[string]any{"bucket": c.bucket, "cordoned": append([]string{}, names...)}, lines)
}

func someNames(names []string) string { return strings.Join(printableNames(names), ", ") }

func printableNames(names []string) (texts []string) {
	for _, name := range names {
		texts = append(texts, printable(name))
	}
	return texts
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
	return [][]string{{"Cordoned:", someNames(names) + ": these candidates do not take it (natsleader uncordon)"}}
}

// cordonedNames completes the name of a cordoned candidate.
func (g *globals) cordonedNames() []string {
	return g.complete("cordoned", func(ctx context.Context, s *inspector) ([]string, error) {
		names, _, err := s.cordon(ctx)
		return slices.DeleteFunc(names, func(name string) bool { return !unquoted(name) }), err
	})
}
