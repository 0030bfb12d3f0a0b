package judge

import (
	"cmp"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// Code names what is wrong with an election or a group: for programs, for the label of a metric, and as the key of the
// table of remedies.
type Code string

// The codes.
const (
	BucketGone     Code = "bucket_gone"
	BucketSilent   Code = "bucket_silent"
	MayLead        Code = "may_lead"
	KeyForeign     Code = "foreign"
	LeaseOver      Code = "expired"
	KeyDeleted     Code = "deleted"
	NoteUnread     Code = "note_unread"
	GroupUnread    Code = "group_unread"
	GroupEmpty     Code = "group_empty"
	ShardsUnowned  Code = "shards_unowned"
	NoAssigner     Code = "no_assigner"
	ShardsNotBegun Code = "shards_not_begun"
	WorkLate       Code = "work_late"
	OtherPrograms  Code = "programs_differ"
)

// remedies say for each code what to do, which heading of docs/runbook.md says more, and how much attention it needs. Codes
// that are common concern the whole bucket, so they do not name the owner of the election.
var remedies = map[Code]struct {
	do, entry string
	trouble   Trouble
	common    bool
}{
	BucketGone:     {"make the bucket again", "bucket-deleted", TroubleDeleted, true},
	BucketSilent:   {"bring back a majority of the servers, or the server that is cut off", "natsleadernomajority", TroubleUnknown, true},
	MayLead:        {"wait for that", "bucket-deleted", TroubleUnknown, true},
	KeyForeign:     {"stop the program that writes to the key, and keep nothing else in the bucket; start its candidates: they take the key one lease after the last write", "natsleaderfaulted", TroubleForeign, false},
	LeaseOver:      {"start its candidates; if they run, see their logs, and whether the servers have room: one whose disk was full refuses writes until it is restarted", "natsleadernoleader", TroubleExpired, false},
	KeyDeleted:     {"start its candidates; if they run, see their logs", "natsleadernoleader", TroubleDeleted, false},
	NoteUnread:     {"look as a user with the right to read its note, which says whether the election is that of a one-shot job", "natsleadernoleader", TroubleUnknown, false},
	GroupUnread:    {"natsleader status", "", TroubleUnknown, true},
	GroupEmpty:     {"start its members, or update natsleader; let no other program write its keys", "natsleadershardsunowned", TroubleExpired, false},
	ShardsUnowned:  {"start its members; if they run, see their logs, and whether the servers have room", "natsleadershardsunowned", TroubleExpired, false},
	NoAssigner:     {"look again after a lease; if it stays, see the logs of the members: they may not be allowed to write", "natsleadershardsnoassigner", TroubleExpired, false},
	ShardsNotBegun: {"see in the logs of these members what hangs, or which guard cannot be raised, and restart them", "natsleadershardsnotbegun", TroubleExpired, false},
	WorkLate:       {"see in the logs of these members what hangs, and restart them", "natsleadershardsnotreleased", TroubleExpired, false},
	OtherPrograms:  {"give each application a group with a name of its own; if they are one application, wait until its deployment is over, or let all set the same Config.Program", "natsleadershardsprogramsdiffer", TroubleExpired, false},
}

// runbook is the page of which each entry has a heading.
const runbook = "https://github.com/natsleader/natsleader/blob/main/docs/runbook.md#"

// trouble is the finding with this code.
func (s Severity) trouble(c Code, format string, args ...any) Finding {
	r := remedies[c]
	f := s.of(format, args...).advise(r.do)
	if f.Code = c; r.entry != "" {
		f.Runbook = runbook + r.entry
	}
	return f
}

// Trouble is how much attention an election or a group needs, the most first.
type Trouble int

// The kinds of trouble, the worst first. The page's table.js has the same order.
const (
	TroubleUnknown Trouble = iota // what was read last may be over, and there is no newer answer
	TroubleForeign                // the key holds something that natsleader did not write
	TroubleExpired                // the leader died, or cannot write; or shards have no owner, or their work hangs
	TroubleDeleted                // the record of the last term is gone, and no candidate has taken the key
	TroublePending
	TroubleNone
	TroubleIdle // given up in order, and no candidate wants it
)

// TroubleOf is the attention for a finding about an election in this state.
func TroubleOf(f Finding, state facts.State) Trouble {
	switch {
	case f.Code == NoAssigner && f.Severity < Warning:
		return TroublePending
	case f.Code != "":
		return remedies[f.Code].trouble
	case state == facts.Leading:
		return TroubleNone
	case state == facts.Pending:
		return TroublePending
	}
	return TroubleIdle
}

// Around is what is known of the bucket when an election or a group is judged.
type Around struct {
	Now     time.Time     // by the server's clock
	Silent  bool          // the bucket does not answer: a lease is believed until its end
	Lost    bool          // there is no connection, which is why
	Gone    bool          // the bucket is gone
	Expires bool          // the keys of the bucket do: one that was given up in order looks like one that was deleted
	Lease   time.Duration // of candidates, where the key does not tell; 0: the default

	Cordoned []facts.Text // candidates and hosts that take nothing
	Denied   []facts.Text // candidates that wait, where none else does: their last writes were denied
}

// Election judges an election that is seen in a state. A finding without a code is that it needs nothing. Trouble that a
// candidate which waits would end within a lease is a note until then.
func Election(x facts.ElectionStatus, state facts.State, in Around) Finding {
	f := fine("")
	since, wait := x.Since(state), x.KeptLease()
	if state == facts.Deleted {
		wait = max(wait, cmp.Or(in.Lease, wire.DefaultLease))
	}
	switch {
	case !x.MayLead.IsZero():
		what := "key"
		if in.Gone {
			what = "bucket"
		}
		f = Critical.trouble(MayLead, "the %s is gone, and a leader may lead until %s", what, x.MayLead.UTC().Format("2006-01-02 15:04:05 UTC"))
		if in.Gone {
			f.Advice += ", and " + remedies[BucketGone].do
		}
	case in.Silent && state.Held() && x.Remaining(in.Now) <= 0:
		f = in.silent("the lease of %v is over by what was read last", facts.Text(x.Holder.ID))
	case state == facts.Foreign:
		f = Warning.trouble(KeyForeign, "the key holds something that natsleader did not write")
	case state == facts.Deleted && x.Note.OneShot:
	case state == facts.Deleted && in.Gone:
		f = Critical.trouble(BucketGone, "the bucket is gone, and every lease in it is over")
	case state == facts.Deleted && in.Expires:
	case state == facts.Deleted && x.Note.Unread != "":
		f = Unknown.trouble(NoteUnread, "the key was deleted or has expired. That is well for a one-shot job, and its note, which says whether it is one, was not read: %s", x.Note.Unread)
		if x.Note.Unread == facts.DamagedNote {
			f = f.advise("natsleader note " + facts.Text(x.Election).String() + " --remove, or write it anew, with --one-shot for such a job")
		}
	case state == facts.Deleted:
		f = Warning.trouble(KeyDeleted, "the key was deleted or has expired")
		if _, _, ofGroup := group.NameOf(x.Election); !ofGroup {
			f.Advice += "; for a job that runs once in a while: natsleader note " + facts.Text(x.Election).String() + " --one-shot"
		}
	case state == facts.Expired:
		f = Warning.trouble(LeaseOver, "%v has not renewed its lease: %s", facts.Text(x.Holder.ID), Silence)
	}
	if f.Since = since; f.Severity >= Unknown && state.Held() {
		f.Since = x.Expires()
	}
	if (f.Code == LeaseOver || f.Code == KeyDeleted) && in.Now.Sub(f.Since) <= wait {
		f.Severity, f.Advice = Note, "look again after its lease of "+wait.String()+"; if it stays, "+f.Advice
	}
	if f.Code == LeaseOver || f.Code == KeyDeleted {
		f = f.cordoned(in.Cordoned)
		if len(in.Denied) > 0 {
			f.Advice, f.Runbook = "let "+Some(in.Denied)+" write the key: their last writes were denied", runbook+"permissions-revoked"
			if f.Code == LeaseOver { // it announces nothing while the newest record is its own
				f.Advice += "; " + facts.Text(x.Holder.ID).String() + ", whose lease it was, is not in the roster, and may be denied as well"
			}
		}
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

// silent is the finding about what may have been renewed since it was read.
func (in Around) silent(format string, args ...any) Finding {
	f := Unknown.trouble(BucketSilent, format+", and the bucket does not answer", args...)
	if in.Lost {
		f.Text = fmt.Sprintf(format+", and there is no connection", args...)
		f = f.advise("look at the error of the connection; others may see the bucket")
	}
	return f
}

// cordoned puts before the advice of a finding that candidates which are cordoned take nothing.
func (f Finding) cordoned(names []facts.Text) Finding {
	if len(names) > 0 {
		f.Advice = "natsleader undrain " + join(names) + ", if its candidates are there: they take nothing while they are cordoned; otherwise " + f.Advice
	}
	return f
}

// lostMap is what to do about a map of a group that is gone.
const lostMap = "look again after a lease: the assigner writes it anew; if it does not, or it goes again, see doctor: a TTL of the bucket or another client removes keys of the group, or they are of a later version"

// Silence is why a leader does not renew its lease.
const Silence = "it has died, hangs, or cannot write to the bucket"

// Group judges a group by its members and the owners of its shards. It returns what is wrong, the worst first.
func Group(name string, view shard.View, in Around) (found []Finding) {
	shards, lives := len(view.Owners), Living(view)
	states := make(map[string][]facts.Text) // the members, by state
	for _, m := range view.Members {
		st := facts.MemberState(m)
		states[st] = append(states[st], facts.Text(m.ID))
	}
	gone, left := states[facts.MemberGone], states[facts.MemberLeft]
	switch {
	case in.Gone:
		return []Finding{Critical.trouble(BucketGone, "the bucket is gone")}
	case in.Silent && (lives == 0 || len(gone) > 0): // which may have renewed their leases
		return []Finding{in.silent("leases of members are over by what was read last")}
	case shards == 0 && view.Assigner.State == leader.HolderPending:
		return []Finding{Unknown.trouble(GroupUnread, "no map of the group is there yet: %s holds the key of its assigner, and its members wait until no other lease can be valid", facts.Text(view.Assigner.ID)).advise(lostMap)}
	case shards == 0 && view.Assigner.State == leader.HolderLeading:
		return []Finding{Unknown.trouble(GroupUnread, "the map of the group is not there or cannot be read, so the owners of its shards are not known, and work on: %s assigns them", facts.Text(view.Assigner.ID)).advise(lostMap)}
	case shards == 0:
		return []Finding{Warning.trouble(GroupEmpty, "no member has joined it, or its map is gone or of another version or program")}
	case lives == 0 && len(gone) == 0: // all have left in order
		return nil
	case lives == 0:
		return []Finding{Warning.trouble(ShardsUnowned, "no member lives; these are gone: %s", Some(gone))}
	}
	switch key := facts.Text(group.AssignerKey(name)).String(); view.Assigner.State { //nolint:exhaustive // no other leads
	case leader.HolderLeading:
		if lost := len(view.Lost); lost > 0 {
			f := Unknown.trouble(GroupUnread, "the map of %d of %d shards is not there or cannot be read, so their owners are not known, and work on: %s", lost, shards, cut(group.Ranges(view.Lost)))
			found = append(found, f.advise(lostMap))
		}
	case leader.HolderForeign:
		found = append(found, Warning.trouble(KeyForeign, "%s holds something that natsleader did not write, so no shard moves", key))
	default:
		f := Warning.trouble(NoAssigner, "no member is the assigner, so no shard moves")
		f.Advice += " " + key
		found = append(found, f)
	}
	if none := facts.Unowned(view); len(none) > 0 {
		text := fmt.Sprintf("%d of %d shards have no owner: %s", len(none), shards, cut(group.Ranges(none)))
		if len(gone) > 0 {
			text += "; these members are gone: " + Some(gone)
		}
		if len(left) > 0 {
			text += "; these have left: " + Some(left)
		}
		found = append(found, Warning.trouble(ShardsUnowned, "%s", text).advise(remedy(view)))
	}
	if works := facts.NotBegun(view); len(works) > 0 {
		found = append(found, Warning.trouble(ShardsNotBegun, "shards are granted, and their owners have not begun the work: %s", worksText(works)))
	}
	if works := facts.LateWork(view, -1); len(works) > 0 {
		found = append(found, Warning.trouble(WorkLate, "work goes on after its GracePeriod: %s", worksText(works)))
	}
	if text := programs(view); text != "" {
		found = append(found, Warning.trouble(OtherPrograms, "members are of different programs: %s", text))
	}
	if drained := states[facts.MemberDrained]; len(drained) > 0 {
		found = append(found, Note.of("these members are drained: %s", Some(drained)).advise("natsleader undrain "+join(drained)))
	}
	return found
}

// WithAssigner is the worst about a group of which the election of the assigner is known, too: that knows whether the
// bucket answers, and why there is no assigner. One that is about to be followed is no trouble yet.
func WithAssigner(is, assigner Finding) Finding {
	switch {
	case remedies[assigner.Code].common, assigner.Code == KeyForeign, is.Code == "":
		return assigner
	case is.Code != NoAssigner:
		return is
	case assigner.Code == "":
		is.Severity = Note
		return is
	}
	assigner.Text, assigner.Runbook = is.Text+": "+assigner.Text, is.Runbook
	return assigner
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
func UnreadGroup(name, why string) Finding {
	f := Unknown.trouble(GroupUnread, "%s", why)
	f.Advice += " " + facts.Text(name).String()
	return f
}

// Worst returns the first of the worst findings with a code, or a finding that all is well.
func Worst(found []Finding) Finding {
	worst := fine("")
	for _, f := range found {
		if f.Severity > worst.Severity && f.Code != "" {
			worst = f
		}
	}
	return worst
}
