package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// deleteKey deletes the key, and prints the consequences.
func (s *stepDown) deleteKey(ctx context.Context, look *inspector, x electionStatus) error {
	limited, cancel := s.withTimeout(ctx)
	defer cancel()
	info, unfit := look.bucket.Info(limited)
	if unfit != nil && !errors.Is(unfit, leader.ErrIncompatibleBucket) {
		return unfit
	}
	now := look.clock.now()
	who, st := s.describeNow(x, now), x.at(now)
	switch st {
	case stateLeading, statePending:
		who += ", and finds out by its next renewal"
	case stateForeign:
	case stateNever, stateDeleted, stateReleased, stateExpired:
		return exitf(exitFailed, "%s: there is nothing to delete", who)
	}
	out := s.wordsOf(s.asJSON)
	out.say("Deleting the key of %s:\n- %s.", s.election, who)
	for _, line := range s.waits(x, info) {
		out.say("- %s.", line)
	}
	out.say("- Until then nobody leads.")
	if err := out.confirm(s.yes, "Delete it?", "nothing was deleted"); err != nil {
		return err
	}
	as, err := answer(ctx, look, func(ctx context.Context) (electionStatus, error) {
		return s.remove(ctx, look, look.bucket.Backend(), x, st, info.MaxValue)
	})
	switch {
	case err != nil:
		return err
	// It was renewed with another lease or size.
	case as.holder.Lease != x.holder.Lease || keeps(as, info.MaxValue) != keeps(x, info.MaxValue):
		out.say("deleted; it was written again meanwhile:")
		for _, line := range s.waits(as, info) {
			out.say("- %s.", line)
		}
	default:
		out.say("deleted")
	}
	if !s.asJSON {
		return nil
	}
	done := handover{Election: s.election, Deleted: true, Lease: as.holder.Lease.Seconds()}
	if as.holder.ID != "" {
		done.From = &leaderSummary{as.holder.ID, as.holder.Token}
	}
	return printJSON(s.out(), done, "  ")
}

// keeps reports whether the delete marker carries the record, so that candidates
// wait for its lease. The lease of a foreign record is not known, and the largest
// records do not fit beside the marker's header. most is [leader.BucketInfo].MaxValue.
func keeps(x electionStatus, most int) bool {
	const header = len("KV-Operation: DEL\r\n")
	return x.holder.State != leader.HolderForeign && (most == 0 || len(x.entry.Value)+header <= most)
}

// waits describes for how long candidates wait when the record is deleted.
func (s *stepDown) waits(x electionStatus, info leader.BucketInfo) []string {
	lease, bound := x.holder.Lease, max(info.MaxLease, info.TTL)
	switch {
	case keeps(x, info.MaxValue) && bound > 0 && lease > bound:
		return []string{
			fmt.Sprintf("Candidates wait for %v, the lease on record", lease),
			fmt.Sprintf("That is more than the bucket allows. If no leader has such a lease, `nats kv del %s %s` makes "+
				"candidates wait for %v instead", s.bucket, s.election, bound),
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

// remove deletes the key if only renewals have changed it since it was shown. The
// answer to a prompt takes a while, and the operator does not mean a leader that was
// elected by then. remove returns the record that it has deleted.
func (s *stepDown) remove(
	ctx context.Context, look *inspector, bucket backend.Store, shown electionStatus, as state, most int,
) (electionStatus, error) {
	for {
		x, err := look.one(ctx, s.election)
		if err != nil {
			return x, err
		}
		now := look.clock.now()
		if x.holder.ID != shown.holder.ID || x.holder.Token != shown.holder.Token || x.at(now) != as {
			return x, exitf(exitFailed, "%s by now; nothing was deleted", s.describeNow(x, now))
		}
		var body []byte
		if keeps(x, most) {
			body = x.entry.Value
		}
		marked := make(chan error, 1)
		bucket.Mark(ctx, s.election, body, x.entry.Revision, func(_ uint64, err error) { marked <- err })
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
func (s *stepDown) describeNow(x electionStatus, now time.Time) string {
	id := printable(x.holder.ID)
	switch x.at(now) {
	case stateLeading:
		return fmt.Sprintf("%s leads %s with token %d", id, s.election, x.holder.Token)
	case statePending:
		return id + " holds the key of " + s.election + " without leading yet"
	case stateForeign:
		return "the key of " + s.election + " holds something that natsleader did not write"
	case stateNever, stateDeleted, stateReleased, stateExpired:
	}
	return "nobody leads " + s.election
}
