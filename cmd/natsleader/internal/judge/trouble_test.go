package judge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// key returns an election with that value in its key, which was written so long ago.
func key(value string, ago time.Duration) facts.ElectionStatus {
	return facts.NewElectionStatus("billing", backend.Entry{Revision: 7, Value: []byte(value), Created: now.Add(-ago)})
}

// record is a record of the candidate a with a lease of 15 s.
func record(state string) string {
	return fmt.Sprintf(`{"v":1,"state":%q,"id":"a","session":"s","n":1,"lease":"15s","token":1}`, state)
}

func deleted(change func(*facts.ElectionStatus)) facts.ElectionStatus {
	x := facts.NewElectionStatus("billing", backend.Entry{Revision: 8, Marker: true, Created: now.Add(-time.Minute)})
	change(&x)
	return x
}

// Whether an election is in trouble follows from its key, from the state in which it is seen, and from what is known of
// the bucket. Trouble has words and advice, and nothing else has. What a candidate that waits ends is a note for a lease.
func TestElection(t *testing.T) {
	led, over, gone := key(record("leading"), time.Second), key(record("leading"), time.Minute), deleted(func(*facts.ElectionStatus) {})
	fresh := deleted(func(x *facts.ElectionStatus) { x.Entry.Created = now.Add(-15 * time.Second) })
	may := func(x facts.ElectionStatus) facts.ElectionStatus {
		x.MayLead = now.Add(time.Minute)
		return x
	}
	answers, silent, away := judge.Around{Now: now}, judge.Around{Now: now, Silent: true}, judge.Around{Now: now, Silent: true, Gone: true}
	all := []judge.Around{answers, silent, away}
	for _, x := range []struct {
		what     string
		election facts.ElectionStatus
		state    facts.State
		in       []judge.Around
		code     judge.Code
		severity judge.Severity
		trouble  judge.Trouble
		since    time.Duration
	}{
		{"it is led", led, facts.Leading, all, "", judge.OK, judge.TroubleNone, time.Second},
		{"it is pending", key(record("pending"), time.Second), facts.Pending, all, "", judge.OK, judge.TroublePending, time.Second},
		{"it was given up", key(record("released"), time.Minute), facts.Released, all, "", judge.OK, judge.TroubleIdle, time.Minute},
		{"another program wrote the key", key("hello", time.Second), facts.Foreign, all, judge.KeyForeign, judge.Warning, judge.TroubleForeign, time.Second},
		{"the lease is over, and a candidate may follow", key(record("leading"), 30*time.Second), facts.Expired, all, judge.LeaseOver, judge.Note, judge.TroubleExpired, 15 * time.Second},
		{"the lease is over", over, facts.Expired, all, judge.LeaseOver, judge.Warning, judge.TroubleExpired, 45 * time.Second},
		{"the lease is over, and the end is not believed yet", over, facts.Leading, all[:1], "", judge.OK, judge.TroubleNone, time.Minute},
		{"the lease is over by what was read last", over, facts.Leading, all[1:], judge.BucketSilent, judge.Unknown, judge.TroubleUnknown, 45 * time.Second},
		{"the key is gone, and the holder may lead", may(led), facts.Leading, all, judge.MayLead, judge.Critical, judge.TroubleUnknown, -14 * time.Second},
		{"the key was deleted, and so was the bucket just now", may(gone), facts.Deleted, all, judge.MayLead, judge.Critical, judge.TroubleUnknown, time.Minute},
		{"the key was given up, and the bucket was deleted just now", may(key(record("released"), time.Minute)), facts.Released, all, judge.MayLead, judge.Critical, judge.TroubleUnknown, time.Minute},
		{"the key was deleted, and a candidate may follow", fresh, facts.Deleted, all[:2], judge.KeyDeleted, judge.Note, judge.TroubleDeleted, 15 * time.Second},
		{"the key was deleted, and candidates have long leases", gone, facts.Deleted, []judge.Around{{Now: now, Lease: time.Minute}}, judge.KeyDeleted, judge.Note, judge.TroubleDeleted, time.Minute},
		{"the key was deleted", gone, facts.Deleted, all[:2], judge.KeyDeleted, judge.Warning, judge.TroubleDeleted, time.Minute},
		{"the key was deleted or given up, which a TTL does not tell", gone, facts.Deleted, []judge.Around{{Now: now, Expires: true}}, "", judge.OK, judge.TroubleIdle, time.Minute},
		{"the bucket is gone", gone, facts.Deleted, all[2:], judge.BucketGone, judge.Critical, judge.TroubleDeleted, time.Minute},
		{"the key was deleted, and its note was not read", deleted(func(x *facts.ElectionStatus) { x.Note.Unread = "denied" }), facts.Deleted, all[:2], judge.NoteUnread, judge.Unknown, judge.TroubleUnknown, time.Minute},
		{"the key of a one-shot job was deleted", deleted(func(x *facts.ElectionStatus) { x.Note.OneShot = true }), facts.Deleted, all, "", judge.OK, judge.TroubleIdle, time.Minute},
	} {
		for i, in := range x.in {
			is := judge.Election(x.election, x.state, in)
			got := fmt.Sprintf("%q, %v, trouble %d, for %v", is.Code, is.Severity, judge.TroubleOf(is, x.state), now.Sub(is.Since))
			check.Equal(t, got, fmt.Sprintf("%q, %v, trouble %d, for %v", x.code, x.severity, x.trouble, x.since), fmt.Sprintf("%s, %d: %%s; want %%s", x.what, i))
			well := x.code == ""
			check.That(t, well == (is.Text == "") && well == (is.Advice == "") && well == (is.Runbook == ""), "%s, %d: %+v", x.what, i, is)
			with := x.election
			with.Note = facts.Note{Owner: "team-pay", Runbook: "https://wiki.example.com/", OneShot: x.election.Note.OneShot, Unread: x.election.Note.Unread}
			noted := judge.Election(with, x.state, in)
			part := x.code == judge.KeyForeign || x.code == judge.LeaseOver || x.code == judge.KeyDeleted || x.code == judge.NoteUnread // of its owner
			check.That(t, part == strings.HasSuffix(noted.Advice, "; its owner is team-pay") && part == (noted.Runbook == "https://wiki.example.com/"), "%s, %d: with a note %+v", x.what, i, noted)
		}
	}
	check.Equal(t, judge.TroubleOf(judge.Election(facts.ElectionStatus{}, facts.Never, answers), facts.Never), judge.TroubleIdle, "without any candidate: %d")
	for _, x := range []struct {
		election facts.ElectionStatus
		state    facts.State
		in       judge.Around
		want     string
	}{
		{may(led), facts.Leading, away, "the bucket is gone, and a leader may lead until 2026-11-28 12:01:00 UTC -> wait for that, and make the bucket again"},
		{may(led), facts.Leading, answers, "the key is gone, and a leader may lead until 2026-11-28 12:01:00 UTC -> wait for that"},
		{over, facts.Leading, silent, "the lease of a is over by what was read last, and the bucket does not answer -> bring back a majority of the servers, or the server that is cut off"},
		{over, facts.Leading, judge.Around{Now: now, Silent: true, Lost: true}, "the lease of a is over by what was read last, and there is no connection -> look at the error of the connection; others may see the bucket"},
		{over, facts.Expired, judge.Around{Now: now, Cordoned: []facts.Text{"h1", "h2"}}, "a has not renewed its lease: it has died, hangs, or cannot write to the bucket -> natsleader undrain h1 h2, if its candidates are there: they take nothing while they are cordoned; otherwise start its candidates; if they run, see their logs, and whether the servers have room: one whose disk was full refuses writes until it is restarted"},
		{over, facts.Expired, judge.Around{Now: now, Denied: []facts.Text{"b", "c"}}, "a has not renewed its lease: it has died, hangs, or cannot write to the bucket -> let b, c write the key: their last writes were denied; a, whose lease it was, is not in the roster, and may be denied as well"},
		{gone, facts.Deleted, answers, "the key was deleted or has expired -> start its candidates; if they run, see their logs; for a job that runs once in a while: natsleader note billing --one-shot"},
		{fresh, facts.Deleted, answers, "the key was deleted or has expired -> look again after its lease of 15s; if it stays, start its candidates; if they run, see their logs; for a job that runs once in a while: natsleader note billing --one-shot"},
	} {
		is := judge.Election(x.election, x.state, x.in)
		check.Equal(t, is.Text+" -> "+is.Advice, x.want, "%s; want %s")
	}
}

