//go:build field && linux

package torture_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/leader"
)

// ledgerSpec describes the ledger that a candidate writes when it leads.
type ledgerSpec struct {
	Bucket  string
	Diary   string // the path
	Counter bool   // only update the register, by a Put
	Bare    bool   // write with an ordinary Put: the checkers must find that
}

func (s ledgerSpec) stream() string             { return "KV_" + s.Bucket }
func (s ledgerSpec) subject(what string) string { return "$KV." + s.Bucket + "." + what }
func (s ledgerSpec) guardOf(what string) string {
	if what == register {
		return s.subject(fence.DefaultGuardKey)
	}
	return s.subject("guard." + what)
}

const (
	// Between two attempts of a scribe, in its term and afterwards.
	livePace, latePace = 15 * time.Millisecond, 100 * time.Millisecond
	// haunting is how long a scribe goes on after its term.
	haunting = 12 * time.Second
	// impatience is how long a scribe waits for an answer.
	impatience = 2 * time.Second
)

// desk is where a process writes the ledger of one election, term after term.
type desk struct {
	spec ledgerSpec
	id   string
	nc   *nats.Conn
	log  *journal
	kv   jetstream.KeyValue // Bare
	// The register is guarded as a bucket and the list as a stream, each by a guard of
	// its own. Both are in one bucket.
	register *fence.Bucket
	list     *fence.Stream

	n        atomic.Uint64 // of the last value
	waits    atomic.Bool   // between the check and the write of the next update
	goOn     chan struct{}
	quit     chan struct{}
	scribing sync.WaitGroup
}

func openDesk(js jetstream.JetStream, id string, spec ledgerSpec) *desk {
	k := &desk{spec: spec, id: id, nc: js.Conn(), goOn: make(chan struct{}, 1), quit: make(chan struct{})}
	k.log = must(openJournal(spec.Diary))
	if spec.Bare {
		k.kv = must(js.KeyValue(context.Background(), spec.Bucket))
		return k
	}
	k.register = must(fence.OpenBucket(js, spec.Bucket))
	k.list = must(fence.OpenStream(js, spec.stream(), spec.guardOf(list)))
	return k
}

func (k *desk) guards() []leader.Guard {
	if k.spec.Bare {
		return nil
	}
	return []leader.Guard{k.register, k.list}
}

// close ends all scribes and waits for them.
func (k *desk) close() {
	close(k.quit)
	k.scribing.Wait()
}

// scribe writes for one term. It ignores the term's context.
type scribe struct {
	*desk
	term     *leader.Term
	register *fence.BucketWriter
	list     *fence.StreamWriter
	floor    atomic.Uint64 // the newest revision that the term has seen
}

// employ starts several scribes at once for the term.
func (k *desk) employ(t *leader.Term) {
	s := &scribe{desk: k, term: t}
	duties := []func(){s.increment}
	if !k.spec.Bare {
		s.register, s.list = k.register.Writer(t), k.list.Writer(t)
	}
	if !k.spec.Counter {
		duties = []func(){s.put, s.put, s.increment, s.appendOne, s.appendOne, s.appendSome, s.confirm}
	}
	for _, duty := range duties {
		k.scribing.Go(func() { s.work(duty) })
	}
}

// work repeats a duty until long after the term.
func (s *scribe) work(duty func()) {
	var over time.Time
	for {
		pace := livePace
		if leader.Err(s.term.Context()) != nil {
			pace = latePace
			if over.IsZero() {
				over = time.Now()
			}
			if time.Since(over) > haunting {
				return
			}
		}
		duty()
		select {
		case <-time.After(pace):
		case <-s.quit:
			return
		}
	}
}

// attempt makes an attempt and writes it down.
func (s *scribe) attempt(a attempt, do func(ctx context.Context, values [][]byte) (uint64, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), impatience)
	defer cancel()
	a.Token, a.Count = s.term.Token(), max(a.Count, 1)
	last := s.n.Add(a.Count)
	a.N, a.Call = last-a.Count+1, monotonic()
	var values [][]byte
	for n := a.N; n <= last; n++ {
		v, err := json.Marshal(value{By: s.id, Token: a.Token, N: n, Call: a.Call})
		if err != nil {
			panic(err) // strings and numbers
		}
		values = append(values, v)
	}
	revision, err := do(ctx, values)
	s.sees(revision)
	a.comesOut(revision, err)
	s.log.write(a)
}

// comesOut sets the outcome of a write.
func (a *attempt) comesOut(revision uint64, err error) {
	a.End, a.Rev = monotonic(), revision
	switch {
	case err == nil:
		a.Out = accepted
		return
	case errors.Is(err, leader.ErrFenced):
		a.Out = refused
	case errors.Is(err, fence.ErrUnknownOutcome):
		a.Out = unknown
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		a.Out = mismatch
	default:
		a.Out = declined
	}
	a.Text = err.Error()
}

