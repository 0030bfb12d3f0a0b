//go:build field

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// The target figures of the library, each beside the bare NATS operation that it is
// compared with, in the same run and turn by turn.

// benchSamples are durations of one operation.
type benchSamples []time.Duration

// at returns the sample below which the share p of them lies.
func (s benchSamples) at(p float64) time.Duration {
	slices.Sort(s)
	return s[min(len(s)-1, int(float64(len(s))*p))]
}

func benchMicros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// benchBoth reports the medians of ours and bare, and their ratio.
func benchBoth(b *testing.B, ours, bare benchSamples) {
	b.Helper()
	b.ReportMetric(0, "ns/op") // the figure of the loop is of no use
	b.ReportMetric(benchMicros(ours.at(0.5)), "µs-ours")
	b.ReportMetric(benchMicros(bare.at(0.5)), "µs-bare")
	b.ReportMetric(benchMicros(ours.at(0.99)), "µs-ours-p99")
	b.ReportMetric(benchMicros(bare.at(0.99)), "µs-bare-p99")
	b.ReportMetric(float64(ours.at(0.5))/float64(bare.at(0.5)), "ratio")
}

// benchPlaces runs a benchmark against one embedded server, with one replica in memory or on file, and
// against a cluster of three with three replicas on file.
func benchPlaces(b *testing.B, bench func(b *testing.B, dial func() *nats.Conn, conf jetstream.KeyValueConfig)) {
	b.Helper()
	for name, storage := range map[string]jetstream.StorageType{
		"embedded": jetstream.MemoryStorage, "embedded-on-file": jetstream.FileStorage,
	} {
		b.Run(name, func(b *testing.B) {
			s := benchServer(b, storage)
			bench(b, func() *nats.Conn { return tcpDial(b, s.ClientURL()) }, jetstream.KeyValueConfig{Storage: storage})
		})
	}
	b.Run("three-replicas-on-file", func(b *testing.B) {
		bench(b, clusterStart(b).dial, jetstream.KeyValueConfig{Storage: jetstream.FileStorage, Replicas: 3})
	})
}

// benchServer returns a server with the bucket E.
func benchServer(b *testing.B, storage jetstream.StorageType) *server.Server {
	b.Helper()
	s := tcpServe(b, tcpOptions(b, ""))
	tcpCreate(b, tcpJS(b, tcpDial(b, s.ClientURL())), leader.BucketConfig{Storage: storage})
	return s
}

func benchKV(b *testing.B, nc *nats.Conn) jetstream.KeyValue {
	b.Helper()
	kv := check.Got(tcpJS(b, nc).KeyValue(b.Context(), "E"))(b)
	return kv
}

// benchCampaign returns a candidate, and sends the times of its elections on the
// channel.
func benchCampaign(b *testing.B, store leader.Store, election string, cfg leader.Config, elected chan<- time.Time) *leader.Candidate {
	b.Helper()
	c := check.Got(leader.Campaign(b.Context(), store, election, cfg))(b)
	go func() {
		for e := range c.Events(context.Background()) {
			if _, ok := e.(leader.Elected); ok {
				elected <- time.Now()
			}
		}
	}()
	return c
}

func benchStop(b *testing.B, c *leader.Candidate) {
	b.Helper()
	check.OK(b, c.Stop())
}

// BenchmarkHandover measures from Resign to the other's Elected, against an update, its
// delivery to a plain subscription, and an update by the receiver. Both begin after the
// same idle moment, as handovers do, or while all threads are busy, where every
// goroutine in between counts more.
func BenchmarkHandover(b *testing.B) {
	benchPlaces(b, func(b *testing.B, dial func() *nats.Conn, _ jetstream.KeyValueConfig) {
		benchWarmths(b, func(b *testing.B, warmth benchWarmth) {
			benchHandover(b, dial, warmth, leader.Config{}, (*leader.Term).Resign)
		})
	})
}

// benchWarmth is the preparation of a handover: an idle moment, and a number of round
// trips.
type benchWarmth struct {
	idle  time.Duration
	trips int
}

func benchWarmths(b *testing.B, bench func(b *testing.B, warmth benchWarmth)) {
	b.Helper()
	b.Run("from-idle", func(b *testing.B) { bench(b, benchWarmth{5 * time.Millisecond, 5}) })
	b.Run("hot", func(b *testing.B) { bench(b, benchWarmth{0, 60}) })
}