// peer is a member without shards.
func peer(id string, most int, drained bool) shard.Peer {
	return shard.Peer{ID: id, Most: most, Drained: drained, Holder: leader.Holder{ID: id, State: leader.HolderLeading}}
}

// What gives shards an owner depends on the members that live: one that takes shards will take them, and otherwise each
// reason why none does has its remedy.
func TestGroup_Unowned(t *testing.T) {
	for want, members := range map[string][]shard.Peer{
		"start its members; if they run, see their logs, and whether the servers have room":                    {{ID: "a", Holder: leader.Holder{State: leader.HolderExpired}}},
		"let drained members take shards again (natsleader undrain b), or start members":                       {peer("b", 0, true)},
		"raise Most of a, or start members":                                                                    {peer("a", 3, false)},
		"let drained members take shards again (natsleader undrain b c), or raise Most of a, or start members": {peer("a", 3, false), peer("b", 0, true), peer("c", 1, true)},
		"look again after the lease and the Hold of the members; if it stays, see their logs":                  {peer("a", 0, false), peer("b", 0, true)},
	} {
		is := judge.Worst(judge.Group("orders", shard.View{Assigner: leader.Holder{State: leader.HolderLeading}, Members: members, Owners: make([]shard.Owner, 1)}, judge.Around{}))
		check.Equal(t, is.Advice, want, "%q; want %q")
	}
}

