//go:build field && unix

package leader_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// BenchmarkHandoverProcesses is BenchmarkHandover with the server and two candidates in three
// processes. The candidates live as long as the benchmark, and hand over to each other in turn. So
// it counts neither the work of the old leader after the release, nor goroutines whose stacks
// still grow. The times are from the clock of the machine, which the processes share.
func BenchmarkHandoverProcesses(b *testing.B) {
	w := scaleWorldOf(b)
	one := scaleStart(b, "a", "NATS_URL="+w.url)
	one.do("elected")
	two := scaleStart(b, "b", "NATS_URL="+w.url)
	two.do("follows")
	benchWarmths(b, func(b *testing.B, warmth benchWarmth) {
		var ours, bare benchSamples
		took := func(begin, end string) time.Duration {
			time.Sleep(3 * benchTurn) // twice between two handovers: who resigned waits for five turns
			for _, p := range []*scaleProcess{two, one} {
				p.ask(scaleRequest{Do: "warm", Limit: warmth.idle, Number: warmth.trips})
			}
			began := one.do(begin).At
			return two.do(end).At.Sub(began)
		}
		for b.Loop() {
			one.do("read")
			bare = append(bare, took("update", "updated"))
			two.do("follows")
			ours = append(ours, took("resign", "elected"))
			one, two = two, one
		}
		benchBoth(b, ours, bare)
	})
}

// benchTurn is the TurnTimeout. Five of them are longer than a handover takes on a busy machine.
// Otherwise the old leader would lead again.
const benchTurn = 50 * time.Millisecond

// benchHand is a process with one of the two candidates.
type benchHand struct {
	id               string
	nc               *nats.Conn
	kv               jetstream.KeyValue
	c                *leader.Candidate
	revision         uint64 // of the key of the bare operation
	elected, updated chan time.Time
}

// benchHandOf connects and campaigns, and returns what serves requests.
func benchHandOf(url, id string) func(scaleRequest) scaleReply {
	h := &benchHand{id: id, elected: make(chan time.Time, 1), updated: make(chan time.Time, 1)}
	ctx := context.Background()
	h.nc = scaleMust(nats.Connect(url))
	js := scaleMust(jetstream.New(h.nc))
	h.kv = scaleMust(js.KeyValue(ctx, "E"))
	scaleMust(h.kv.Put(ctx, "bare", nil))
	scaleMust(h.nc.Subscribe("natsleader.feed.E.bare", h.follow))
	store := scaleMust(leader.OpenBucket(js, "E"))
	h.c = scaleMust(leader.Campaign(ctx, store, "e", leader.Config{ID: id, TurnTimeout: benchTurn}))
	go func() {
		for e := range h.c.Events(ctx) {
			if _, ok := e.(leader.Elected); ok {
				h.elected <- time.Now()
			}
		}
	}()
	return h.serve
}

// update writes a value as long as a record, which begins with the name of its writer.
func (h *benchHand) update(name string, revision uint64) error {
	_, err := h.kv.Update(context.Background(), "bare", append([]byte(name), make([]byte, 180-len(name))...), revision)
	return err
}

// follow replies to the other process's update with one of its own.
func (h *benchHand) follow(m *nats.Msg) {
	if len(m.Data) == 0 || m.Data[0] == 0 || string(m.Data[:1]) == h.id {
		return
	}
	revision, err := strconv.ParseUint(m.Header.Get(nats.JSSequence), 10, 64)
	if err == nil && h.update("", revision) == nil {
		h.updated <- time.Now()
	}
}

func (h *benchHand) serve(q scaleRequest) (r scaleReply) {
	ctx, cancel := context.WithTimeout(context.Background(), tcpLimit)
	defer cancel()
	r.At = time.Now()
	switch q.Do {
	case "warm":
		time.Sleep(q.Limit)
		for range q.Number {
			scaleOK(h.nc.Flush())
		}
	case "read":
		h.revision = scaleMust(h.kv.Get(ctx, "bare")).Revision()
	case "update":
		scaleOK(h.update(h.id, h.revision))
	case "resign":
		scaleOK(leadertest.Led(h.c).Resign(ctx))
	case "follows":
		for l := h.c.Leader(); l.State != leader.HolderLeading || l.ID == h.id; l = h.c.Leader() {
			time.Sleep(time.Millisecond)
			scaleOK(ctx.Err())
		}
	case "updated", "elected":
		from := map[string]chan time.Time{"updated": h.updated, "elected": h.elected}[q.Do]
		select {
		case r.At = <-from:
		case <-ctx.Done():
			scaleOK(ctx.Err())
		}
	default:
		scaleOK(fmt.Errorf("no request %q", q.Do))
	}
	return r
}
