package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// swallowing are addresses that take no packet, for a world.
var swallowing = []string{"192.0.2.1:4222", "192.0.2.2:4222", "192.0.2.3:4222", "192.0.2.4:4222", "192.0.2.5:4222", "192.0.2.6:4222"}

// advertising is a connection on which the server advertises other addresses.
type advertising struct {
	net.Conn
	urls []string
	rest []byte
}

func (a *advertising) Read(b []byte) (int, error) {
	if len(a.rest) == 0 {
		n, err := a.Conn.Read(b)
		if err != nil {
			return n, err
		}
		urls, _ := json.Marshal(a.urls)
		a.rest = bytes.ReplaceAll(bytes.Clone(b[:n]), []byte("INFO {"), []byte(`INFO {"connect_urls":`+string(urls)+`,`))
	}
	n := copy(b, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// advertise lets the server advertise addresses on new connections.
func (w *world) advertise(urls ...string) {
	w.dialled = func(c net.Conn) net.Conn { return &advertising{Conn: c, urls: urls} }
}

// The servers advertise six addresses that swallow packets, and only the URL that was given works. A lost connection is made
// again before the lease is over: within six dials and the pause after them. An address that refuses takes no time.
func TestConnect_AdvertisedAddresses(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
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
			w.advertise(c.urls...)
			advertised := w.dialled
			var link net.Conn
			w.dialled = func(far net.Conn) net.Conn {
				link = far
				return advertised(far)
			}
			g := w.globals()
			g.dial = []nats.Option{nats.SetCustomDialer(w), nats.SkipHostLookup()}
			g.noDiscovery = c.noDiscovery
			g.fits(c.lease)
			back := make(chan struct{})
			// Nobody uses the connection meanwhile: nats.go holds a mutex while it dials, and the time of a bubble does not pass
			// while a goroutine waits for one.
			nc := expect.Got(g.connect(nats.ReconnectHandler(func(*nats.Conn) { close(back) })))(w)
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
	bubble(t, leader.BucketConfig{}, func(w *world) {
		f := w.findingsBeside("")
		w.advertise("10.0.0.2:4222")
		f.show("")
		w.advertise("192.0.2.1:4222", "10.0.0.1:1", "10.0.0.2:4222")
		f.show("", "--no-discovery")
		var many []string
		for port := range 2 * mostAddresses {
			many = append(many, fmt.Sprintf("10.0.0.2:%d", 5000+port))
		}
		w.advertise(many...)
		_, _, found := w.doctor("", f.first)
		expect.That(t, slices.ContainsFunc(slices.Collect(maps.Keys(found)), func(f string) bool { return strings.Contains(f, "32 more addresses") }), "%v", found)
	})
}