// A group without a living member, or without an assigner, is judged by that first. A group that all members have left in
// order is well.
func TestGroup(t *testing.T) {
	lives, led := peer("a", 0, false), leader.Holder{State: leader.HolderLeading}
	dead, left := peer("b", 0, false), peer("c", 0, false)
	dead.Holder.State, left.Holder.State, left.Leaves = leader.HolderExpired, leader.HolderReleased, true
	late := lives
	late.Late = []int{1}
	owned := []shard.Owner{{ID: "a", State: shard.OwnerWorks}, {ID: "a", State: shard.OwnerWorks}}
	granted := []shard.Owner{{ID: "a", State: shard.OwnerGranted}, owned[0]}
	none := make([]shard.Owner, 2)
	silent, away := judge.Around{Silent: true}, judge.Around{Silent: true, Gone: true}
	dies := shard.View{Members: []shard.Peer{lives, dead, left}, Owners: []shard.Owner{owned[0], {ID: "b", State: shard.OwnerIsGone}}}
	ends := shard.View{Members: []shard.Peer{dead, left}, Owners: none}
	withAssigner := func(v shard.View) shard.View {
		v.Assigner = led
		return v
	}
	const hidden = "unknown bucket_silent leases of members are over by what was read last, and the bucket does not answer"
	for _, x := range []struct {
		view shard.View
		in   judge.Around
		want string
	}{
		{shard.View{Assigner: led, Members: []shard.Peer{lives}, Owners: owned}, silent, "ok  "},
		{shard.View{Assigner: led, Members: []shard.Peer{lives, peer("d", 0, true)}, Owners: owned}, judge.Around{}, "ok  "},
		{shard.View{Members: []shard.Peer{left}, Owners: none}, judge.Around{}, "ok  "},
		{shard.View{Assigner: leader.Holder{State: leader.HolderPending, ID: "a"}}, judge.Around{}, "unknown group_unread no map of the group is there yet: a holds the key of its assigner, and its members wait until no other lease can be valid"},
		{shard.View{Assigner: led, Members: []shard.Peer{lives}, Owners: []shard.Owner{owned[0], {}}, Lost: []int{1}}, judge.Around{}, "unknown group_unread the map of 1 of 2 shards is not there or cannot be read, so their owners are not known, and work on: 1"},
		{shard.View{Assigner: led, Members: []shard.Peer{lives}, Owners: none, Lost: []int{1}}, judge.Around{}, "unknown group_unread the map of 1 of 2 shards is not there or cannot be read, so their owners are not known, and work on: 1"},
		{shard.View{}, judge.Around{}, "warning group_empty no member has joined it, or its map is gone or of another version or program"},
		{ends, judge.Around{}, "warning shards_unowned no member lives; these are gone: b"},
		{withAssigner(dies), judge.Around{}, "warning shards_unowned 1 of 2 shards have no owner: 1; these members are gone: b; these have left: c"},
		{dies, judge.Around{}, "warning no_assigner no member is the assigner, so no shard moves"},
		{ends, silent, hidden},
		{dies, silent, hidden},
		{shard.View{}, silent, hidden},
		{dies, away, "critical bucket_gone the bucket is gone"},
		{shard.View{Members: []shard.Peer{lives}, Owners: owned}, judge.Around{}, "warning no_assigner no member is the assigner, so no shard moves"},
		{shard.View{Assigner: led, Members: []shard.Peer{late}, Owners: granted}, judge.Around{}, "warning shards_not_begun shards are granted, and their owners have not begun the work: 0 of a"},
		{shard.View{Assigner: led, Members: []shard.Peer{late}, Owners: owned}, judge.Around{}, "warning work_late work goes on after its GracePeriod: 1 of a"},
	} {
		is := judge.Worst(judge.Group("orders", x.view, x.in))
		check.Equal(t, fmt.Sprintf("%v %s %s", is.Severity, is.Code, is.Text), x.want, "%s; want %s")
		check.That(t, (is.Code == "") == (is.Advice == ""), "what to do about %s: %q", x.want, is.Advice)
	}
	is := judge.UnreadGroup("orders", "not allowed")
	check.Equal(t, fmt.Sprintf("%v %s: %s -> %s", is.Severity, is.Code, is.Text, is.Advice), "unknown group_unread: not allowed -> natsleader status orders", "%s; want %s")
}

