// Package embedded runs a NATS server with JetStream inside the process of an
// example, so that the examples need nothing but Go.
package embedded

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Server is a NATS server with JetStream on a port of the loopback interface
// and a store in a temporary directory. Its methods are not for concurrent use.
type Server struct {
	opts server.Options
	srv  *server.Server // nil while it is down
}

// Start starts a server. Close ends it and removes its store.
func Start() (*Server, error) {
	dir, err := os.MkdirTemp("", "natsleader-*")
	if err != nil {
		return nil, err
	}
	s := &Server{opts: server.Options{
		ServerName: "embedded", Host: "127.0.0.1", Port: server.RANDOM_PORT,
		JetStream: true, StoreDir: dir, DisableJetStreamBanner: true,
		NoLog: true, NoSigs: true,
	}}
	if err := s.Up(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// URL is where clients connect. It stays the same when the server goes down and
// comes up again.
func (s *Server) URL() string { return fmt.Sprintf("nats://%s:%d", s.opts.Host, s.opts.Port) }

// Up starts a server that is down, on the same port and the same store.
func (s *Server) Up() error {
	if s.srv != nil {
		return nil
	}
	srv, err := server.NewServer(s.opts.Clone())
	if err != nil {
		return err
	}
	srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		srv.Shutdown()
		srv.WaitForShutdown()
		return fmt.Errorf("no NATS server on %s within 10 s", s.URL())
	}
	if addr, ok := srv.Addr().(*net.TCPAddr); ok {
		s.opts.Port = addr.Port
	}
	s.srv = srv
	return nil
}

// Down stops the server and keeps its store.
func (s *Server) Down() {
	if s.srv == nil {
		return
	}
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	s.srv = nil
}

// Close stops the server and removes its store.
func (s *Server) Close() error {
	s.Down()
	return os.RemoveAll(s.opts.StoreDir)
}
