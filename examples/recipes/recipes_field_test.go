//go:build field

package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// embedded starts a server in this process and connects to it without a socket.
func embedded(options *server.Options) (*server.Server, *nats.Conn, error) {
	s, err := server.NewServer(options) // JetStream: true, and a StoreDir that survives a restart
	if err != nil {
		return nil, nil, err
	}
	s.Start()
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	if err != nil {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, nil, err
	}
	return s, nc, nil // stop the candidates first, then close nc, then shut s down
}

// A candidate leads on a server in its own process.
func TestEmbedded_Leads(t *testing.T) {
	s, nc, err := embedded(&server.Options{JetStream: true, StoreDir: t.TempDir(), DontListen: true, NoSigs: true})
	check.OK(t, err)
	defer s.WaitForShutdown()
	defer s.Shutdown()
	defer nc.Close()
	js, err := jetstream.New(nc)
	check.OK(t, err)
	bucket, err := leader.EnsureBucket(js, leader.BucketConfig{Name: "elections"})
	check.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lock, err := leader.Acquire(ctx, bucket, "billing", leader.Config{})
	check.OK(t, err)
	if err := lock.Unlock(ctx); err != nil {
		t.Error(err)
	}
}
