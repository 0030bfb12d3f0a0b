package bucket

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/internal/wire"
)

const bucketRemoveHelp = `It deletes the bucket with its roster, and asks for confirmation. Where standard input is
no terminal, --yes must be given. The history stays without --history, and goes on when
the bucket is made again.

It refuses while a candidate leads an election of the bucket, or holds its key: stop the
candidates first. A leader that is cut off from NATS goes on until its lease is over,
and nothing remembers that when the bucket is made again.

The exit code is 1 if it refuses or the answer is no, 64 if --yes is missing, and 78 if
there is no such bucket, or natsleader has not made it.

  natsleader bucket rm old
  natsleader bucket rm old --history --yes`

type bucketRemoval struct {
	*front.Globals
	force, yes, history, asJSON bool
}

func registerBucketRemove(bucket *fisk.CmdClause, g *front.Globals) {
	r := &bucketRemoval{Globals: g}
	var name string
	cmd := bucket.Command("rm", "Delete a bucket").Alias("delete").HelpLong(bucketRemoveHelp)
	cmd.Arg("name", "Name of the bucket").Required().HintAction(func() []string { return inspect.BucketNames(g) }).StringVar(&name)
	cmd.Flag("force", "Also while elections are led, or if natsleader has not made the bucket").UnNegatableBoolVar(&r.force)
	cmd.Flag("history", "Delete also what natsleader history shows").UnNegatableBoolVar(&r.history)
	cmd.Flag("yes", "Do not ask for confirmation").Short('y').UnNegatableBoolVar(&r.yes)
	cmd.Flag("json", "Print the outcome as JSON").Short('j').UnNegatableBoolVar(&r.asJSON)
	cmd.Action(func(*fisk.ParseContext) error {
		g.Bucket = name
		if !r.yes && !r.CanAsk() {
			return front.Usagef("bucket rm needs --yes where it cannot ask: standard input is no terminal; nothing was deleted")
		}
		return inspect.Do(r.Globals, r.run)
	})
}

func (r *bucketRemoval) run(ctx context.Context, s *inspect.Inspector) error {
	var found []*jetstream.StreamInfo
	var all []facts.ElectionStatus
	err := s.Within(ctx, func(ctx context.Context) (err error) {
		if found, err = r.streams(ctx, s.Js); err != nil || !r.has(found) {
			return err
		}
		s.Clock = inspect.NewServerClock(found[0].TimeStamp, 0)
		if all, err = s.All(ctx); r.force && err != nil {
			all, err = nil, nil // a bucket that cannot be read can be deleted
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return front.Exitf(front.ExitBucket, "bucket %s does not exist; nothing was deleted", r.Bucket)
	}
	now := s.Clock.Now()
	led := slices.DeleteFunc(slices.Clone(all), func(x facts.ElectionStatus) bool { return !x.At(now).Taken() })
	if len(led) > 0 && !r.force {
		return front.Exitf(front.ExitFailed, "bucket %s is in use: %s: stop the candidates, or delete it all the same with --force; nothing was deleted", r.Bucket, describeLed(led))
	}
	out := r.WordsOf(r.asJSON)
	r.announce(out, found, len(all), led)
	if err = out.Confirm(r.yes, "Delete it?", "nothing was deleted"); err != nil {
		return err
	}
	return r.remove(ctx, s, found)
}

// has reports whether the first of the streams is the bucket itself. It may be gone, and its
// roster or history left.
func (r *bucketRemoval) has(found []*jetstream.StreamInfo) bool {
	return len(found) > 0 && found[0].Config.Name == "KV_"+r.Bucket
}

// streams returns those of the streams of the bucket that exist: itself, its roster and, if
// that was asked for, its history. Streams of these names that belong to something else are not among them.
func (r *bucketRemoval) streams(ctx context.Context, js jetstream.JetStream) ([]*jetstream.StreamInfo, error) {
	var found []*jetstream.StreamInfo
	for _, x := range []struct{ stream, key, value string }{
		{"KV_" + r.Bucket, "", ""},
		{"KV_" + wire.RosterName(r.Bucket), wire.RosterOfKey, r.Bucket},
		{facts.HistoryStream(r.Bucket), inspect.HistoryOfKey, r.Bucket},
	} {
		if x.key == inspect.HistoryOfKey && !r.history {
			continue
		}
		stream, err := js.Stream(ctx, x.stream)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			continue
		case err != nil:
			return nil, err
		}
		info := stream.CachedInfo()
		m := info.Config.Metadata
		switch _, own := m[wire.MaxLeaseKey]; {
		case x.key != "":
			if m[x.key] != x.value {
				continue
			}
		case m[wire.RosterOfKey] != "":
			return nil, front.Exitf(front.ExitBucket, "bucket %s is the roster of bucket %s, and is deleted with it; nothing was deleted", r.Bucket, front.Printable(m[wire.RosterOfKey]))
		case !own && !r.force:
			return nil, front.Exitf(front.ExitBucket, "natsleader has not made bucket %s: `nats kv del %s` deletes it, or --force here; nothing was deleted", r.Bucket, r.Bucket)
		}
		found = append(found, info)
	}
	return found, nil
}

func describeLed(led []facts.ElectionStatus) string {
	if len(led) == 1 {
		return "the key of " + inspect.ShortList(led) + " is held"
	}
	return fmt.Sprintf("the keys of %d elections are held, %s", len(led), inspect.ShortList(led))
}

// announce prints what will be deleted, and the consequences.
func (r *bucketRemoval) announce(out front.Words, found []*jetstream.StreamInfo, elections int, led []facts.ElectionStatus) {
	out.Say("Deleting bucket %s, which cannot be undone:", r.Bucket)
	kept := ""
	for _, info := range found {
		switch c := info.Config; {
		case c.Metadata[inspect.HistoryOfKey] == "" && c.Metadata[wire.RosterOfKey] == "":
			out.Say("- stream %s with %s.", c.Name, front.Plural(elections, "election"))
			kept = c.Metadata[facts.HistoryKey]
		case c.Metadata[inspect.HistoryOfKey] == "":
			out.Say("- its roster in stream %s.", c.Name)
		case info.State.Msgs == 0:
			out.Say("- its history in stream %s, which is empty.", c.Name)
		default:
			out.Say("- its history in stream %s, from %s on.", c.Name, front.FormatTime(info.State.FirstTime))
		}
	}
	if kept != "" && !r.history {
		out.Say("- Its history in stream %s is kept. --history deletes that, too.", front.Printable(kept))
	}
	if len(led) > 0 {
		out.Say("- %s. A leader that is cut off goes on until its lease is over: do not make the bucket again before that.",
			strings.ToUpper(describeLed(led)[:1])+describeLed(led)[1:])
	}
}

// remove deletes the streams, the bucket first: a bucket without its roster would be half a
// bucket. If it fails on the way, the same command deletes the rest.
func (r *bucketRemoval) remove(ctx context.Context, s *inspect.Inspector, found []*jetstream.StreamInfo) error {
	gone := []string{}
	for _, info := range found {
		err := s.Within(ctx, func(ctx context.Context) error { return s.Js.DeleteStream(ctx, info.Config.Name) })
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return front.Exitf(front.CodeOf(err), "stream %s was not deleted, and %d were before it: %w", info.Config.Name, len(gone), err)
		}
		gone = append(gone, info.Config.Name)
	}
	return front.PrintResult(r.Out(), r.asJSON, struct {
		Bucket  string   `json:"bucket"`
		Deleted []string `json:"deleted_streams"`
	}{r.Bucket, gone}, []string{"deleted"})
}
