//go:build field && linux

package torture_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// candidateSpec is the configuration of a candidate's process.
type candidateSpec struct {
	ID       string
	Shards   int           // of the group that it joins in each bucket; 0: it stands in an election
	Member   string        // its ID in the group
	Hold     time.Duration // as a member
	URLs     []string      // of its links, in the order in which it tries them
	Ping     time.Duration
	Lease    time.Duration     // 0: the default
	Journal  map[string]string // a path for each bucket that it stands in
	MinToken map[string]uint64
	Ledger   map[string]ledgerSpec // the ledger that it writes as the leader in a bucket
	Zombie   bool                  // claims after its term: the checkers must find that
	Locks    bool                  // it takes the lock of that name, and gives it back, again and again
}

const electionName = "torture"

// stand is the process of a candidate, or of a member of a group. It has one connection, and a
// worker in the election or group of each bucket. It obeys the lines of its standard input, and SIGTERM.
func stand(spec candidateSpec) {
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	workers := make(map[string]*worker)
	tell := func(e entry) {
		for _, w := range workers {
			e.At = monotonic()
			w.journal.write(e)
		}
	}
	for bucket, path := range spec.Journal {
		workers[bucket] = &worker{journal: must(openJournal(path)), zombie: spec.Zombie}
	}
	nc := must(nats.Connect(strings.Join(spec.URLs, ","),
		nats.Name(spec.ID),
		nats.DontRandomize(),
		nats.MaxReconnects(-1),
		nats.RetryOnFailedConnect(true),
		nats.PingInterval(spec.Ping),
		nats.ConnectHandler(func(nc *nats.Conn) { tell(entry{What: connected, Text: nc.ConnectedServerName()}) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { tell(entry{What: connected, Text: nc.ConnectedServerName()}) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { tell(entry{What: disconnected, Text: fmt.Sprint(err)}) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			_, _ = fmt.Fprintln(os.Stderr, time.Now().Format(time.StampMilli), err)
		}),
	))
	js := must(jetstream.New(nc))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var all sync.WaitGroup
	for bucket, w := range workers {
		w.journal.write(entry{At: monotonic(), What: began})
		l, writes := spec.Ledger[bucket]
		if writes {
			w.desk = openDesk(js, spec.ID, l)
		}
		if spec.Shards > 0 {
			all.Go(func() { w.share(ctx, must(leader.OpenBucket(js, bucket)), spec) })
			continue
		}
		cfg := leader.Config{ID: spec.ID, LeaseDuration: spec.Lease, MinToken: spec.MinToken[bucket]}
		if writes {
			cfg.Guards = w.desk.guards()
		}
		if spec.Locks {
			all.Go(func() { w.lock(ctx, must(leader.OpenBucket(js, bucket)), cfg) })
			continue
		}
		w.candidate = must(leader.Campaign(ctx, must(leader.OpenBucket(js, bucket)), electionName, cfg))
		w.hurry = make(chan struct{}, 1)
		all.Go(w.run)
	}
	stopped := make(chan struct{})
	go func() { all.Wait(); close(stopped) }()
	lines := make(chan string)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
		os.Exit(1) // the test is gone
	}()
	for {
		select {
		case <-terminate:
			for _, w := range workers {
				w.hasten()
			}
			stop()
		case line := <-lines:
			switch order, bucket, _ := strings.Cut(line, " "); order {
			case "resign":
				workers[bucket].hasten()
				if term, ok := workers[bucket].candidate.Term(); ok {
					go func() { _ = term.Resign(ctx) }()
				}
			case "wait":
				workers[bucket].desk.waits.Store(true)
			case "go":
				workers[bucket].desk.goOn <- struct{}{}
			}
		case <-stopped:
			for _, w := range workers {
				if w.desk != nil {
					w.desk.close()
				}
				w.journal.write(entry{At: monotonic(), What: ended})
			}
			return
		}
	}
}

const (
	pace   = time.Millisecond      // between two claims
	stride = 20 * time.Millisecond // of claims that are written down together
	rush   = 5 * time.Millisecond  // before the end of a lease, claims without a pause
)

// post is what a process holds: a term of an election, or a shard. It claims, as often as it can, to hold it.
type post struct {
	journal *journal
	shard   string // empty: a term
	token   uint64
	ctx     context.Context
	left    func() time.Duration // until the lease runs out; 0: the context has ended
	zombie  bool
	over    bool // it was seen to be over

	first, now int64         // claims that are not written yet; first 0: none
	remained   time.Duration // of the lease at the last claim
}

// claim writes "I held it at now" if that is so.
//
// The clock is read before the context is checked. A context that is alive when it is
// checked has been alive since it began, because one that has ended stays so (which is
// checked, too). So it was alive at the earlier reading of the clock. If the process is
// stopped between the two, it finds the context ended when it continues, and claims
// nothing. If it is stopped after the check, the claim is written late, but it is for
// the earlier instant. In the other order, a process that is stopped between the check
// and the clock would claim an instant long after its lease. So claims may cover too
// little, by one pace, and never too much.
func (p *post) claim() {
	now := monotonic()
	err := leader.Err(p.ctx)
	if p.zombie && errors.Is(err, leader.ErrLeaseExpired) {
		err = nil
	}
	switch {
	case err != nil:
		p.over = true
		p.flush()
		return
	case p.over:
		p.write(entry{At: now, What: revived})
	}
	if p.first == 0 {
		p.first = now
	}
	p.now, p.remained = now, p.left()
	if p.now-p.first >= int64(stride) {
		p.flush()
	}
}

// flush writes the claims since the last flush as one stretch.
func (p *post) flush() {
	if p.first != 0 {
		p.write(entry{At: p.now, What: leads, From: p.first, Left: int64(p.remained)})
		p.first = 0
	}
}

// lose writes down the end of the context.
func (p *post) lose(at int64, what string, cause error) {
	e := entry{At: at, What: what, Text: cause.Error(), Left: int64(p.left())}
	if ended, err := context.Cause(p.ctx), leader.Err(p.ctx); ended != nil && err != nil {
		if e.Context = ended.Error(); e.Context == e.Text {
			e.Context = err.Error()
		}
	}
	p.write(e)
}

func (p *post) write(e entry) {
	e.Shard, e.Token = p.shard, p.token
	p.journal.write(e)
}

// worker does the work of a leader, or of a member of a group.
type worker struct {
	candidate *leader.Candidate
	journal   *journal
	desk      *desk         // nil if it does nothing but claim
	hurry     chan struct{} // the term is about to end: claim without a pause
	hurried   bool
	zombie    bool

	post *post // from Elected to Deposed
}

func (w *worker) hasten() {
	select {
	case w.hurry <- struct{}{}:
	default:
	}
}

func (w *worker) run() {
	for events := w.candidate.Events(context.Background()); ; {
		var next <-chan time.Time
		if w.post != nil {
			w.post.claim()
			wait := pace
			if !w.post.over && (w.hurried || w.post.left() < rush) {
				wait = 0
			}
			next = time.After(wait)
		}
		select {
		case e, more := <-events:
			if !more {
				return
			}
			w.hear(e)
		case <-w.hurry:
			w.hurried = true
		case <-next:
		}
	}
}

func (w *worker) of(t *leader.Term) *post {
	return &post{journal: w.journal, token: t.Token(), ctx: t.Context(), left: t.Remaining, zombie: w.zombie}
}

// hear writes down an event, at the instant at which it was heard.
func (w *worker) hear(e leader.Event) {
	w.flushBefore(e)
	at := monotonic()
	switch e := e.(type) {
	case leader.Pending:
		// The clock is read after at, and the time left is then shorter, not longer.
		left := time.Until(e.Until)
		w.journal.write(entry{At: at, What: pending, Token: e.Token, Left: int64(left)})
	case leader.Elected:
		w.post, w.hurried = w.of(e.Term), false
		w.post.write(entry{At: at, What: elected})
		if w.desk != nil {
			w.desk.employ(e.Term)
		}
	case leader.Fenced:
		w.of(e.Term).lose(at, fenced, e.Cause)
	case leader.Deposed:
		w.of(e.Term).lose(at, deposed, e.Cause)
		w.post = nil
	case leader.Observed:
		seen := entry{At: at, What: observed}
		if e.Holder.State == leader.HolderLeading {
			seen.ID, seen.Token = e.Holder.ID, e.Holder.Token
		}
		w.journal.write(seen)
	case leader.Faulted:
		w.journal.write(entry{At: at, What: faulted, Text: e.Err.Error()})
	}
}

// flushBefore writes the claims before the event that ends them. A zombie ignores that
// event for a while.
func (w *worker) flushBefore(e leader.Event) {
	if w.post == nil {
		return
	}
	if _, lost := e.(leader.Deposed); lost {
		w.post.haunt()
	}
	w.post.flush()
}

// haunt lets a zombie claim for a while after the end of its context.
func (p *post) haunt() {
	for end := time.Now().Add(time.Second); p.zombie && time.Now().Before(end); time.Sleep(pace) {
		p.claim()
	}
}
