package main

import (
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/webpage"
)

// uiState hands what a watcher reports to the pages that are open. It is a renderer.
type uiState struct {
	*webpage.State

	mu  sync.Mutex
	s   *inspector // nil: not connected
	err error      // why the rows are not up to date; nil: they are
}

func (u *uiState) begin() error        { return nil }
func (u *uiState) end()                {}
func (u *uiState) keys() <-chan string { return nil }
func (u *uiState) typed(string) error  { return nil }

// connected takes the connection that requests of pages use, or nil.
func (u *uiState) connected(s *inspector) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.s = s
}

// inspector returns the connection, or nil.
func (u *uiState) inspector() *inspector {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.s
}

// changed is part of renderer, as are shown and trouble. It reaches pages at once.
func (u *uiState) changed(changes ...change) error {
	now := time.Now()
	if s := u.inspector(); s != nil {
		now = s.clock.now()
	}
	for _, c := range changes {
		c, ok := c.(electionChange)
		if !ok {
			continue
		}
		key := c.now.election
		u.Show(rowOf(&watched{now: c.now, as: c.state, was: u.Row(key).ID}, now, nil), c.now.entry.Value, webpage.Change{
			Key: key, At: webpage.Milliseconds(c.at), State: string(c.state), ID: c.now.holder.ID, Token: c.now.holder.Token,
			Text: c.event(), First: c.previous == nil,
		})
	}
	return nil
}

// shown compares the rows with what the watcher knows. Renewals reach pages by it.
func (u *uiState) shown(now time.Time, of viewer) error {
	w, ok := of.(*watcher)
	if !ok || !w.complete {
		return nil
	}
	u.mu.Lock()
	if !w.troubled && w.feed != nil {
		u.err = nil
		u.Complete(w.s.clock.now)
	}
	trouble := u.err
	u.mu.Unlock()
	for _, x := range w.elections {
		if x.last != nil {
			u.Show(rowOf(x, now, trouble), x.now.entry.Value)
		}
	}
	return nil
}

func (u *uiState) trouble(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.err = err
	if err != nil { // nil: the watcher reads the elections again first
		u.Trouble(errorText(err))
	}
}

// rowOf returns the row of an election.
func rowOf(x *watched, now time.Time, trouble error) webpage.Row {
	s := x.now
	row := webpage.Row{
		Key: s.election, State: string(x.as), Trouble: int(x.troubleOf(now, trouble)), ID: s.holder.ID, Token: s.holder.Token,
		Since: webpage.Milliseconds(s.since(x.as)), Revision: s.entry.Revision, Written: webpage.Milliseconds(s.entry.Created),
	}
	switch x.as {
	case stateLeading, statePending:
		row.Expires, row.Lease = webpage.Milliseconds(s.expires()), s.holder.Lease.Milliseconds()
		var base string
		row.Value, base = text(s.holder.Value)
		if base != "" {
			row.Value, row.Value64 = base, true
		}
	case stateReleased, stateExpired, stateDeleted, stateForeign, stateNever:
		row.ID = x.was
		if last := s.last(); last != nil {
			row.ID, row.Token = last.ID, last.Token
		}
	}
	return row
}