// sees records the revision that later reads of the term must not be older than. It is
// called before the end of the operation that has seen the revision.
func (s *scribe) sees(revision uint64) {
	for {
		floor := s.floor.Load()
		if revision <= floor || s.floor.CompareAndSwap(floor, revision) {
			return
		}
	}
}

func (s *scribe) put() {
	s.attempt(attempt{Kind: put, What: register}, func(ctx context.Context, values [][]byte) (uint64, error) {
		return s.register.Put(ctx, register, values[0])
	})
}

func (s *scribe) appendOne() {
	s.attempt(attempt{Kind: put, What: list}, func(ctx context.Context, values [][]byte) (uint64, error) {
		ack, err := s.list.Publish(ctx, s.spec.subject(list), values[0])
		if err != nil {
			return 0, err
		}
		return ack.Sequence, nil
	})
}

func (s *scribe) appendSome() {
	s.attempt(attempt{Kind: batch, What: list, Count: 3}, func(ctx context.Context, values [][]byte) (uint64, error) {
		b := s.list.Batch()
		for _, v := range values {
			b.Publish(s.spec.subject(list), v)
		}
		ack, err := b.Commit(ctx)
		if err != nil {
			return 0, err
		}
		return ack.Sequence, nil
	})
}

// increment replaces the value that it has read, if the term was valid after the read.
// A single scribe in its term loses no update, unless a later term has begun since.
func (s *scribe) increment() {
	at, found := s.lookUp(register)
	if !found {
		return
	}
	if s.waits.CompareAndSwap(true, false) {
		s.log.write(attempt{Kind: waiting, Token: s.term.Token(), Call: monotonic()})
		select {
		case <-s.goOn:
		case <-s.quit:
			return
		}
	}
	s.attempt(attempt{Kind: update, What: register, At: at}, func(ctx context.Context, values [][]byte) (uint64, error) {
		switch {
		case s.spec.Bare:
			return s.kv.Put(ctx, register, values[0])
		case s.spec.Counter:
			return s.register.Put(ctx, register, values[0])
		default:
			return s.register.Update(ctx, register, values[0], at)
		}
	})
}

// confirm reads the list without relying on leases. A fenced write shows that the term
// is still the newest. The read then uses a replica that is not older than that write.
func (s *scribe) confirm() {
	call := monotonic()
	ctx, cancel := context.WithTimeout(context.Background(), impatience)
	defer cancel()
	barrier, err := s.register.Put(ctx, "barrier", nil)
	if err != nil {
		return
	}
	if revision, err := s.last(ctx, list, barrier); err == nil {
		s.log.write(attempt{Kind: confirmed, What: list, Token: s.term.Token(), Call: call, End: monotonic(), Rev: revision, Out: accepted})
	}
}

// lookUp reads the last revision from any replica that has everything that the term has
// seen, and its guard. If the lease is valid afterwards, no other term can have written
// since.
func (s *scribe) lookUp(what string) (uint64, bool) {
	call := monotonic()
	ctx, cancel := context.WithTimeout(context.Background(), impatience)
	defer cancel()
	floor := s.floor.Load()
	if !s.spec.Bare {
		floor = max(floor, s.register.GuardRevision())
	}
	revision, err := s.last(ctx, what, floor)
	if err != nil || leader.Err(s.term.Context()) != nil {
		return 0, false
	}
	s.sees(revision)
	s.log.write(attempt{Kind: leased, What: what, Token: s.term.Token(), Call: call, End: monotonic(), Rev: revision, Out: accepted})
	return revision, true
}

var errOld = errors.New("the replica is older")

// last returns the revision of the last value according to one replica, any that has
// everything up to floor.
func (k *desk) last(ctx context.Context, what string, floor uint64) (uint64, error) {
	inbox := k.nc.NewInbox()
	sub, err := k.nc.SubscribeSync(inbox)
	if err != nil {
		return 0, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	request, err := json.Marshal(map[string][]string{"multi_last": {k.spec.subject(what)}})
	if err != nil {
		return 0, err
	}
	if err := k.nc.PublishRequest("$JS.API.DIRECT.GET."+k.spec.stream(), inbox, request); err != nil {
		return 0, err
	}
	var revision uint64
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return 0, err
		}
		if m.Header.Get("Status") == "" {
			revision, err = strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
			if err != nil {
				return 0, err
			}
			continue
		}
		upTo, err := strconv.ParseUint(m.Header.Get("Nats-UpTo-Sequence"), 10, 64)
		if err != nil {
			return 0, errors.New(m.Header.Get("Description"))
		}
		if upTo < floor {
			return 0, errOld
		}
		return revision, nil
	}
}
