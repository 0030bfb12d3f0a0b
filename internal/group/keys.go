package group

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// The keys of a group are below its name. No ID of a member makes the key of something else.
const (
	assigners = ".shard.assigner"
	registry  = ".shard.map"
	pages     = ".shard.page."
	members   = ".shard.member."
)

// CheckKeys returns an error that names the rule if a group of this name, with a member of this ID, has no valid keys.
func CheckKeys(name, id string) error {
	key := MemberKey(name, id)
	switch {
	case !wire.ValidKey(name):
		return fmt.Errorf("the name of group %q may contain only letters, digits and -/_=., and no empty part", name)
	case len(id) <= record.MaxID && len(key) > wire.MaxElection: // else the ID itself is too long
		return fmt.Errorf("the name of the group and the ID make a key of %d bytes, which is more than %d: shorten one of them",
			len(key), wire.MaxElection)
	}
	return nil
}

// AllKeys returns the pattern of all keys of a group.
func AllKeys(name string) string { return name + ".shard.>" }

// AssignerKey returns the election of the group's assigner.
func AssignerKey(name string) string { return name + assigners }

// RegistryKey returns the key of the registry.
func RegistryKey(name string) string { return name + registry }

// PageKey returns the key of a page of the map.
func PageKey(name string, page int) string { return name + pages + strconv.Itoa(page) }

// ShardName names a shard in the guards of its owner, which have a name where others have that of an election.
func ShardName(name string, shard int) string { return name + ".shard." + strconv.Itoa(shard) }

// MemberKey returns the election of a member. A byte of the ID that a key cannot have is written as = and two
// digits.
func MemberKey(name, id string) string {
	var b strings.Builder
	b.WriteString(name + members)
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

// MemberOf returns the ID of the member whose election has a key, or "" for a key that is no member's.
func MemberOf(key string) string {
	_, id, _ := strings.Cut(key[max(0, strings.LastIndex(key, members)):], members)
	parts := strings.Split(id, "=")
	for i, p := range parts[1:] {
		b, err := strconv.ParseUint(p[:min(2, len(p))], 16, 8)
		if err != nil || len(p) < 2 {
			return "" // others may write any key
		}
		parts[1+i] = string([]byte{byte(b)}) + p[2:]
	}
	return strings.Join(parts, "")
}

// NameOf returns the name of the group that a key would belong to, and whether the key is that of an election.
func NameOf(key string) (name string, election, ok bool) {
	i := max(0, strings.LastIndex(key, ".shard."))
	name, rest := key[:i], key[i:]
	election = rest == assigners || strings.HasPrefix(rest, members)
	return name, election, name != "" && (election || rest == registry || strings.HasPrefix(rest, pages))
}
