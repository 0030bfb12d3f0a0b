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
func scaleServer(store string) func(scaleRequest) scaleReply {
	h := &scaleHost{srv: scaleMust(server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, DisableJetStreamBanner: true, StoreDir: store,
	}))}
	h.srv.Start()
	if !h.srv.ReadyForConnections(tcpLimit) {
		scaleOK(errors.New("it does not start"))
	}
	h.count()
	return h.serve
}

// count makes the bucket, and begins to count. A subscriber gets a copy of each request of
// the JetStream API, also of those that the server drops. Renewals are not among them: 4,000
// copies a second would show in the processor time.
func (h *scaleHost) count() {
	nc := scaleMust(nats.Connect("", nats.InProcessServer(h.srv)))
	ctx, cancel := context.WithTimeout(context.Background(), tcpLimit)
	defer cancel()
	scaleMust(leader.CreateOrUpdateBucket(ctx, scaleMust(jetstream.New(nc)), leader.BucketConfig{Name: "E"}))
	h.own = scaleMust(nc.GetClientID())
	sub := scaleMust(nc.Subscribe("$JS.API.>", func(m *nats.Msg) {
		switch {
		case strings.HasPrefix(m.Subject, "$JS.API.STREAM.INFO."):
			h.info.Add(1)
		case strings.HasPrefix(m.Subject, "$JS.API.DIRECT.GET."):
			h.gets.Add(1)
		default:
			h.other.Add(1)
		}
	}))
	scaleOK(sub.SetPendingLimits(-1, -1))
	scaleOK(nc.Flush())
	h.received, h.stored = h.totals()
}

// totals returns how many messages the server has received from clients, and the last
// sequence of the bucket.
func (h *scaleHost) totals() (received, stored int64) {
	for _, a := range scaleMust(h.srv.Jsz(&server.JSzOptions{Streams: true})).AccountDetails {
		for _, s := range a.Streams {
			stored += int64(s.State.LastSeq)
		}
	}
	return scaleMust(h.srv.Varz(nil)).InMsgs, stored
}

func (h *scaleHost) serve(q scaleRequest) (r scaleReply) {
	switch q.Do {
	case "url":
		r.URL = h.srv.ClientURL()
	case "cpu":
	case "counts":
		r.Counts = h.counts()
	case "kick":
		h.kick()
	default:
		scaleOK(fmt.Errorf("no request %q", q.Do))
	}
	return r
}

// counts returns what the server has received. Every message that a client sends is a
// request of the API or a write of a key.
func (h *scaleHost) counts() scaleCounts {
	received, stored := h.totals()
	c := scaleCounts{StreamInfo: h.info.Load(), DirectGets: h.gets.Load(), OtherAPI: h.other.Load(), Stored: stored - h.stored}
	c.NotStored = received - h.received - c.StreamInfo - c.DirectGets - c.OtherAPI - c.Stored
	return c
}

// kick closes the connections of the clients.
func (h *scaleHost) kick() {
	for _, c := range scaleMust(h.srv.Connz(&server.ConnzOptions{Limit: 1 << 10})).Conns {
		if c.Cid != h.own {
			scaleOK(h.srv.DisconnectClientByID(c.Cid))
		}
	}
}
