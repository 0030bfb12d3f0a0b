package main

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/doctor"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// swallowing are addresses that take no packet, for a world.
var swallowing = []string{"192.0.2.1:4222", "192.0.2.2:4222", "192.0.2.3:4222", "192.0.2.4:4222", "192.0.2.5:4222", "192.0.2.6:4222"}

// The servers advertise six addresses that swallow packets, and only the URL that was given works. A lost connection is made
// again before the lease is over: within six dials and the pause after them. An address that refuses takes no time.
func TestConnect_AdvertisedAddresses(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		for _, c := range []struct {
			lease       time.Duration
			urls        []string
			noDiscovery bool
			least, most time.Duration
		}{
			{0, swallowing, false, 7 * time.Second, 7500 * time.Millisecond},
			{0, swallowing, true, time.Second, 1500 * time.Millisecond},
			{0, []string{"10.0.0.1:1", "10.0.0.2:1"}, false, time.Second, 1500 * time.Millisecond},
			{3 * time.Second, swallowing, false, 3500 * time.Millisecond, 3750 * time.Millisecond},
			{time.Minute, swallowing[:1], false, 4 * time.Second, 5 * time.Second},
			{50 * time.Millisecond, swallowing[:1], false, time.Second, 1250 * time.Millisecond},
		} {
			w.Advertise(c.urls...)
			advertised := w.Dialled
			var link net.Conn
			w.Dialled = func(far net.Conn) net.Conn {
				link = far
				return advertised(far)
			}
			g := w.Globals()
			g.Dial = []nats.Option{nats.SetCustomDialer(w), nats.SkipHostLookup()}
			g.NoDiscovery = c.noDiscovery
			g.Fits(c.lease)
			back := make(chan struct{})
			// Nobody uses the connection meanwhile: nats.go holds a mutex while it dials, and the time of a bubble does not pass
			// while a goroutine waits for one.
			nc := expect.Got(g.Connect(nats.ReconnectHandler(func(*nats.Conn) { close(back) })))(w)
			time.Sleep(100 * time.Millisecond)
			began := time.Now()
			expect.OK(w, link.Close())
			<-back
			took := time.Since(began)
			expect.That(w, took >= c.least && took < c.most, "lease %v, %d addresses, no discovery: %v: connected after %v, not from %v to %v",
				c.lease, len(c.urls), c.noDiscovery, took, c.least, c.most)
			nc.Close()
			time.Sleep(6 * time.Second) // the last dial ends
		}
	})
}

// doctor names the addresses that do not answer, and why.
func TestDoctor_Addresses(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		f := w.FindingsBeside("")
		w.Advertise("10.0.0.2:4222")
		f.Show("")
		w.Advertise("192.0.2.1:4222", "10.0.0.1:1", "10.0.0.2:4222")
		f.Show("", "--no-discovery")
		var many []string
		for port := range 2 * doctor.MostAddresses {
			many = append(many, fmt.Sprintf("10.0.0.2:%d", 5000+port))
		}
		w.Advertise(many...)
		_, _, found := w.Doctor("", f.First)
		expect.That(t, slices.ContainsFunc(slices.Collect(maps.Keys(found)), func(f string) bool { return strings.Contains(f, "32 more addresses") }), "%v", found)
	})
}
