package judge

import (
	"fmt"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// Code names what is wrong with an election or a group: for programs, for the label of a metric, and as the key of the
// table of advice.
type Code string

// The codes.
const (
	BucketGone     Code = "bucket_gone"
	BucketSilent   Code = "bucket_silent"
	KeyForeign     Code = "foreign"
	LeaseOver      Code = "expired"
	KeyDeleted     Code = "deleted"
	GroupUnread    Code = "group_unread"
	GroupEmpty     Code = "group_empty"
	ShardsUnowned  Code = "shards_unowned"
	NoAssigner     Code = "no_assigner"
	ShardsNotBegun Code = "shards_not_begun"
	WorkLate       Code = "work_late"
)

// remedies say for each code what to do, and which heading of docs/runbook.md says more. The owner of an election has no
// part in what is common to all of the bucket.
var remedies = map[Code]struct {
	do, entry string
	common    bool
}{
	BucketGone:     {"make the bucket again", "bucket-deleted", true},
	BucketSilent:   {"bring back a majority of the servers, or the server that is cut off", "natsleadernomajority", true},
	KeyForeign:     {"stop the program that writes to the key, and keep nothing else in the bucket; candidates take the key one lease after the last write", "natsleaderfaulted", false},
	LeaseOver:      {"start its candidates; if they run, see their logs, and whether the servers have room: one whose disk was full refuses writes until it is restarted", "natsleadernoleader", false},
	KeyDeleted:     {"start its candidates; those that run take the key one lease later; for the election of a job that runs once in a while: natsleader note ELECTION --one-shot", "natsleadernoleader", false},
	GroupUnread:    {"see its error: natsleader status GROUP", "", true},
	GroupEmpty:     {"start its members, and let no other program write its keys", "natsleadershardsunowned", false},
	ShardsUnowned:  {"", "natsleadershardsunowned", false}, // see Remedy
	NoAssigner:     {"look again after a lease; if it stays, see the logs of the members: they may not be allowed to write the key of the assigner", "natsleadershardsnoassigner", false},
	ShardsNotBegun: {"see in the logs of these members what hangs, or which guard cannot be raised, and restart them", "natsleadershardsnotbegun", false},
	WorkLate:       {"see in the logs of these members what hangs, and restart them", "natsleadershardsnotreleased", false},
}

// Runbook is the page of which each entry has a heading.
const Runbook = "https://github.com/natsleader/natsleader/blob/main/docs/runbook.md#"

// trouble is the finding with this code.
func (s Severity) trouble(c Code, format string, args ...any) Finding {
	r := remedies[c]
	f := s.of(format, args...).advise(r.do)
	if f.Code = c; r.entry != "" {
		f.Runbook = Runbook + r.entry
	}
	return f
}

// Trouble is how much attention an election or a group needs, the most first.
type Trouble int

// The kinds of trouble, the worst first. The page's table.js has the same order.
const (
	TroubleUnknown Trouble = iota // the lease is over by what is known, and the bucket does not answer or is gone
	TroubleForeign                // the key holds something that natsleader did not write
	TroubleExpired                // the leader died, or cannot write; or shards have no owner, or their work hangs
	TroubleDeleted                // the record of the last term is gone, and no candidate has taken the key
	TroublePending
	TroubleNone
	TroubleIdle // given up in order, and no candidate wants it
)

// TroubleOf is the attention for a finding about an election in this state.
func TroubleOf(f Finding, state facts.State) Trouble {
	switch f.Code {
	case BucketGone, BucketSilent, GroupUnread:
		if state == facts.Deleted { // every lease is over
			return TroubleDeleted
		}
		return TroubleUnknown
	case KeyForeign:
		return TroubleForeign
	case KeyDeleted:
		return TroubleDeleted
	case LeaseOver, GroupEmpty, ShardsUnowned, NoAssigner, ShardsNotBegun, WorkLate:
		return TroubleExpired
	}
	switch state { //nolint:exhaustive // the others need no leader
	case facts.Leading:
		return TroubleNone
	case facts.Pending:
		return TroublePending
	}
	return TroubleIdle
}

// Around is what is known of the bucket when one of its elections is judged.
type Around struct {
	Now    time.Time // by the server's clock
	Silent bool      // the bucket does not answer, so that only a lease is believed, until its end
	Gone   bool      // the bucket is gone
}

// Election judges an election that is seen in a state. Without a code all is well, or nothing can be done yet.
func Election(x facts.ElectionStatus, state facts.State, in Around) Finding {
	f := fine("")
	f.Since = x.Since(state)
	since := f.Since
	switch {
	case !x.MayLead.IsZero():
		f = Critical.trouble(BucketGone, "the bucket is gone, and a leader may lead until %s", x.MayLead.UTC().Format("2006-01-02 15:04:05 UTC"))
		f.Advice = "wait for that, and " + f.Advice
	case in.Silent && state.Held() && x.Remaining(in.Now) <= 0:
		f = Unknown.trouble(BucketSilent, "the lease of %v is over by what was read last, and the bucket does not answer", facts.Text(x.Holder.ID))
	case state == facts.Foreign:
		f = Warning.trouble(KeyForeign, "the key holds something that natsleader did not write")
	case state == facts.Deleted && x.Idle():
	case state == facts.Deleted && in.Gone:
		f = Critical.trouble(BucketGone, "the bucket is gone, and every lease in it is over")
	case state == facts.Deleted:
		f = Warning.trouble(KeyDeleted, "the key was deleted or has expired")
	case state == facts.Expired:
		f = Warning.trouble(LeaseOver, "%v has not renewed its lease: %s", facts.Text(x.Holder.ID), Silence)
	}
	if f.Since = since; f.Severity >= Unknown && state.Held() {
		f.Since = x.Expires()
	}
	if f.Code != "" && !remedies[f.Code].common {
		if x.Note.Owner != "" {
			f.Advice += "; its owner is " + facts.Text(x.Note.Owner).String()
		}
		if x.Note.Runbook != "" {
			f.Runbook = x.Note.Runbook
		}
	}
	return f
}

// Silence is why a leader does not renew its lease.
const Silence = "it has died, hangs, or cannot write to the bucket"

// Group judges a group by its members and the owners of its shards. It returns what is wrong, the worst first.
func Group(view shard.View) (found []Finding) {
	shards := len(view.Owners)
	if shards == 0 {
		return []Finding{Warning.trouble(GroupEmpty, "no member has joined it, or its map is of another version or program")}
	}
	states := make(map[string][]facts.Text) // the members, by state
	for _, m := range view.Members {
		st := facts.MemberState(m)
		states[st] = append(states[st], facts.Text(m.ID))
	}
	gone, left := states[facts.MemberGone], states[facts.MemberLeft]
	lives := Living(view)
	if lives == 0 && len(gone) == 0 { // all have left in order
		return nil
	}
	if lives == 0 {
		f := Warning.trouble(ShardsUnowned, "no member lives; these are gone: %s", Some(gone))
		return []Finding{f.advise("start its members")}
	}
	var none []int
	for i, o := range view.Owners {
		if !facts.Owned(o) {
			none = append(none, i)
		}
	}
	if len(none) > 0 {
		text := fmt.Sprintf("%d of %d shards have no owner: %s", len(none), shards, cut(group.Ranges(none)))
		if len(gone) > 0 {
			text += "; these members are gone: " + Some(gone)
		}
		if len(left) > 0 {
			text += "; these have left: " + Some(left)
		}
		found = append(found, Warning.trouble(ShardsUnowned, "%s", text).advise(Remedy(view)))
	}
	if view.Assigner.State != leader.HolderLeading {
		found = append(found, Warning.trouble(NoAssigner, "no member is the assigner, so no shard moves"))
	}
	if works := facts.NotBegun(view); len(works) > 0 {
		found = append(found, Warning.trouble(ShardsNotBegun, "shards are granted, and their owners have not begun the work: %s", worksText(works)))
	}
	if works := facts.LateWork(view, -1); len(works) > 0 {
		found = append(found, Warning.trouble(WorkLate, "work goes on after its GracePeriod: %s", worksText(works)))
	}
	if drained := states[facts.MemberDrained]; len(drained) > 0 {
		found = append(found, Note.of("these members are drained: %s", Some(drained)).advise("natsleader undrain ID"))
	}
	return found
}

// Living is the number of members that are neither gone nor have left.
func Living(view shard.View) (n int) {
	for _, m := range view.Members {
		if !facts.MemberPast(facts.MemberState(m)) {
			n++
		}
	}
	return n
}

// UnreadGroup is the finding about a group that cannot be read.
func UnreadGroup(why string) Finding {
	return Unknown.trouble(GroupUnread, "%s", why)
}

// Worst returns the first of the worst findings, or a finding that all is well.
func Worst(found []Finding) Finding {
	worst := fine("")
	for _, f := range found {
		if f.Severity > worst.Severity && f.Code != "" {
			worst = f
		}
	}
	return worst
}
