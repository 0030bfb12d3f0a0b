package main

import (
	"context"
	"time"

	"github.com/natsleader/natsleader/examples/internal/child"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/shard"
)

// view is what the panel of the page shows. Numbers of 64 bits are texts, because JavaScript rounds
// them.
type view struct {
	Now     int64      `json:"now"`   // in Unix ms, as all instants
	Lease   int64      `json:"lease"` // in ms
	Least   int64      `json:"least"` // that can be chosen
	Most    int64      `json:"most"`
	Up      bool       `json:"up"` // the server
	Freezes bool       `json:"freezes"`
	Seats   []seatView `json:"seats"`
	Stories []story    `json:"stories"` // the newest last
	Checks  int        `json:"checks"`
	Broken  []string   `json:"broken"`
}

// seatView is one candidate.
type seatView struct {
	ID       string `json:"id"`
	State    string `json:"state"` // of package leader; killed, or starts: there is no report yet
	Frozen   bool   `json:"frozen"`
	Link     string `json:"link"`
	Token    uint64 `json:"token,string,omitempty"` // of its newest term
	At       int64  `json:"at"`                     // when it reported Left and Patience
	Left     int64  `json:"left,omitempty"`
	Patience int64  `json:"patience,omitempty"`
	Stored   int    `json:"stored"`
	Refused  int    `json:"refused"`
	Shards   []int  `json:"shards"` // on which it works, as the store shows it
	Past     []part `json:"past"`
}

// view returns what the panel shows now, and a channel that is closed when there is something new.
func (p *playground) view() (view, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := view{
		Now: time.Now().UnixMilli(), Lease: p.lease.Milliseconds(), Least: leastLease.Milliseconds(), Most: longestLease.Milliseconds(),
		Up: p.up, Freezes: child.CanFreeze, Stories: append([]story{}, p.stories...), Checks: p.judge.checks, Broken: append([]string{}, p.judge.broken...),
	}
	for _, s := range p.seats {
		is := seatView{
			ID: s.id, State: s.latest.State, Frozen: s.frozen, Link: s.link.Mode(), Token: s.latest.Token,
			At: s.latest.At / int64(time.Millisecond), Left: s.latest.Left, Patience: s.latest.Patience, Stored: s.stored, Refused: s.refused,
			Past: append([]part{}, s.lane...),
		}
		for n, o := range p.owners {
			if o.ID == s.id && o.State == shard.OwnerWorks {
				is.Shards = append(is.Shards, n)
			}
		}
		switch {
		case s.proc == nil:
			is.State, is.Left, is.Patience = "killed", 0, 0
		case is.State == "":
			is.State = "starts"
		}
		v.Seats = append(v.Seats, is)
	}
	return v, p.changed
}

// rest is the least time between two messages to a page.
const rest = 50 * time.Millisecond

// feed sends views to a page.
func (p *playground) feed(ctx context.Context) func() (any, bool) {
	var news <-chan struct{}
	return func() (any, bool) {
		if news != nil {
			select {
			case <-news:
			case <-time.After(webpage.Pulse):
			case <-ctx.Done():
				return nil, false
			}
			time.Sleep(rest)
		}
		var v view
		v, news = p.view()
		return v, true
	}
}
