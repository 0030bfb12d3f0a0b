package act

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// deleteKey deletes the key, and prints the consequences.
func (s *StepDown) deleteKey(ctx context.Context, look *inspect.Inspector, x facts.ElectionStatus) error {
	limited, cancel := s.WithTimeout(ctx)
	defer cancel()
	info, unfit := look.Bucket.Info(limited)
	if unfit != nil && !errors.Is(unfit, leader.ErrIncompatibleBucket) {
		return unfit
	}
	now := look.Clock.Now()
	who, st := s.describeNow(x, now), x.At(now)
	switch st {
	case facts.Leading, facts.Pending:
		who += ", and finds out by its next renewal"
	case facts.Foreign:
	case facts.Never, facts.Deleted, facts.Released, facts.Expired:
		return front.Exitf(front.ExitFailed, "%s: there is nothing to delete", who)
	}
	out := s.WordsOf(s.asJSON)
	out.Say("Deleting the key of %s:\n- %s.", s.Election, who)
	for _, line := range s.waits(x, info) {
		out.Say("- %s.", line)
	}
	out.Say("- Until then nobody leads.")
	if err := out.Confirm(s.Yes, "Delete it?", "nothing was deleted"); err != nil {
		return err
	}
	as, err := inspect.Answer(ctx, look, func(ctx context.Context) (facts.ElectionStatus, error) {
		return s.Remove(ctx, look, look.Bucket.Backend(), x, st, info.MaxValue)
	})
	switch {
	case err != nil:
		return err
	// It was renewed with another lease or size.
	case as.Holder.Lease != x.Holder.Lease || keeps(as, info.MaxValue) != keeps(x, info.MaxValue):
		out.Say("deleted; it was written again meanwhile:")
		for _, line := range s.waits(as, info) {
			out.Say("- %s.", line)
		}
	default:
		out.Say("deleted")
	}
	if !s.asJSON {
		return nil
	}
	done := handover{Election: s.Election, Deleted: true, Lease: as.Holder.Lease.Seconds()}
	if as.Holder.ID != "" {
		done.From = &leaderSummary{as.Holder.ID, as.Holder.Token}
	}
	return front.PrintJSON(s.Out(), done, "  ")
}

// keeps reports whether the delete marker carries the record, so that candidates
// wait for its lease. The lease of a foreign record is not known, and the largest
// records do not fit beside the marker's header. most is [leader.BucketInfo].MaxValue.
func keeps(x facts.ElectionStatus, most int) bool {
	const header = len("KV-Operation: DEL\r\n")
	return x.Holder.State != leader.HolderForeign && (most == 0 || len(x.Entry.Value)+header <= most)
}

// waits describes for how long candidates wait when the record is deleted.
func (s *StepDown) waits(x facts.ElectionStatus, info leader.BucketInfo) []string {
	lease, bound := x.Holder.Lease, max(info.MaxLease, info.TTL)
	switch {
	case keeps(x, info.MaxValue) && bound > 0 && lease > bound:
		return []string{
			fmt.Sprintf("Candidates wait for %v, the lease on record", lease),
			fmt.Sprintf("That is more than the bucket allows. If no leader has such a lease, `nats kv del %s %s` makes "+
				"candidates wait for %v instead", s.Bucket, s.Election, bound),
		}
	case keeps(x, info.MaxValue):
		return []string{fmt.Sprintf("Candidates wait for %v, the lease on record", lease)}
	case bound == 0:
		return []string{"Candidates wait for as long as their own lease: the bucket bounds none"}
	case lease > bound:
		return []string{
			fmt.Sprintf("Candidates wait for %v, the longest lease that the bucket allows", bound),
			fmt.Sprintf("The lease on record is %v, and the record is too large for the marker to keep: "+
				"the old leader may lead beside the next", lease),
		}
	}
	return []string{fmt.Sprintf("Candidates wait for %v, the longest lease that the bucket allows", bound)}
}

// Remove deletes the key if only renewals have changed it since it was shown. The
// answer to a prompt takes a while, and the operator does not mean a leader that was
// elected by then. remove returns the record that it has deleted.
func (s *StepDown) Remove(
	ctx context.Context, look *inspect.Inspector, bucket backend.Store, shown facts.ElectionStatus, as facts.State, most int,
) (facts.ElectionStatus, error) {
	for {
		x, err := look.One(ctx, s.Election)
		if err != nil {
			return x, err
		}
		now := look.Clock.Now()
		if x.Holder.ID != shown.Holder.ID || x.Holder.Token != shown.Holder.Token || x.At(now) != as {
			return x, front.Exitf(front.ExitFailed, "%s by now; nothing was deleted", s.describeNow(x, now))
		}
		var body []byte
		if keeps(x, most) {
			body = x.Entry.Value
		}
		marked := make(chan error, 1)
		bucket.Mark(ctx, s.Election, body, x.Entry.Revision, func(_ uint64, err error) { marked <- err })
		switch err = <-marked; {
		case errors.Is(err, leader.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
			return x, fmt.Errorf("it is not known whether the key was deleted: %w", err)
		case !errors.Is(err, backend.ErrRefused):
			return x, err
		}
		const soon = 20 * time.Millisecond
		select { // it was renewed meanwhile, or a replica that lags was read
		case <-time.After(soon):
		case <-ctx.Done():
			return x, fmt.Errorf("%w: the key changes too fast to be deleted: %w", leader.ErrUnreachable, ctx.Err())
		}
	}
}

// describeNow describes the current holder of the key.
func (s *StepDown) describeNow(x facts.ElectionStatus, now time.Time) string {
	id := front.Printable(x.Holder.ID)
	switch x.At(now) {
	case facts.Leading:
		return fmt.Sprintf("%s leads %s with token %d", id, s.Election, x.Holder.Token)
	case facts.Pending:
		return id + " holds the key of " + s.Election + " without leading yet"
	case facts.Foreign:
		return "the key of " + s.Election + " holds something that natsleader did not write"
	case facts.Never, facts.Deleted, facts.Released, facts.Expired:
	}
	return "nobody leads " + s.Election
}