func benchHandover(b *testing.B, dial func() *nats.Conn, warmth benchWarmth, cfg leader.Config, handOver func(*leader.Term, context.Context) error) {
	b.Helper()
	ours, bare := benchHandovers(b, b.Loop, dial, warmth, cfg, handOver)
	benchBoth(b, ours, bare)
}

// benchHandovers returns what the handovers took, and the bare operations beside them.
func benchHandovers(b *testing.B, again func() bool, dial func() *nats.Conn, warmth benchWarmth, cfg leader.Config, handOver func(*leader.Term, context.Context) error) (ours, bare benchSamples) {
	b.Helper()
	one, two := dial(), dial()
	storeA, storeB := tcpBucket(b, tcpJS(b, one)), tcpBucket(b, tcpJS(b, two))
	kvA, kvB := benchKV(b, one), benchKV(b, two)
	value := make([]byte, 180) // as long as a record
	warm := func() {
		<-time.After(warmth.idle)
		for range warmth.trips {
			check.OK(b, one.Flush())
			check.OK(b, two.Flush())
		}
	}
	for n := 0; again(); n++ {
		election := fmt.Sprintf("e%d.%s", n, nats.NewInbox()[7:])
		first, second := make(chan time.Time, 1), make(chan time.Time, 1)
		cfg.ID, cfg.TurnTimeout = "a", longTurn
		a := benchCampaign(b, storeA, election, cfg, first)
		<-first
		cfg.ID, cfg.TurnTimeout = "b", 0
		c := benchCampaign(b, storeB, election, cfg, second)
		tcpEventually(b, "b listens", func() bool { return c.Leader().State == leader.HolderLeading })
		if cfg.Queue != nil {
			tcpEventually(b, "a knows that b is next", func() bool { return benchLine(b, kvA, a) == 1 })
		}
		warm()
		began := time.Now()
		check.OK(b, handOver(leadertest.Led(a), b.Context()))
		ours = append(ours, (<-second).Sub(began))
		benchStop(b, a)
		benchStop(b, c)

		key := "bare." + election
		rev := check.Got(kvA.Create(b.Context(), key, value))(b)
		sub, err := two.Subscribe("natsleader.feed.E."+key, func(*nats.Msg) {
			if _, uerr := kvB.Update(b.Context(), key, value, rev+1); uerr == nil {
				second <- time.Now()
			}
		})
		check.OK(b, err)
		warm()
		began = time.Now()
		check.Got(kvA.Update(b.Context(), key, value, rev))(b)
		bare = append(bare, (<-second).Sub(began))
		check.OK(b, sub.Unsubscribe())
	}
	return ours, bare
}

// BenchmarkRenewal measures a renewal, caused by Proclaim, against an update of as many
// bytes.
func BenchmarkRenewal(b *testing.B) {
	benchPlaces(b, func(b *testing.B, dial func() *nats.Conn, _ jetstream.KeyValueConfig) {
		nc := dial()
		elected := make(chan time.Time, 1)
		c := benchCampaign(b, tcpBucket(b, tcpJS(b, nc)), "e", leader.Config{ID: "a", LeaseDuration: 15 * time.Second}, elected)
		<-elected
		defer benchStop(b, c)
		kv := benchKV(b, nc)
		value := make([]byte, 180)
		rev := check.Got(kv.Create(b.Context(), "bare", value))(b)
		proclaim := func() { check.OK(b, leadertest.Led(c).Proclaim(b.Context(), nil)) }
		update := func() {
			next, uerr := kv.Update(b.Context(), "bare", value, rev)
			for refused := new(jetstream.APIError); errors.As(uerr, &refused) && refused.ErrorCode == wire.CodeWrongLastConstant; {
				e, gerr := kv.Get(b.Context(), "bare") // three replicas refuse now and then, and may have stored it
				check.OK(b, gerr)
				next, uerr = kv.Update(b.Context(), "bare", value, e.Revision())
			}
			check.OK(b, uerr)
			rev = next
		}
		var ours, bare benchSamples
		for b.Loop() {
			began := time.Now()
			proclaim()
			ours = append(ours, time.Since(began))
			began = time.Now()
			update()
			bare = append(bare, time.Since(began))
		}
		benchBoth(b, ours, bare)
		// The allocations of an embedded server count on both sides.
		b.ReportMetric(testing.AllocsPerRun(500, proclaim)-testing.AllocsPerRun(500, update), "allocs-more")
		b.ReportMetric(testing.AllocsPerRun(500, update), "allocs-bare")
	})
}

