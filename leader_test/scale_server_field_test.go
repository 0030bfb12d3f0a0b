//go:build field && unix

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// scaleHost is the server of the scale benchmarks, in its own process.
type scaleHost struct {
	srv   *server.Server
	own   uint64 // ID of the connection that counts
	info  atomic.Int64
	gets  atomic.Int64
	other atomic.Int64

	// What the server had received and stored when the counting began.
	received, stored int64
}

// scaleServer starts a server with the bucket E on file, and returns what serves requests.
func scaleServer(store string) (func(scaleRequest) (scaleReply, error), error) {
	h := &scaleHost{}
	opts := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, DisableJetStreamBanner: true, StoreDir: store,
	}
	var err error
	if h.srv, err = server.NewServer(opts); err != nil {
		return nil, err
	}
	h.srv.Start()
	if !h.srv.ReadyForConnections(tcpLimit) {
		return nil, errors.New("it does not start")
	}
	return h.serve, h.count()
}

// count makes the bucket, and begins to count. A subscriber gets a copy of each request of
// the JetStream API, also of those that the server drops. Renewals are not among them: 4,000
// copies a second would show in the processor time.
func (h *scaleHost) count() error {
	nc, err := nats.Connect("", nats.InProcessServer(h.srv))
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), tcpLimit)
	defer cancel()
	if _, err = leader.CreateBucket(ctx, js, leader.BucketConfig{Name: "E"}); err != nil {
		return err
	}
	if h.own, err = nc.GetClientID(); err != nil {
		return err
	}
	sub, err := nc.Subscribe("$JS.API.>", func(m *nats.Msg) {
		switch {
		case strings.HasPrefix(m.Subject, "$JS.API.STREAM.INFO."):
			h.info.Add(1)
		case strings.HasPrefix(m.Subject, "$JS.API.DIRECT.GET."):
			h.gets.Add(1)
		default:
			h.other.Add(1)
		}
	})
	if err != nil {
		return err
	}
	if err = sub.SetPendingLimits(-1, -1); err != nil {
		return err
	}
	if err = nc.Flush(); err != nil {
		return err
	}
	h.received, h.stored, err = h.totals()
	return err
}

// totals returns how many messages the server has received from clients, and the last
// sequence of the bucket.
func (h *scaleHost) totals() (received, stored int64, err error) {
	v, err := h.srv.Varz(nil)
	if err != nil {
		return 0, 0, err
	}
	z, err := h.srv.Jsz(&server.JSzOptions{Streams: true})
	if err != nil {
		return 0, 0, err
	}
	for _, a := range z.AccountDetails {
		for _, s := range a.Streams {
			stored += int64(s.State.LastSeq)
		}
	}
	return v.InMsgs, stored, nil
}

func (h *scaleHost) serve(q scaleRequest) (r scaleReply, err error) {
	switch q.Do {
	case "url":
		r.URL = h.srv.ClientURL()
	case "cpu":
	case "counts":
		r.Counts, err = h.counts()
	case "kick":
		err = h.kick()
	default:
		err = fmt.Errorf("no request %q", q.Do)
	}
	return r, err
}

// counts returns what the server has received. Every message that a client sends is a
// request of the API or a write of a key.
func (h *scaleHost) counts() (scaleCounts, error) {
	received, stored, err := h.totals()
	c := scaleCounts{StreamInfo: h.info.Load(), DirectGets: h.gets.Load(), OtherAPI: h.other.Load(), Stored: stored - h.stored}
	c.NotStored = received - h.received - c.StreamInfo - c.DirectGets - c.OtherAPI - c.Stored
	return c, err
}

// kick closes the connections of the clients.
func (h *scaleHost) kick() error {
	z, err := h.srv.Connz(&server.ConnzOptions{Limit: 1 << 10})
	if err != nil {
		return err
	}
	for _, c := range z.Conns {
		if c.Cid == h.own {
			continue
		}
		if err := h.srv.DisconnectClientByID(c.Cid); err != nil {
			return err
		}
	}
	return nil
}
