//go:build field

package leader_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// BenchmarkTransfer is BenchmarkHandover by Transfer to the other candidate, which then
// has no turn to wait for.
func BenchmarkTransfer(b *testing.B) {
	transfer := func(a *leader.Candidate, ctx context.Context) error { return a.TransferTo(ctx, "b") }
	benchPlaces(b, func(b *testing.B, dial func() *nats.Conn, _ jetstream.KeyValueConfig) {
		b.Run("without-a-roster", func(b *testing.B) {
			benchWarmths(b, func(b *testing.B, warmth benchWarmth) {
				benchHandover(b, dial, warmth, leader.Config{}, transfer)
			})
		})
		benchRoster(b, tcpJS(b, dial()))
		b.Run("in-a-queue", func(b *testing.B) {
			benchWarmths(b, func(b *testing.B, warmth benchWarmth) {
				benchHandover(b, dial, warmth, leader.Config{Succession: leader.Queue{}}, transfer)
			})
		})
	})
}

// benchRoster makes the roster of the bucket E.
func benchRoster(b *testing.B, js jetstream.JetStream) {
	b.Helper()
	s := check.Got(js.Stream(b.Context(), "KV_E"))(b)
	conf := s.CachedInfo().Config
	clusterPlaced(b, func() error {
		_, err := leader.CreateOrUpdateBucket(b.Context(), js, leader.BucketConfig{Name: "E", Storage: conf.Storage, Replicas: conf.Replicas, Roster: true})
		return err
	})
}

// benchLine returns how many candidates are in line according to the key's record,
// which the leader writes anew first.
func benchLine(b *testing.B, kv jetstream.KeyValue, c *leader.Candidate) int {
	b.Helper()
	check.OK(b, c.Proclaim(b.Context(), nil))
	e := check.Got(kv.Get(b.Context(), c.Election()))(b)
	var record struct {
		Next []string `json:"next"`
	}
	check.OK(b, json.Unmarshal(e.Value(), &record))
	return len(record.Next)
}

// BenchmarkDeadInQueue: a leader resigns, and the first five of its ten followers
// are gone. It counts the turns that pass until the next candidate leads.
func BenchmarkDeadInQueue(b *testing.B) {
	const (
		queue = 11 // with the leader
		dead  = 5
		turn  = 50 * time.Millisecond
	)
	s := benchServer(b, jetstream.MemoryStorage)
	benchRoster(b, tcpJS(b, tcpDial(b, s.ClientURL())))
	kv := benchKV(b, tcpDial(b, s.ClientURL()))
	var took benchSamples
	for n := 0; b.Loop(); n++ {
		var conns []*nats.Conn
		var all []*leader.Candidate
		first, next := make(chan time.Time, 1), make(chan time.Time, queue)
		elected := first
		for i := range queue {
			conns = append(conns, tcpDial(b, s.ClientURL()))
			cfg := leader.Config{ID: fmt.Sprint("c", i), Succession: leader.Queue{}, TurnTimeout: turn}
			all = append(all, benchCampaign(b, tcpBucket(b, tcpJS(b, conns[i])), fmt.Sprint("dead", n), cfg, elected))
			if i == 0 {
				<-first
				elected = next
				continue
			}
			tcpEventually(b, "the leader knows who follows", func() bool { return benchLine(b, kv, all[0]) == min(i, 8) })
		}
		for _, nc := range conns[1 : dead+1] {
			nc.Close()
		}
		began := time.Now()
		check.OK(b, all[0].Resign(b.Context()))
		took = append(took, (<-next).Sub(began)) // usually the first that lives
		for _, c := range all {
			_ = c.Stop(context.Background()) // of the dead: that they are
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(took.at(0.5))/float64(turn), "turns")
	b.ReportMetric(float64(took.at(1))/float64(turn), "turns-worst")
	b.ReportMetric(benchMicros(took.at(0.5)-dead*turn)/1e3, "ms-beyond-five-turns")
}

// BenchmarkRoster measures how many announcements 5,000 candidates that were started
// together make in a lease, and how evenly.
func BenchmarkRoster(b *testing.B) {
	const (
		crowd = 5000
		lease = 3 * time.Second
	)
	s := tcpServe(b, tcpOptions(b, ""))
	ops := tcpDial(b, s.ClientURL())
	tcpCreate(b, tcpJS(b, ops), leader.BucketConfig{Storage: jetstream.MemoryStorage, Roster: true})
	var mu sync.Mutex
	var tenths [10]int
	perKey := make(map[string]int, crowd)
	began := time.Now()
	_, err := ops.Subscribe("$KV.E_roster.>", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		tenths[time.Since(began)/(lease/10)%10]++
		perKey[m.Subject[strings.LastIndexByte(m.Subject, '.'):]]++
	})
	check.OK(b, err)
	// lapse lets a number of leases pass. It returns the announcements per lease, the
	// most announcements of one candidate, and the busiest tenth of a lease, of which
	// the mean is 1.
	lapse := func(leases int) (all, most, busiest float64) {
		mu.Lock()
		began, tenths = time.Now(), [10]int{}
		clear(perKey)
		mu.Unlock()
		<-time.After(time.Duration(leases) * lease)
		mu.Lock()
		defer mu.Unlock()
		for _, n := range tenths {
			all += float64(n)
		}
		for _, n := range perKey {
			most = max(most, float64(n))
		}
		return all / float64(leases), most, float64(slices.Max(tenths[:])) * 10 / all
	}
	store := tcpBucket(b, tcpJS(b, tcpDial(b, s.ClientURL())))
	all := make([]*leader.Candidate, 0, crowd)
	for range crowd {
		c := check.Got(leader.Campaign(b.Context(), store, "e", leader.Config{LeaseDuration: lease, Succession: leader.Queue{}}))(b)
		all = append(all, c)
	}
	lapse(1)
	_, _, second := lapse(1)
	var total, most, busiest float64
	leases := 0
	for b.Loop() {
		n, m, t := lapse(3)
		total += n
		most, busiest = max(most, m/3), max(busiest, t)
		leases++
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(total/float64(leases)/crowd, "announcements/candidate/lease")
	b.ReportMetric(most, "of-the-busiest")
	b.ReportMetric(busiest, "busiest-tenth/mean")
	b.ReportMetric(second, "busiest-tenth-at-first/mean")
	var stops sync.WaitGroup
	for _, c := range all {
		stops.Go(func() { _ = c.Stop(context.Background()) })
	}
	stops.Wait()
}