// BenchmarkCrash measures from the moment at which a leader is gone, with nothing
// released, to the other's Elected. Fifty leaders crash in each turn.
func BenchmarkCrash(b *testing.B) {
	const (
		leaders = 50
		lease   = 600 * time.Millisecond
	)
	s := benchServer(b, jetstream.MemoryStorage)
	store := tcpBucket(b, tcpJS(b, tcpDial(b, s.ClientURL())))
	var crash, late benchSamples
	for n := 0; b.Loop(); n++ {
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range leaders {
			election := fmt.Sprintf("e%d.%d", n, i)
			nc := tcpDial(b, s.ClientURL())
			first, second := make(chan time.Time, 1), make(chan time.Time, 1)
			cfg := leader.Config{LeaseDuration: lease}
			benchCampaign(b, tcpBucket(b, tcpJS(b, nc)), election, cfg, first)
			<-first
			c := benchCampaign(b, store, election, cfg, second)
			all.Go(func() {
				// Each at a different moment between two renewals.
				<-time.After(lease + time.Duration(i)*lease/leaders/3)
				nc.Close()
				began := time.Now()
				<-time.After(lease / 10) // its last write may still be on its way
				h := c.Leader()
				at := <-second
				mu.Lock()
				crash = append(crash, at.Sub(began))
				late = append(late, at.Sub(h.Renewed)-lease)
				mu.Unlock()
				benchStop(b, c)
			})
		}
		all.Wait()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(lease.Milliseconds()), "ms-lease")
	b.ReportMetric(benchMicros(crash.at(0.99))/1e3, "ms-crash-to-elected-p99")
	b.ReportMetric(benchMicros(late.at(0.5))/1e3, "ms-renewal-to-elected-less-lease")
	b.ReportMetric(benchMicros(late.at(0.99))/1e3, "ms-renewal-to-elected-less-lease-p99")
	b.ReportMetric(float64(len(crash)), "crashes")
}

// BenchmarkWaiting counts the messages that waiting candidates send to the server in
// ten leases.
func BenchmarkWaiting(b *testing.B) {
	const (
		waiting = 10
		lease   = 300 * time.Millisecond
	)
	for _, feed := range []string{"republished", "with-a-watch"} {
		b.Run(feed, func(b *testing.B) {
			s := tcpServe(b, tcpOptions(b, ""))
			js := tcpJS(b, tcpDial(b, s.ClientURL()))
			if feed == "republished" {
				tcpCreate(b, js, leader.BucketConfig{MaxLease: lease})
			} else {
				check.Got(js.CreateStream(b.Context(), tcpSealedWithoutFeed(lease)))(b)
			}
			elected := make(chan time.Time, 100)
			holder := benchCampaign(b, tcpBucket(b, js), "e", leader.Config{}, elected)
			<-elected
			defer benchStop(b, holder)
			nc := tcpDial(b, s.ClientURL())
			store := tcpBucket(b, tcpJS(b, nc))
			for range waiting {
				defer benchStop(b, benchCampaign(b, store, "e", leader.Config{}, elected))
			}
			<-time.After(2 * lease)
			id := check.Got(nc.GetClientID())(b)
			heard := func() int64 {
				z := check.Got(s.Connz(&server.ConnzOptions{CID: id}))(b)
				return z.Conns[0].InMsgs
			}
			var requests int64
			turns := 0
			for ; b.Loop(); turns++ {
				before := heard()
				<-time.After(10 * lease)
				requests += heard() - before
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(requests)/float64(turns*waiting), "requests/10-leases")
		})
	}
}

// BenchmarkCrowd runs 5,000 candidates for one key on one connection.
func BenchmarkCrowd(b *testing.B) {
	b.Run("race", func(b *testing.B) { benchCrowd(b, 1, leader.Config{}) })
	b.Run("race-with-a-roster", func(b *testing.B) { benchCrowd(b, 1, leader.Config{Queue: &leader.Queue{AtOnce: true}}) })
	b.Run("queue", func(b *testing.B) { benchCrowd(b, 1, leader.Config{Queue: &leader.Queue{}}) })
	b.Run("queue-on-five-connections", func(b *testing.B) { benchCrowd(b, 5, leader.Config{Queue: &leader.Queue{}}) })
}

