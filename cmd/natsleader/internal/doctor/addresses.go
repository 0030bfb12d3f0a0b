package doctor

import (
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/jsapi"
)

// MostAddresses bounds the dials of readAddresses.
const MostAddresses = 32

// readAddresses dials the addresses that the servers advertise, all at once. A client that loses its connection
// tries them before the URL that it was given.
func (e *Environment) readAddresses(context.Context) {
	all := e.Nc.DiscoveredServers()
	if e.Nc.Opts.IgnoreDiscoveredServers {
		e.Addresses.Set(facts.Addresses{Ignored: true}, e.from())
		return
	}
	slices.Sort(all)
	tried := make([]facts.Address, min(len(all), MostAddresses))
	var dials sync.WaitGroup
	for i := range tried {
		tried[i].URL = all[i]
		dials.Go(func() {
			if err := e.greets(all[i]); err != nil {
				tried[i].Silent = jsapi.ConnErrorOf(err).Kind
			}
		})
	}
	dials.Wait()
	e.Addresses.Set(facts.Addresses{Tried: tried, More: len(all) - len(tried)}, e.from())
}

// greets returns nil if a NATS server answers at the address.
func (e *Environment) greets(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	c, err := e.Nc.Opts.CustomDialer.Dial("tcp", u.Host) // see limitDials
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if e.Nc.Opts.TLSHandshakeFirst || strings.HasPrefix(u.Scheme, "ws") {
		return nil // the server waits for the client
	}
	greeting := make([]byte, len("INFO"))
	_ = c.SetReadDeadline(time.Now().Add(e.Nc.Opts.Timeout))
	if _, err = io.ReadFull(c, greeting); err == nil && string(greeting) != "INFO" {
		err = errors.New("no NATS server")
	}
	return err
}