// What is wrong with the bucket or with the key of the assigner explains what is wrong with a group. What is wrong with the
// shards does not, where members live that an assigner would use.
func TestWithAssigner(t *testing.T) {
	of := func(c judge.Code, s judge.Severity) judge.Finding {
		return judge.Finding{Code: c, Severity: s, Text: "text " + string(c), Advice: "do " + string(c), Runbook: "see " + string(c)}
	}
	well := judge.Finding{Severity: judge.OK}
	for _, x := range []struct {
		group, assigner judge.Finding
		want            string
		trouble         judge.Trouble
	}{
		{well, well, ", ok:  -> , ", judge.TroubleNone},
		{well, of(judge.LeaseOver, judge.Note), "expired, note: text expired -> do expired, see expired", judge.TroubleExpired},
		{of(judge.ShardsUnowned, judge.Warning), well, "shards_unowned, warning: text shards_unowned -> do shards_unowned, see shards_unowned", judge.TroubleExpired},
		{of(judge.ShardsUnowned, judge.Warning), of(judge.LeaseOver, judge.Warning), "shards_unowned, warning: text shards_unowned -> do shards_unowned, see shards_unowned", judge.TroubleExpired},
		{of(judge.ShardsUnowned, judge.Warning), of(judge.BucketGone, judge.Critical), "bucket_gone, critical: text bucket_gone -> do bucket_gone, see bucket_gone", judge.TroubleDeleted},
		{of(judge.ShardsUnowned, judge.Warning), of(judge.MayLead, judge.Critical), "may_lead, critical: text may_lead -> do may_lead, see may_lead", judge.TroubleUnknown},
		{of(judge.ShardsUnowned, judge.Warning), of(judge.KeyForeign, judge.Warning), "foreign, warning: text foreign -> do foreign, see foreign", judge.TroubleForeign},
		{of(judge.GroupUnread, judge.Unknown), of(judge.KeyDeleted, judge.Warning), "group_unread, unknown: text group_unread -> do group_unread, see group_unread", judge.TroubleUnknown},
		{of(judge.NoAssigner, judge.Warning), of(judge.LeaseOver, judge.Warning), "expired, warning: text no_assigner: text expired -> do expired, see no_assigner", judge.TroubleExpired},
		{of(judge.NoAssigner, judge.Warning), well, "no_assigner, note: text no_assigner -> do no_assigner, see no_assigner", judge.TroublePending},
	} {
		is := judge.WithAssigner(x.group, x.assigner)
		check.Equal(t, fmt.Sprintf("%s, %v: %s -> %s, %s", is.Code, is.Severity, is.Text, is.Advice, is.Runbook), x.want, "%s; want %s")
		check.Equal(t, judge.TroubleOf(is, facts.Leading), x.trouble, x.want+": trouble %d; want %d")
	}
}

