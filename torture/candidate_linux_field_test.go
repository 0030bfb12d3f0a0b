//go:build field && linux

package torture_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// candidateSpec is the configuration of a candidate's process.
type candidateSpec struct {
	ID       string
	URLs     []string // of its links, in the order in which it tries them
	Ping     time.Duration
	Lease    time.Duration     // 0: the default
	Journal  map[string]string // a path for each bucket that it stands in
	MinToken map[string]uint64
	Ledger   map[string]ledgerSpec // the ledger that it writes as the leader in a bucket
	Zombie   bool                  // claims after its term: the checkers must find that
}

const electionName = "torture"

// stand is the process of a candidate. It has one connection, and a worker in the
// election of each bucket, and it obeys the lines of its standard input.
func stand(spec candidateSpec) {
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
		cfg := leader.Config{ID: spec.ID, LeaseDuration: spec.Lease, MinToken: spec.MinToken[bucket]}
		if l, writes := spec.Ledger[bucket]; writes {
			w.desk = openDesk(js, spec.ID, l)
			cfg.Guards = w.desk.guards()
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
		case line := <-lines:
			switch order, bucket, _ := strings.Cut(line, " "); order {
			case "resign":
				workers[bucket].hasten()
				go func() { _ = workers[bucket].candidate.Resign(ctx) }()
			case "wait":
				workers[bucket].desk.waits.Store(true)
			case "go":
				workers[bucket].desk.goOn <- struct{}{}
			default: // it is to stop
				for _, w := range workers {
					w.hasten()
				}
				stop()
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

// worker does the work of a leader: it claims, as often as it can, to lead.
type worker struct {
	candidate *leader.Candidate
	journal   *journal
	desk      *desk         // nil if it does nothing but claim
	hurry     chan struct{} // the term is about to end: claim without a pause
	hurried   bool
	zombie    bool

	term       *leader.Term // from Elected to Deposed
	over       bool         // the term was seen to be over
	first, now int64        // claims that are not written yet; first 0: none
	left       time.Duration
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
		if w.term != nil {
			w.claim()
			wait := pace
			if !w.over && (w.hurried || w.term.Remaining() < rush) {
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

// claim writes "I led at now" if that is so.
//
// The clock is read before the term is checked. A term that is valid when it is checked
// has been valid since it began, because a term that is over stays over (which is
// checked, too). So it was valid at the earlier reading of the clock. If the process is
// stopped between the two, it finds the term over when it continues, and claims
// nothing. If it is stopped after the check, the claim is written late, but it is for
// the earlier instant. In the other order, a process that is stopped between the check
// and the clock would claim an instant long after its lease. So claims may cover too
// little, by one pace, and never too much.
func (w *worker) claim() {
	now := monotonic()
	err := leader.Err(w.term.Context())
	if w.zombie && errors.Is(err, leader.ErrLeaseExpired) {
		err = nil
	}
	switch {
	case err != nil:
		w.over = true
		w.flush()
		return
	case w.over:
		w.journal.write(entry{At: now, What: revived, Token: w.term.Token()})
	}
	if w.first == 0 {
		w.first = now
	}
	w.now, w.left = now, w.term.Remaining()
	if w.now-w.first >= int64(stride) {
		w.flush()
	}
}

// flush writes the claims since the last flush as one stretch.
func (w *worker) flush() {
	if w.first != 0 {
		w.journal.write(entry{At: w.now, What: leads, Token: w.term.Token(), From: w.first, Left: int64(w.left)})
		w.first = 0
	}
}

// hear writes down an event, at the instant at which it was heard.
func (w *worker) hear(e leader.Event) {
	w.flushBefore(e)
	at := monotonic()
	switch e := e.(type) {
	case leader.Pending:
		// The clock is read after at, and the time left is then shorter, not longer.
		left := e.Until.Sub(leader.SystemClock().Now())
		w.journal.write(entry{At: at, What: pending, Token: e.Token, Left: int64(left)})
	case leader.Elected:
		w.journal.write(entry{At: at, What: elected, Token: e.Term.Token()})
		w.term, w.over, w.hurried = e.Term, false, false
		if w.desk != nil {
			w.desk.employ(e.Term)
		}
	case leader.Fenced:
		w.lose(at, fenced, e.Term, e.Cause)
	case leader.Deposed:
		w.lose(at, deposed, e.Term, e.Cause)
		w.term = nil
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

// lose writes down a loss, and what the term says of it.
func (w *worker) lose(at int64, what string, t *leader.Term, cause error) {
	e := entry{At: at, What: what, Token: t.Token(), Text: cause.Error(), Left: int64(t.Remaining())}
	if ended, err := context.Cause(t.Context()), leader.Err(t.Context()); ended != nil && err != nil {
		if e.Context = ended.Error(); e.Context == e.Text {
			e.Context = err.Error()
		}
	}
	w.journal.write(e)
}

// flushBefore writes the claims before the event that ends them. A zombie ignores that
// event for a while.
func (w *worker) flushBefore(e leader.Event) {
	if _, lost := e.(leader.Deposed); lost && w.zombie && w.term != nil {
		for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(pace) {
			w.claim()
		}
	}
	if w.term != nil {
		w.flush()
	}
}
