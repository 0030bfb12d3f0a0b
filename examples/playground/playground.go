package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/examples/internal/child"
	"github.com/natsleader/natsleader/examples/internal/embedded"
	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// seat is the place of one candidate, in which one process after another stands.
type seat struct {
	id   string
	link *link.Link

	// The others are guarded by the lock of the playground.
	proc    *child.Process // nil: it was killed, or has ended
	life    int            // how many processes have stood here
	frozen  bool
	latest  report // with the state of the candidate
	stored  int    // writes
	refused int    // by the guard
	lane    lane
}

// playground is an embedded server with five candidates, and what is known of them.
type playground struct {
	server *embedded.Server
	nc     *nats.Conn // its own, over no link
	kv     jetstream.KeyValue
	state  *webpage.State
	acting sync.Mutex // held for as long as an action takes; the server is not for concurrent use
	closed bool       // guarded by acting

	mu       sync.Mutex
	seats    []*seat
	lease    time.Duration
	up       bool          // the server
	owners   []shard.Owner // of the group's shards
	judge    judge
	narrator *narrator
	stories  []story
	told     int           // how many stories there were
	changed  chan struct{} // closed when there is something new
	reopened chan struct{} // closed when the server is up again
}

// mostStories is how many stories the page shows.
const mostStories = 30

// open starts the server and the candidates. close ends them.
func open(ctx context.Context, lease time.Duration) (_ *playground, err error) {
	p := &playground{
		state: webpage.NewState(), lease: lease, up: true, narrator: newNarrator(lease),
		changed: make(chan struct{}), reopened: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.server, err = embedded.Start(); err != nil {
		return nil, err
	}
	if p.nc, err = nats.Connect(p.server.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(0, 0)); err != nil {
		return nil, err
	}
	js, err := jetstream.New(p.nc)
	if err != nil {
		return nil, err
	}
	bucket, err := leader.CreateOrUpdateBucket(ctx, js, leader.BucketConfig{Name: bucketName, MaxLease: longestLease, Roster: true})
	if err != nil {
		return nil, err
	}
	views, err := shard.Observe(ctx, bucket, groupName)
	if err != nil {
		return nil, err
	}
	go func() {
		for v := range views {
			p.mu.Lock()
			p.owners = v.Owners
			p.signal()
			p.mu.Unlock()
		}
	}()
	if _, err = fence.CreateOrUpdateBucket(ctx, js, jetstream.KeyValueConfig{Bucket: itemsName}); err != nil {
		return nil, err
	}
	if p.kv, err = js.KeyValue(ctx, bucketName); err != nil {
		return nil, err
	}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		s := &seat{id: id}
		if s.link, err = link.New(strings.TrimPrefix(p.server.URL(), "nats://")); err != nil {
			return nil, err
		}
		p.seats = append(p.seats, s)
		if err = p.start(s); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// close asks the candidates to stop, whatever was done to them, and ends the server. It does so once.
func (p *playground) close() error {
	p.acting.Lock()
	defer p.acting.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.stopAll()
	for _, s := range p.seats {
		s.link.Close()
	}
	if p.nc != nil {
		p.nc.Close()
	}
	if p.server != nil {
		return p.server.Close()
	}
	return nil
}

// start starts a process in an empty seat.
func (p *playground) start(s *seat) error {
	p.mu.Lock()
	s.life++
	life, name := s.life, s.id
	if s.life > 1 {
		name = fmt.Sprintf("%s (%d)", s.id, s.life)
	}
	s.latest, s.frozen = report{}, false
	lease := p.lease
	p.mu.Unlock()
	args := []string{"candidate", s.id, "nats://" + s.link.Addr(), lease.String()}
	proc, err := child.Start(roleVariable, args, func(line []byte) {
		var r report
		if json.Unmarshal(line, &r) == nil { // the last line of a killed process may be cut
			p.heard(s, life, name, r)
		}
	})
	if err != nil {
		return fmt.Errorf("start candidate %s: %w", s.id, err)
	}
	p.mu.Lock()
	s.proc = proc
	p.mu.Unlock()
	go func() {
		<-proc.Ended
		p.mu.Lock()
		defer p.mu.Unlock()
		if s.proc == proc { // nobody has ended it
			s.proc = nil
			p.died(s)
			why := proc.Errors()
			if why != "" {
				p.tell(fmt.Sprintf("The process of %s has ended: %s", s.id, why), partAcquire)
			}
			if proc.Failed() {
				p.judge.say(fmt.Sprintf("the process of %s has failed: %s", name, why))
			}
			p.signal()
		}
	}()
	return nil
}

// heard takes a report of a process.
func (p *playground) heard(s *seat, life int, name string, r report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge.heard(name, r)
	if s.life != life {
		return // of a process before
	}
	switch r.Event {
	case "":
		s.latest = r
		if !s.frozen { // the report may be from before
			s.lane.heard(r, p.reaches(s))
		}
	case wrote:
		s.stored++
	case refused:
		s.refused++
	}
	p.tell(p.narrator.heard(s.id, r))
	p.signal()
}

// tell adds a story. The caller has the lock, as for signal.
func (p *playground) tell(text, part string) {
	if text == "" {
		return
	}
	p.told++
	p.stories = append(p.stories, story{N: p.told, At: time.Now().UnixMilli(), Text: text, Link: protocolPage + part})
	p.stories = p.stories[max(0, len(p.stories)-mostStories):]
}

// died is called when a process has ended without a report of it.
func (p *playground) died(s *seat) {
	now := time.Now()
	s.lane.is(partGone, now, now)
	p.narrator.died(s.id, now)
}

func (p *playground) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// stopAll asks all candidates to stop, the leader last, so that the key is not handed around.
func (p *playground) stopAll() {
	var leaders, others []*child.Process
	p.mu.Lock()
	for _, s := range p.seats {
		s.link.Set(link.Works)
		if s.proc == nil {
			continue
		}
		if s.frozen {
			_ = s.proc.Thaw() // it ends below either way
			s.frozen = false
		}
		if s.latest.State == "leader" {
			leaders = append(leaders, s.proc)
		} else {
			others = append(others, s.proc)
		}
		s.proc = nil
	}
	p.mu.Unlock()
	for _, some := range [][]*child.Process{others, leaders} {
		var all sync.WaitGroup
		for _, proc := range some {
			all.Go(func() { proc.Stop(3 * time.Second) })
		}
		all.Wait()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.seats {
		now := time.Now()
		s.lane.is(partGone, now, now)
	}
}