// A key of the assigner that another program has written is named: no member can lead that election.
func TestGroup_ForeignAssigner(t *testing.T) {
	x := shard.View{Assigner: leader.Holder{State: leader.HolderForeign}, Members: []shard.Peer{peer("a", 1, false)}, Owners: []shard.Owner{{ID: "a", State: shard.OwnerWorks}}}
	is := judge.Worst(judge.Group("orders", x, judge.Around{}))
	check.That(t, is.Code == judge.KeyForeign && strings.Contains(is.Text, "orders.shard.assigner holds something"), "%+v", is)
}

// The servers of a bucket have what is wrong with each, by one look. Without a look, or a leader, which alone knows its
// replicas, nothing is known of the servers of before. A server in no cluster is that of the connection.
func TestReplicas(t *testing.T) {
	looked := func(c *jetstream.ClusterInfo) facts.Fact[facts.Stream] {
		return known(facts.Stream{Info: &jetstream.StreamInfo{Cluster: c}})
	}
	before := []judge.Replica{{Name: "n1", Leads: true}, {Name: "n2", Fault: "offline"}}
	for want, x := range map[string]facts.Fact[facts.Stream]{
		"[{n2 true  false} {n1 false offline false} {n3 false silent for 1m5s false} {n4 false 7 behind false} {n5 false not current false} {n6 false  false}]": looked(&jetstream.ClusterInfo{Name: "C", Leader: "n2", Replicas: []*jetstream.PeerInfo{
			{Name: "n6", Current: true, Active: facts.LongSilence},
			{Name: "n5"},
			{Name: "n4", Lag: 7},
			{Name: "n3", Current: true, Active: 65 * time.Second},
			{Name: "n1", Offline: true, Current: true, Active: time.Hour},
		}}),
		"[{n2 true  false}]": looked(nil),
		"[{n1 false  true} {n2 false  true}]": looked(&jetstream.ClusterInfo{Name: "C", Replicas: []*jetstream.PeerInfo{
			{Name: "n1", Current: true}, {Name: "n2", Current: true},
		}}),
	} {
		check.Equal(t, fmt.Sprint(judge.Replicas(x, before)), want, "the servers are %s")
	}
	check.Equal(t, fmt.Sprint(judge.Replicas(facts.Fact[facts.Stream]{}, before)), "[{n1 false  true} {n2 false  true}]", "without a look the servers are %s")
}
