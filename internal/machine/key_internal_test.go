package machine

import (
	"fmt"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/record"
)

// The first read that finds nothing starts the wait. Only an entry that is seen, or found,
// ends it.
func TestKeyView_AbsentSinceFirstRead(t *testing.T) {
	var k keyView
	k.notFound(epoch)
	k.notFound(epoch.Add(tick))
	check.That(t, k.absentSince.Equal(epoch), "absent since %v", k.absentSince)
	k.found()
	check.That(t, k.absentSince.IsZero(), "absent since %v", k.absentSince)
}

// A token that only the feed has delivered counts when the store has lost writes.
func TestMemory_HearsayCountsAfterRegress(t *testing.T) {
	var y memory
	y.count(5)
	y.count(3)
	y.hear(9)
	check.Equal(t, y.token, 5, "token %d")
	y.void(epoch)
	if y.token != 9 || !y.notBefore.Equal(epoch) || y.broken() != "" {
		t.Errorf("token %d, not before %v, %q", y.token, y.notBefore, y.broken())
	}
	y.void(epoch.Add(-tick))
	check.That(t, y.notBefore.Equal(epoch), "not before %v, after a second loss", y.notBefore)
}

// A remembered lease is over when it has run out since it was last seen, and not before.
func TestMemory_LeaseOver(t *testing.T) {
	var y memory
	check.That(t, !y.leaseOver(epoch), "no lease is over")
	y.keepLease(2*tick, epoch)
	check.That(t, !y.leaseOver(epoch.Add(2*tick-time.Nanosecond)) && y.leaseOver(epoch.Add(2*tick)),
		"the lease ends at another time")
}

func (k *keyView) broken() string {
	switch {
	case k.behind > mute:
		return "it counts more reads than it needs"
	case k.seen.Kind != record.EntryUnseen && k.seenAt.IsZero():
		return "an observation without its time"
	case k.readRevision > k.seen.Revision:
		return fmt.Sprintf("revision %d was read, and %d is the newest", k.readRevision, k.seen.Revision)
	case k.seen.Kind == record.EntryUnseen && k.seen.Revision != 0:
		return "an unseen entry with a revision"
	}
	return ""
}

func (y *memory) broken() string {
	switch {
	case y.lease < 0, y.lease > record.MaxLease:
		return fmt.Sprintf("lease %v", y.lease)
	case y.lease > 0 && y.leaseAt.IsZero():
		return "a lease without its time"
	case max(y.token, y.hearsay) > record.LastToken:
		return "a token that no candidate counts up from"
	}
	return ""
}

// again begins a candidate with what the one before it has read.
func (s *script) again() []string {
	s.before = Sighting{}
	if at := s.m.sightedAt(); !at.IsZero() {
		s.before = SeenAs(s.m.key.seen, at)
	}
	settings := s.m.bucket.settings
	s.m = New(s.m.Params, "")
	s.step(Input{Kind: InTick})
	s.step(Input{Kind: InSettings, Settings: settings})
	return s.step(Input{Kind: InFeed})
}
