package main

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// recorder is a renderer that records the changes.
type recorder struct {
	changes  []electionChange
	troubles []error // nil: it is over
}

func (r *recorder) changed(changes ...change) error {
	for _, c := range changes {
		r.changes = append(r.changes, c.(electionChange))
	}
	return nil
}

func (r *recorder) begin() error                  { return nil }
func (r *recorder) end()                          {}
func (r *recorder) keys() <-chan string           { return nil }
func (r *recorder) typed(string) error            { return nil }
func (r *recorder) shown(time.Time, viewer) error { return nil }
func (r *recorder) trouble(err error)             { r.troubles = append(r.troubles, err) }

// A lease is over when a feed that was opened afterwards has nothing newer.
func TestFollower_LeaseOver(t *testing.T) {
	now := time.Now()
	var o recorder
	w := newWatcher(&inspector{clock: serverClock{server: now, local: now}}, "", &o)
	w.complete, w.opened = true, now.Add(-time.Minute)
	x := &watched{now: electionStatus{election: "a", entry: backend.Entry{Revision: 1}, holder: leader.Holder{
		ID: "w", Token: 1, Lease: time.Second, Renewed: now.Add(-10 * time.Second), Since: now.Add(-time.Hour),
	}}}
	w.elections["a"] = x
	reports := func(want ...state) {
		t.Helper()
		o.changes = nil
		if err := w.report(w.all()...); err != nil {
			t.Fatal(err)
		}
		if len(o.changes) != len(want) || len(want) == 1 && o.changes[0].state != want[0] {
			t.Errorf("%+v, not %v", o.changes, want)
		}
	}
	reports(stateLeading) // it may have been renewed since: this feed was opened before its lease was over
	reports()
	w.opened = now
	reports(stateExpired)
	if at := o.changes[0].at; !at.Equal(now.Add(-9 * time.Second)) {
		t.Errorf("over at %v", at)
	}
	reports()
	w.complete = false
	x.now.holder.Renewed = now
	reports()
	w.complete = true
	reports(stateLeading)
}
