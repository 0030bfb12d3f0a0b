package front

import (
	"cmp"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
)

// dialling returns the options by which a lost connection is made again while the lease lasts. nats.go tries the addresses that
// the servers advertise, one after another, before the URL that it was given. Six that swallow packets, and the pause
// after them, take half of the lease. A renewal is a sixth of it old by then, and its deadline is at four fifths.
func (g *Globals) dialling() []nats.Option {
	all := []nats.Option{
		nats.CustomReconnectDelay(func(int) time.Duration { // after all addresses have failed; not all clients at once
			return g.dialLimit() + rand.N(g.dialLimit()/2)
		}),
		nats.ReconnectErrHandler(NoteDial),
	}
	if g.NoDiscovery {
		all = append(all, nats.IgnoreDiscoveredServers())
	}
	return all
}

// NoteDial is a handler of nats.go. It keeps the error for reports that the connection is down.
func NoteDial(nc *nats.Conn, err error) { jsapi.ConnectionOf(nc).Note(err) }

// Fits lets the connection be made again within a lease; 0 is the default.
func (g *Globals) Fits(lease time.Duration) { g.keeps.Store(int64(lease)) }

// dialLimit is how long one address may take to accept a connection.
func (g *Globals) dialLimit() time.Duration {
	lease := cmp.Or(time.Duration(g.keeps.Load()), wire.DefaultLease)
	return min(max(lease/15, 500*time.Millisecond), firstDial)
}

// firstDial is how long an address may take to accept the first connection, as nats.go has it: no lease ends meanwhile.
const firstDial = 2 * time.Second

// limitDials is the last option of a connection.
func (g *Globals) limitDials(o *nats.Options) error {
	if o.CustomDialer == nil {
		o.SkipHostLookup = true // nats.go would give each address of a name the whole time
	}
	o.CustomDialer = &dialer{limit: g.dialLimit, through: o.CustomDialer}
	return nil
}

// dialer dials an address within a limit. nats.go holds the lock of the connection meanwhile.
type dialer struct {
	limit   func() time.Duration
	through nats.CustomDialer // a proxy, or the server of a test; nil: the network
	reached atomic.Bool       // an address has accepted a connection
}

// Dial is part of [nats.CustomDialer]. All addresses of a name share the time.
func (d *dialer) Dial(network, address string) (c net.Conn, err error) {
	limit := firstDial
	if d.reached.Load() {
		limit = d.limit()
	}
	if d.through == nil {
		c, err = net.DialTimeout(network, address, limit)
	} else {
		c, err = d.dialThrough(network, address, limit)
	}
	if err == nil {
		d.reached.Store(true)
	}
	return c, err
}

func (d *dialer) dialThrough(network, address string, limit time.Duration) (net.Conn, error) {
	type dialled struct {
		net.Conn
		err error
	}
	done := make(chan dialled, 1)
	go func() {
		c, err := d.through.Dial(network, address)
		done <- dialled{c, err}
	}()
	select {
	case got := <-done:
		return got.Conn, got.err
	case <-time.After(limit):
		go func() {
			if got := <-done; got.err == nil {
				_ = got.Close() // too late
			}
		}()
		return nil, &net.OpError{Op: "dial", Net: network, Addr: addressOf(address), Err: os.ErrDeadlineExceeded}
	}
}

// addressOf is an address that was not resolved.
type addressOf string

func (addressOf) Network() string { return "tcp" }

func (a addressOf) String() string { return string(a) }
