//go:build field

package leader_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// Five thousand candidates stand, on one connection, and a new view has them all.
func TestRoster_FiveThousand(t *testing.T) {
	const many = 5000
	srv := tcpServe(t, tcpOptions(t, ""))
	js := tcpJS(t, tcpDial(t, srv.ClientURL()))
	tcpCreate(t, js, leader.BucketConfig{Roster: true})
	b := tcpBucket(t, js)
	early := check.Got(stands(t, b, "e"))(t)
	var wg sync.WaitGroup
	for i := range many {
		wg.Add(1)
		session := []byte(rosterA)
		for at, rest := 0, i; rest > 0; at, rest = at+1, rest/26 {
			session[at] = 'A' + byte(rest%26)
		}
		b.Backend().Announce(t.Context(), "e", string(session), fmt.Appendf(nil, `{"id":"%d"}`, i), 3*15*time.Second, func(_ uint64, err error) {
			defer wg.Done()
			check.Is(t, err, nil)
		})
	}
	wg.Wait()
	late := check.Got(stands(t, tcpBucket(t, tcpJS(t, tcpDial(t, srv.ClientURL()))), "e"))(t)
	for what, v := range map[string]*rosterView{"who was there": early, "who comes": late} {
		tcpEventually(t, what+" has heard of all", func() bool {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.all >= many && v.done
		})
		told := v.take()
		check.That(t, v.all == many && v.err == nil && (what != "who comes" || told[many] == "complete"),
			"%s: %d entries, %v", what, v.all, v.err)
	}
}

// A put goes through the prefix of the JetStream API.
func TestRoster_OfADomain(t *testing.T) {
	srv := tcpServe(t, tcpOptions(t, `jetstream { domain: hub }`))
	nc := tcpDial(t, srv.ClientURL())
	js := check.Got(jetstream.NewWithDomain(nc, "hub"))(t)
	tcpCreate(t, js, leader.BucketConfig{Roster: true})
	b := tcpBucket(t, js)
	v := check.Got(stands(t, b, "e"))(t)
	check.Got(announceWithin(t, tcpLimit, b, "e", rosterA, "1", time.Minute))(t)
	tcpEventually(t, "the view tells", func() bool { return slices.Contains(v.take(), "A=1") })
}
