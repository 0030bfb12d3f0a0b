package testserver

import "github.com/nats-io/nats.go"

// Prime sends a server the first request to its JetStream API, and returns when the server has
// handled it. Before that the server may lose replies to requests that come at the same time. With
// the first request nats-server (2.15.2, accounts.go, newServiceReply) chooses a prefix for the
// subjects of its services' replies, and it subscribes to them after it has released the lock. If
// it replies to another request between these two steps, nothing receives the reply. opts are
// options of a connection that may publish such a request.
func Prime(tb TB, s nats.InProcessConnProvider, opts ...nats.Option) {
	tb.Helper()
	nc, err := nats.Connect("", append([]nats.Option{nats.InProcessServer(s), nats.NoReconnect()}, opts...)...)
	if err != nil {
		tb.Fatal(err)
	}
	defer nc.Close()
	if err = nc.PublishRequest("$JS.API.INFO", nc.NewInbox(), nil); err == nil {
		err = nc.Flush() // the server handles the request before the ping
	}
	if err != nil {
		tb.Fatal(err)
	}
}
