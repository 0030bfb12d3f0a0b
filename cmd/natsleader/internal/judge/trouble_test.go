package judge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// key is an election whose key got that value so long ago.
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

// Whether an election is in trouble follows from its key, from the state in which it is seen, and from whether the bucket
// answers. Trouble has words, advice and an entry of the runbook, and nothing else has.
func TestElection(t *testing.T) {
	led, over, gone := key(record("leading"), time.Second), key(record("leading"), time.Minute), deleted(func(*facts.ElectionStatus) {})
	may := led
	may.MayLead = now.Add(time.Minute)
	answers, silent, away := judge.Around{Now: now}, judge.Around{Now: now, Silent: true}, judge.Around{Now: now, Silent: true, Gone: true}
	all := []judge.Around{answers, silent, away}
	text := string(check.Got(proof.ReadOutside("../../../../docs/runbook.md"))(t))
	for _, x := range []struct {
		what     string
		election facts.ElectionStatus
		state    facts.State
		in       []judge.Around
		code     judge.Code
		trouble  judge.Trouble
		since    time.Duration
	}{
		{"it is led", led, facts.Leading, all, "", judge.TroubleNone, time.Second},
		{"it is pending", key(record("pending"), time.Second), facts.Pending, all, "", judge.TroublePending, time.Second},
		{"it was given up", key(record("released"), time.Minute), facts.Released, all, "", judge.TroubleIdle, time.Minute},
		{"no candidate has ever stood", facts.ElectionStatus{}, facts.Never, all, "", judge.TroubleIdle, -1},
		{"another program wrote the key", key("hello", time.Second), facts.Foreign, all, judge.KeyForeign, judge.TroubleForeign, time.Second},
		{"the lease is over", over, facts.Expired, all, judge.LeaseOver, judge.TroubleExpired, 45 * time.Second},
		{"the lease is over, and the end is not believed yet", over, facts.Leading, all[:1], "", judge.TroubleNone, time.Minute},
		{"the lease is over by what was read last", over, facts.Leading, all[1:], judge.BucketSilent, judge.TroubleUnknown, 45 * time.Second},
		{"the key is gone, and the holder may lead", may, facts.Leading, all, judge.BucketGone, judge.TroubleUnknown, -14 * time.Second},
		{"the key was deleted", gone, facts.Deleted, all[:2], judge.KeyDeleted, judge.TroubleDeleted, time.Minute},
		{"the bucket is gone", gone, facts.Deleted, all[2:], judge.BucketGone, judge.TroubleDeleted, time.Minute},
		{"the key was deleted after a release", deleted(func(x *facts.ElectionStatus) { x.Released = true }), facts.Deleted, all, "", judge.TroubleIdle, time.Minute},
		{"the key of a one-shot job was deleted", deleted(func(x *facts.ElectionStatus) { x.Note.OneShot = true }), facts.Deleted, all, "", judge.TroubleIdle, time.Minute},
	} {
		for i, in := range x.in {
			is := judge.Election(x.election, x.state, in)
			got := fmt.Sprintf("%q, trouble %d", is.Code, judge.TroubleOf(is, x.state))
			check.Equal(t, got, fmt.Sprintf("%q, trouble %d", x.code, x.trouble), fmt.Sprintf("%s, %d: %%s; want %%s", x.what, i))
			check.That(t, x.since < 0 && x.since > -time.Second || now.Sub(is.Since) == x.since, "%s, %d: since %v", x.what, i, is.Since)
			well := x.code == ""
			check.That(t, well == (is.Severity == judge.OK) && well == (is.Text == "") && well == (is.Advice == "") && well == (is.Runbook == ""), "%s, %d: %+v", x.what, i, is)
			_, anchor, _ := strings.Cut(is.Runbook, "#")
			check.That(t, well || strings.Contains(strings.ToLower(text), "\n### "+strings.ReplaceAll(anchor, "-", " ")+"\n"), "%s leads to %q", x.what, is.Runbook)
			with := x.election
			with.Note = facts.Note{Owner: "team-pay", Runbook: "https://wiki.example.com/", OneShot: x.election.Note.OneShot}
			noted := judge.Election(with, x.state, in)
			part := !well && x.code != judge.BucketGone && x.code != judge.BucketSilent // of its owner
			check.That(t, part == strings.HasSuffix(noted.Advice, "; its owner is team-pay") && part == (noted.Runbook == "https://wiki.example.com/"), "%s, %d: with a note %+v", x.what, i, noted)
		}
	}
}

// peer is a member without shards.
func peer(id string, most int, drained bool) shard.Peer {
	return shard.Peer{ID: id, Most: most, Drained: drained, Holder: leader.Holder{ID: id, State: leader.HolderLeading}}
}

// What gives shards an owner depends on the members that live: one that takes shards will take them, and otherwise each
// reason why none does has its remedy.
func TestRemedy(t *testing.T) {
	for want, members := range map[string][]shard.Peer{
		"start members": {{ID: "a", Holder: leader.Holder{State: leader.HolderExpired}}},
		"let drained members take shards again (natsleader undrain b), or start members":                       {peer("b", 0, true)},
		"raise Most of a, or start members":                                                                    {peer("a", 3, false)},
		"let drained members take shards again (natsleader undrain b c), or raise Most of a, or start members": {peer("a", 3, false), peer("b", 0, true), peer("c", 1, true)},
		"look again after the lease and the Hold of the members; if it stays, see their logs":                  {peer("a", 0, false), peer("b", 0, true)},
	} {
		check.Equal(t, judge.Remedy(shard.View{Members: members}), want, "%q; want %q")
	}
}

// The worst of what is wrong with a group is that nobody works on some shards. A group that all members have left in
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
	for _, x := range []struct {
		view shard.View
		want string
	}{
		{shard.View{Assigner: led, Members: []shard.Peer{lives}, Owners: owned}, "ok  "},
		{shard.View{Assigner: led, Members: []shard.Peer{lives, peer("d", 0, true)}, Owners: owned}, "ok  "},
		{shard.View{Members: []shard.Peer{left}, Owners: none}, "ok  "},
		{shard.View{}, "warning group_empty no member has joined it, or its map is of another version or program"},
		{shard.View{Members: []shard.Peer{dead, left}, Owners: none}, "warning shards_unowned no member lives; these are gone: b"},
		{shard.View{Members: []shard.Peer{lives, dead, left}, Owners: []shard.Owner{owned[0], {ID: "b", State: shard.OwnerIsGone}}}, "warning shards_unowned 1 of 2 shards have no owner: 1; these members are gone: b; these have left: c"},
		{shard.View{Members: []shard.Peer{lives}, Owners: owned}, "warning no_assigner no member is the assigner, so no shard moves"},
		{shard.View{Assigner: led, Members: []shard.Peer{late}, Owners: granted}, "warning shards_not_begun shards are granted, and their owners have not begun the work: 0 of a"},
		{shard.View{Assigner: led, Members: []shard.Peer{late}, Owners: owned}, "warning work_late work goes on after its GracePeriod: 1 of a"},
	} {
		is := judge.Worst(judge.Group(x.view))
		check.Equal(t, fmt.Sprintf("%v %s %s", is.Severity, is.Code, is.Text), x.want, "%s; want %s")
		check.That(t, (is.Code == "") == (is.Advice == ""), "what to do about %s: %q", x.want, is.Advice)
	}
}
