package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/internal/jsapi"
)

// mostAddresses bounds the dials of checkAddresses.
const mostAddresses = 32

// checkAddresses dials the addresses that the servers advertise, all at once. A client that loses its connection
// tries them before the URL that it was given.
func checkAddresses(_ context.Context, e *environment) []finding {
	all := e.nc.DiscoveredServers()
	switch {
	case e.nc.Opts.IgnoreDiscoveredServers:
		return []finding{fine("clients with --no-discovery use no address that the servers advertise")}
	case len(all) == 0:
		return []finding{fine("the servers advertise no other address than that of this connection")}
	}
	slices.Sort(all)
	tried := all[:min(len(all), mostAddresses)]
	errs := make([]chan error, len(tried))
	for i, address := range tried {
		errs[i] = make(chan error, 1)
		go func() { errs[i] <- e.greets(address) }()
	}
	var silent []string
	for i, address := range tried {
		if err := <-errs[i]; err != nil {
			silent = append(silent, fmt.Sprintf("%s (%s)", address, jsapi.ConnErrorOf(err).Kind))
		}
	}
	var found []finding
	if len(silent) > 0 {
		found = append(found, severityWarning.of("of %d addresses that the servers advertise, these do not answer from here: %s; "+
			"a client that loses its connection tries them before its own URL, 2 s each by default, and its lease may be over meanwhile",
			len(tried), strings.Join(silent, ", ")).
			advise("let the servers advertise what clients reach (client_advertise) or nothing (no_advertise in the block cluster), or ignore what they advertise: --no-discovery, in programs nats.IgnoreDiscoveredServers()"))
	} else {
		found = append(found, fine("the addresses that the servers advertise answer: %s", strings.Join(tried, ", ")))
	}
	if n := len(all) - len(tried); n > 0 {
		found = append(found, unread("%d more addresses that the servers advertise", n))
	}
	return found
}

// greets returns nil if a NATS server answers at the address.
func (e *environment) greets(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	c, err := e.nc.Opts.CustomDialer.Dial("tcp", u.Host) // see limitDials
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if e.nc.Opts.TLSHandshakeFirst || strings.HasPrefix(u.Scheme, "ws") {
		return nil // the server waits for the client
	}
	greeting := make([]byte, len("INFO"))
	_ = c.SetReadDeadline(time.Now().Add(e.nc.Opts.Timeout))
	if _, err = io.ReadFull(c, greeting); err == nil && string(greeting) != "INFO" {
		err = errors.New("no NATS server")
	}
	return err
}
