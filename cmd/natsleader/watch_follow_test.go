package main

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// heard is a renderer that records the changes.
type heard struct{ changes []change }

func (h *heard) told(changes []change) error {
	h.changes = append(h.changes, changes...)
	return nil
}

func (h *heard) shown(*watcher) error { return nil }
func (h *heard) trouble(error)        {}

// A lease is over when a feed that was opened afterwards has nothing newer.
func TestALeaseIsOverWhenItWasLookedAtAfterwards(t *testing.T) {
	now := time.Now()
	var o heard
	f := newFollower(&inspector{clock: serverClock{said: now, heard: now}}, time.Second, "", nil, &o)
	f.complete, f.opened = true, now.Add(-time.Minute)
	x := &watched{now: standing{election: "a", entry: backend.Entry{Revision: 1}, holder: leader.Holder{
		ID: "w", Token: 1, Lease: time.Second, Renewed: now.Add(-10 * time.Second), Since: now.Add(-time.Hour),
	}}}
	f.elections["a"] = x
	tell := func(want ...state) {
		t.Helper()
		o.changes = nil
		if err := f.tell(f.all()...); err != nil {
			t.Fatal(err)
		}
		if len(o.changes) != len(want) || len(want) == 1 && o.changes[0].state != want[0] {
			t.Errorf("%+v, not %v", o.changes, want)
		}
	}
	tell(stateLeading) // it may have been renewed since: this feed was opened before its lease was over
	tell()
	f.opened = now
	tell(stateExpired)
	if at := o.changes[0].at; !at.Equal(now.Add(-9 * time.Second)) {
		t.Errorf("over at %v", at)
	}
	tell()
	f.complete = false
	x.now.holder.Renewed = now
	tell()
	f.complete = true
	tell(stateLeading)
}
