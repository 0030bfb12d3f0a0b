package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/natsleader/natsleader/examples/internal/child"
	"github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/internal/webpage"
)

// request is what a user does on the page.
type request struct {
	Do    string `json:"do"`
	ID    string `json:"id"`    // of the candidate, if it is done to one
	Lease int64  `json:"lease"` // in ms
}

// The limits of the lease that a user can choose.
const (
	leastLease   = time.Second
	defaultLease = 3 * time.Second
)

func unable(format string, args ...any) error {
	return &webpage.Error{Status: http.StatusBadRequest, Text: fmt.Sprintf(format, args...)}
}

// act does what the page asks for. One action ends before the next begins.
func (p *playground) act(ctx context.Context, body json.RawMessage) (any, error) {
	var r request
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, unable("not a request: %v", err)
	}
	p.acting.Lock()
	defer p.acting.Unlock()
	if p.closed {
		return nil, unable("the playground has ended")
	}
	var err error
	switch r.Do {
	case doRestart, doOutage, doUp, doDelete, doLease:
		err = p.actOnAll(ctx, r)
	default:
		for _, s := range p.seats {
			if s.id == r.ID {
				return struct{}{}, p.actOn(s, r.Do)
			}
		}
		err = unable("there is no candidate %q", r.ID)
	}
	return struct{}{}, err
}

// did tells the story of an action that is about to be taken.
func (p *playground) did(what, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tell(p.narrator.did(what, id))
	p.signal()
}

// actOnAll does something to the server, to the key or to all candidates.
func (p *playground) actOnAll(ctx context.Context, r request) error {
	p.mu.Lock()
	up := p.up
	p.mu.Unlock()
	switch r.Do {
	case doDelete:
		if !up {
			return unable("the server is down: nothing can be deleted")
		}
		p.did(r.Do, "")
		return p.kv.Delete(ctx, electionName)
	case doLease:
		lease := time.Duration(r.Lease) * time.Millisecond
		if lease < leastLease || lease > longestLease {
			return unable("a lease is from %v to %v, not %v", leastLease, longestLease, lease)
		}
		p.mu.Lock()
		p.lease, p.narrator.lease = lease, lease
		p.mu.Unlock()
		p.did(r.Do, "")
		p.stopAll()
		for _, s := range p.seats {
			if err := p.start(s); err != nil {
				return err
			}
		}
		return nil
	case doOutage:
		p.did(r.Do, "")
		p.down()
		return nil
	case doUp:
		p.did(r.Do, "")
		return p.backUp()
	default: // doRestart
		p.did(r.Do, "")
		p.down()
		return p.backUp()
	}
}

func (p *playground) down() {
	p.mu.Lock()
	p.up = false
	p.signal()
	p.mu.Unlock()
	p.state.Trouble("the server is down", time.Now())
	p.server.Down()
}

func (p *playground) backUp() error {
	if err := p.server.Up(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up = true
	close(p.reopened)
	p.reopened = make(chan struct{})
	p.signal()
	return nil
}

// actOn does something to one candidate.
func (p *playground) actOn(s *seat, what string) error {
	p.mu.Lock()
	proc, frozen := s.proc, s.frozen
	p.mu.Unlock()
	switch {
	case what == doStart && proc != nil:
		return unable("%s runs", s.id)
	case proc == nil && (what == doResign || what == doKill || what == doFreeze || what == doThaw):
		return unable("%s does not run", s.id)
	case what == doResign && frozen:
		return unable("%s is frozen and hears nothing", s.id)
	case what == doFreeze && frozen, what == doThaw && !frozen:
		return nil // it is so
	case what == doFreeze && !child.CanFreeze:
		return unable("processes cannot be frozen on this system")
	}
	switch what {
	case doResign:
		p.did(what, s.id)
		proc.Tell("resign")
	case doKill:
		p.did(what, s.id)
		p.mu.Lock()
		s.proc, s.frozen = nil, false
		p.mu.Unlock()
		proc.Kill()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.died(s)
		p.signal()
	case doStart:
		p.did(what, s.id)
		return p.start(s)
	case doFreeze, doThaw:
		p.did(what, s.id)
		do := proc.Freeze
		if what == doThaw {
			do = proc.Thaw
		}
		p.mu.Lock()
		if s.frozen = what == doFreeze; s.frozen {
			s.lane.frozen(time.Unix(0, s.latest.At).Add(time.Duration(s.latest.Left)*time.Millisecond), time.Now())
		}
		p.mu.Unlock()
		return do()
	case doRestore:
		p.did(what, s.id)
		s.link.Set(link.Works)
	case link.Cut, link.Held, link.HeldUp, link.HeldDown, link.Slow:
		p.did(what, s.id)
		s.link.Set(what)
	default:
		return unable("%q is nothing that can be done to a candidate", what)
	}
	return nil
}
