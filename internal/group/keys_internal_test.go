package group

import (
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
)

// Whatever the IDs of members are, no two keys of a group are the same, and all are valid.
func TestKeys(t *testing.T) {
	check.Equal(t, MemberKey("jobs", "Host-1_b.example/é"), "jobs.shard.member.Host-1_b=2Eexample=2F=C3=A9", "%s")
	seen := make(map[string]string)
	for what, key := range map[string]string{
		"assigner": AssignerKey("jobs"), "registry": RegistryKey("jobs"), "page 0": PageKey("jobs", 0), "page 10": PageKey("jobs", 10),
		"a": MemberKey("jobs", "a"), "A": MemberKey("jobs", "A"), ".": MemberKey("jobs", "."), "..": MemberKey("jobs", ".."), "=2E": MemberKey("jobs", "=2E"),
		"0": MemberKey("jobs", "0"), ".seat.2": MemberKey("jobs", ".seat.2"), "a b": MemberKey("jobs", "a b"), "a*b": MemberKey("jobs", "a*b"), "a>": MemberKey("jobs", "a>"),
	} {
		check.That(t, seen[key] == "", "%s and %s have the key %s", what, seen[key], key)
		seen[key] = what
		check.OK(t, wire.CheckElection(key))
		_, seat := wire.SeatOf(key)
		check.Equal(t, seat, 1, "seat %d of an election has the key of a group")
		name, election, ok := NameOf(key)
		check.That(t, ok && name == "jobs", "%s is of group %q", key, name)
		check.Equal(t, election, what != "registry" && what[:1] != "p", "%v: "+key+" is an election")
	}
	for _, id := range []string{"a", "=2E", "a b", "é", ".shard.member.b", ""} {
		check.Equal(t, MemberOf(MemberKey("jobs", id)), id, "%q")
	}
	for _, key := range []string{"jobs", AssignerKey("jobs"), "jobs.shard.member.a=2"} {
		check.Equal(t, MemberOf(key), "", key+" is of member %s")
	}
	for _, key := range []string{"jobs", "jobs.shard", "jobs.shard.a", ".shard.map", "jobs.shard.map.a"} {
		_, _, ok := NameOf(key)
		check.That(t, !ok, "%s is of a group", key)
	}
	name, _, _ := NameOf(RegistryKey(MemberKey("jobs", "a")))
	check.Equal(t, name, "jobs.shard.member.a", "%s")
}