func benchCrowd(b *testing.B, connections int, cfg leader.Config) {
	b.Helper()
	const crowd = 5000
	s := tcpServe(b, tcpOptions(b, ""))
	ops := tcpDial(b, s.ClientURL())
	tcpCreate(b, tcpJS(b, ops), leader.BucketConfig{
		Storage: jetstream.MemoryStorage, MaxLease: 10 * time.Minute, Roster: cfg.Queue != nil,
	})
	// A plain subscription receives all writes, including rejected ones.
	var writes atomic.Int64
	check.Got(ops.Subscribe("$KV.E.e", func(*nats.Msg) { writes.Add(1) }))(b)
	stores := make([]*leader.Bucket, connections)
	for i := range stores {
		stores[i] = tcpBucket(b, tcpJS(b, tcpDial(b, s.ClientURL())))
	}
	all := make([]*leader.Candidate, 0, crowd)
	for range crowd {
		c := check.Got(leader.Campaign(b.Context(), stores[len(all)%connections], "e", cfg))(b)
		all = append(all, c)
		// In waves, as processes start. If all started at once, Go would keep the
		// descriptors of 5,000 goroutines that have long ended.
		if len(all)%50 == 0 {
			tcpEventually(b, "the last one knows the leader", func() bool { return c.Leader().State == leader.HolderLeading })
		}
	}
	tcpEventually(b, "all know the leader", func() bool {
		for _, c := range all {
			if c.Leader().State != leader.HolderLeading {
				return false
			}
		}
		return true
	})
	elected := make(chan *leader.Candidate, crowd)
	var took benchSamples
	for _, c := range all {
		go func() {
			for e := range c.Events(context.Background()) {
				if _, ok := e.(leader.Elected); ok {
					elected <- c
				}
			}
		}()
	}
	holder := <-elected
	// settled waits until all know the leader and there are no more writes.
	settled := func() int64 {
		last, since := int64(-1), time.Now()
		tcpEventually(b, "all know the leader", func() bool {
			if n := writes.Load(); n != last {
				last, since = n, time.Now()
			}
			return time.Since(since) > 300*time.Millisecond && !slices.ContainsFunc(all, func(c *leader.Candidate) bool {
				h := c.Leader()
				return h.ID != holder.ID()
			})
		})
		return last
	}
	var most int64
	for b.Loop() {
		before := settled()
		began := time.Now()
		check.OK(b, leadertest.Resign(b.Context(), holder))
		holder = <-elected
		took = append(took, time.Since(began))
		most = max(most, settled()-before-1) // without the release
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(benchMicros(took.at(0.5))/1e3, "ms-to-new-leader")
	b.ReportMetric(benchMicros(took.at(1))/1e3, "ms-to-new-leader-worst")
	b.ReportMetric(float64(most)/crowd, "writes/candidate/vacancy")
	b.ReportMetric(float64(most+1), "writes/vacancy-worst")
	var stops sync.WaitGroup
	for _, c := range all {
		stops.Go(func() { _ = c.Stop() })
	}
	stops.Wait()
}

// BenchmarkAsksTheClock has all that a worker may ask before each item, beside time.Now.
func BenchmarkAsksTheClock(b *testing.B) {
	led := func(cfg leader.Config) (*leader.Candidate, *leader.Term) {
		c := benchLeader(b, cfg)
		term, ok := c.Term()
		check.Must(b, ok, "no term")
		return c, term
	}
	c, term := led(leader.Config{})
	lead := term.Context()
	_, watched := led(leader.Config{StallTimeout: time.Hour})
	child, cancel := context.WithTimeout(lead, time.Hour)
	defer cancel()
	exact := leader.Exact(child)
	for _, k := range []struct {
		name string
		ok   func() bool
	}{
		{"time.Now", func() bool { return !time.Now().IsZero() }},
		{"Context.Err", func() bool { return lead.Err() == nil }},
		{"Context.Err/StallTimeout", func() bool { return watched.Context().Err() == nil }},
		{"Exact.Err", func() bool { return exact.Err() == nil }},
		{"Context.Done", func() bool { return lead.Done() != nil }},
		{"leader.Err", func() bool { return leader.Err(child) == nil }},
		{"IsLeader", c.IsLeader},
	} {
		b.Run(k.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !k.ok() { // check.Must takes longer than what is measured
					b.Fatal("it does not lead")
				}
			}
		})
	}
}

func benchLeader(b *testing.B, cfg leader.Config) *leader.Candidate {
	b.Helper()
	s := benchServer(b, jetstream.MemoryStorage)
	elected := make(chan time.Time, 1)
	c := benchCampaign(b, tcpBucket(b, tcpJS(b, tcpDial(b, s.ClientURL()))), "e", cfg, elected)
	<-elected
	b.Cleanup(func() { benchStop(b, c) })
	return c
}
