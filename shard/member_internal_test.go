package shard

import (
	"testing"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/group"
)

// A member does not keep the grants of a page that are of others: with all pages of a large group they are megabytes.
func TestReceive_KeepsNoGrantOfOthers(t *testing.T) {
	l := group.Layout{Shards: 2, PageSize: 2}
	s := &shift{Member: &Member{stored: stored{layout: l}, tokens: make([]uint64, 1)}}
	p := &page{member: group.NewMember(group.Session{ID: "a", Token: 1}), decoded: decode(
		newFollower(nil, "", 0, nil), func(e backend.Entry) (group.Map, error) { return l.DecodePage(0, e.Value, e.Revision) })}
	p.take(backend.Entry{Revision: 3, Value: l.EncodePage(0, 1, make([]group.Grant, 2))})
	s.receive(p)
	check.That(t, p.changed && p.err == nil && p.value.Grants == nil, "%+v, %v", p.value, p.err)
}
