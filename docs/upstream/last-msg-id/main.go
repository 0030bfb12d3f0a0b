// Command last-msg-id shows that one message with a Nats-Expected-Last-Msg-Id that does not hold leaves a
// stream with three replicas without a leader. It starts a cluster of three servers, and needs nothing else.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "last-msg-id")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	servers, err := cluster(dir)
	for _, s := range servers {
		defer s.WaitForShutdown()
		defer s.Shutdown()
	}
	if err != nil {
		return err
	}
	nc, err := nats.Connect(servers[0].ClientURL())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	var stream jetstream.Stream
	for limit := time.Now().Add(30 * time.Second); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		stream, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: 3})
		cancel()
		if err == nil {
			break
		}
		if time.Now().After(limit) {
			return err
		}
	}
	if _, err = js.Publish(context.Background(), "s.a", nil); err != nil {
		return err
	}
	fmt.Printf("nats-server %s: the stream has three replicas and one message\n", server.VERSION)
	m := nats.NewMsg("s.a")
	m.Header.Set(jetstream.ExpectedLastMsgIDHeader, "no message has this ID")
	begin := time.Now()
	_, err = js.PublishMsg(context.Background(), m)
	fmt.Printf("a message with a wrong %s: %v\n", jetstream.ExpectedLastMsgIDHeader, err)
	const patience = 60 * time.Second
	for time.Since(begin) < patience {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err = js.Publish(ctx, "s.b", nil)
		cancel()
		if err == nil {
			fmt.Printf("the next message is stored after %v\n", time.Since(begin).Round(time.Millisecond))
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	leads := "unknown"
	if info, failed := stream.Info(ctx); failed == nil {
		leads = info.Cluster.Leader
	}
	return fmt.Errorf("no message was stored for %v after it: %w; the stream's leader is %q", patience, err, leads)
}

// cluster starts three servers.
func cluster(dir string) (all []*server.Server, err error) {
	var routes []*url.URL
	var ports []int
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		a, _ := l.Addr().(*net.TCPAddr)
		ports = append(ports, a.Port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: a.String()})
		_ = l.Close()
	}
	for i, port := range ports {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("s%d", i+1), Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: fmt.Sprintf("%s/%d", dir, i),
			Cluster: server.ClusterOpts{Name: "C", Host: "127.0.0.1", Port: port}, Routes: routes,
		})
		if err != nil {
			return all, err
		}
		s.Start()
		all = append(all, s)
	}
	for _, s := range all {
		if !s.ReadyForConnections(10 * time.Second) {
			return all, errors.New("a server does not start")
		}
	}
	return all, nil
}
