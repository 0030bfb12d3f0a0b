package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/checker"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// The buckets, the election and the group of the playground.
const (
	bucketName   = "playground"
	itemsName    = "playground-items" // that only the leader may write
	electionName = "work"
	groupName    = "tenants"
	shards       = 12 // of the group
	longestLease = 10 * time.Second
)

// beat is the time between two reports of a candidate, and sampling how often it asks whether its
// term is valid.
const (
	beat     = 100 * time.Millisecond
	sampling = 5 * time.Millisecond
	item     = 150 * time.Millisecond // that the worker takes for one item of its work
)

// member is a candidate in a process of its own, with the worker that writes while it leads.
type member struct {
	c     *leader.Candidate
	items *fence.Bucket
	again chan struct{} // the connection was lost and is there again

	mu    sync.Mutex
	out   *json.Encoder
	until time.Time // when it may lead, while it is pending
	seen  time.Time // when a new record was received
	lease time.Duration
	rev   uint64
}

// stand is the program of a candidate's process. It ends when its standard input does.
func stand(id, url string, lease time.Duration, in io.Reader, out io.Writer) error {
	signal.Ignore(os.Interrupt) // Ctrl-C is for the playground, which asks its candidates to stop
	m := &member{out: json.NewEncoder(out), again: make(chan struct{}, 1)}
	nc, err := nats.Connect(url, nats.Name(id), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.ReconnectJitter(20*time.Millisecond, 0), nats.RetryOnFailedConnect(true), nats.PingInterval(2*time.Second),
		nats.ReconnectHandler(func(*nats.Conn) {
			select {
			case m.again <- struct{}{}:
			default:
			}
		}),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // by default nats.go prints errors
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	bucket, err := leader.EnsureBucket(js, leader.BucketConfig{Name: bucketName, MaxLease: longestLease, Roster: true})
	if err != nil {
		return err
	}
	if m.items, err = fence.OpenBucket(js, itemsName); err != nil {
		return err
	}
	silent := slog.New(slog.DiscardHandler) // the page shows the faults
	m.c, err = leader.Campaign(context.Background(), bucket, electionName, leader.Config{
		ID: id, LeaseDuration: lease, Guards: []leader.Guard{m.items}, Queue: &leader.Queue{AtOnce: true}, Logger: silent, StopTimeout: lease,
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	group, err := shard.Join(ctx, bucket, groupName, shard.Config{Shards: shards, ID: id, LeaseDuration: lease, Logger: silent, StopTimeout: lease})
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	all.Go(func() {
		_ = group.Serve(func(lead context.Context, _ *shard.Shard) { <-lead.Done() })
	})
	all.Go(m.read)
	all.Go(func() { m.sample(ctx) })
	all.Go(func() { m.see(ctx, js) })
	all.Go(func() {
		for term := range m.c.Terms() {
			m.work(term)
		}
	})
	m.obey(bufio.NewScanner(in))
	all.Go(func() { _ = group.Stop() }) // the page shows its shards elsewhere
	err = m.c.Stop()
	stop()
	all.Wait()
	return err
}

// obey does what the playground asks for, until it says no more.
func (m *member) obey(lines *bufio.Scanner) {
	for lines.Scan() {
		switch lines.Text() {
		case "resign":
			if term, ok := m.c.Term(); ok {
				go func() { _ = term.Resign(context.Background()) }() // it ends when the term does
			}
		case "stop":
			return
		}
	}
}

// say prints a report. The playground reads at once, or has gone.
func (m *member) say(r report) {
	r.At = time.Now().UnixNano()
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.out.Encode(r) // nobody is left to tell
}

// read reports the events of the candidate, and checks what the library promises of them.
func (m *member) read() {
	checked := checker.Candidate{Name: "it"}
	for ev := range m.c.Events(context.Background()) {
		if v := checked.Next(ev, time.Now()); v != nil {
			m.say(report{Event: violated, Text: v.String()})
		}
		switch ev := ev.(type) {
		case leader.Pending:
			m.mu.Lock()
			m.until = ev.Until
			m.mu.Unlock()
			m.say(report{Event: pending, Token: ev.Token})
		case leader.Elected:
			m.say(report{Event: elected, Token: ev.Term.Token()})
		case leader.Fenced:
			m.say(report{Event: fenced, Token: ev.Term.Token(), Text: timeline.Reason(ev.Cause)})
		case leader.Deposed:
			m.say(report{Event: deposed, Token: ev.Term.Token(), Text: timeline.Reason(ev.Cause)})
		case leader.Observed, leader.Faulted: // the page shows the key and the faults itself
		}
	}
	if v := checked.End(); v != nil {
		m.say(report{Event: violated, Text: v.String()})
	}
}

// sample reports the state at each beat. Between beats it asks the term whether it is valid.
func (m *member) sample(ctx context.Context) {
	ticker := time.NewTicker(sampling)
	defer ticker.Stop()
	var r report
	var said time.Time
	for ctx.Err() == nil {
		asked := time.Now()
		if term, ok := m.c.Term(); ok && leader.Err(term.Context()) == nil {
			// It was valid when it answered, and so it was when it was asked.
			if r.Token != term.Token() {
				r = report{Token: term.Token(), From: asked.UnixNano()}
			}
			r.To = asked.UnixNano()
		}
		if asked.Sub(said) >= beat {
			said = asked
			m.say(m.with(r, asked))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// with adds the state of the candidate to what is known of its newest term.
func (m *member) with(r report, now time.Time) report {
	st := m.c.Stats()
	r.State, r.Left = strings.ToLower(st.State.String()), st.Remaining.Milliseconds()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch st.State {
	case leader.StatePending:
		r.Left = max(0, m.until.Sub(now).Milliseconds())
	case leader.StateCandidate:
		if m.lease > 0 {
			r.Patience = max(1, m.seen.Add(m.lease).Sub(now).Milliseconds())
		}
	case leader.StateLeader, leader.StateFenced, leader.StateEnded:
	}
	return r
}

// see watches the key as the candidate itself does, to know since when it has seen the record.
func (m *member) see(ctx context.Context, js jetstream.JetStream) {
	for ctx.Err() == nil {
		if err := m.watch(ctx, js); err != nil {
			select {
			case <-time.After(beat):
			case <-ctx.Done():
			}
		}
	}
}

// watch returns when there is a new connection: the server may have forgotten the watch.
func (m *member) watch(ctx context.Context, js jetstream.JetStream) error {
	kv, err := js.KeyValue(ctx, bucketName)
	if err != nil {
		return err
	}
	watch, err := kv.Watch(ctx, electionName)
	if err != nil {
		return err
	}
	defer func() { _ = watch.Stop() }()
	for {
		select {
		case entry, open := <-watch.Updates():
			if !open {
				return errors.New("the watch has ended")
			}
			if entry != nil { // nil: all that there was
				m.shown(entry)
			}
		case <-m.again:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// shown takes an entry of the key. A watch that was opened again delivers the same record again.
func (m *member) shown(entry jetstream.KeyValueEntry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if entry.Revision() <= m.rev {
		return
	}
	h := leader.HolderOf(entry)
	m.rev, m.seen, m.lease = entry.Revision(), time.Now(), h.Lease
	if h.ID == "" {
		m.lease = 0
	}
}

// work writes one item after another while the term lasts. It asks before each item, and not again
// before the write: a process that is frozen between the two writes as a zombie when it wakes up.
func (m *member) work(term *leader.Term) {
	writer := m.items.Writer(term)
	for lead := term.Context(); lead.Err() == nil; {
		time.Sleep(item)
		sent := time.Now().UnixNano()
		_, err := writer.Put(context.Background(), "item", []byte(m.c.ID())) // not lead: a zombie does not look
		switch {
		case err == nil:
			m.say(report{Event: wrote, Token: term.Token(), From: sent})
		case errors.Is(err, leader.ErrFenced):
			m.say(report{Event: refused, Token: term.Token(), Text: timeline.Reason(err)})
			return
		}
	}
}
