package main

import (
	"errors"
	"os"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// natsServer is one nats-server with JetStream. Its buckets are on file, and the server syncs
// them at an interval, as it does by default.
type natsServer struct {
	s   *natsserver.Server
	dir string
}

func serveNATS() (server, error) {
	dir, err := os.MkdirTemp("", "natsleader-bench-")
	if err != nil {
		return nil, err
	}
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.Start()
	n := &natsServer{s: s, dir: dir}
	if !s.ReadyForConnections(30 * time.Second) {
		n.close()
		return nil, errors.New("nats-server does not start")
	}
	return n, nil
}

func (n *natsServer) addr() string { return n.s.Addr().String() }

// requests counts the messages that clients have published, those without a reply among them.
func (n *natsServer) requests() uint64 {
	v, err := n.s.Varz(nil)
	if err != nil {
		return 0
	}
	return uint64(v.InMsgs)
}

func (n *natsServer) close() {
	n.s.Shutdown()
	n.s.WaitForShutdown()
	_ = os.RemoveAll(n.dir)
}

func dialNATS(addr string) (*nats.Conn, error) {
	return nats.Connect("nats://"+addr, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.Timeout(5*time.Second))
}
