//go:build field && prove

package leader_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// rollingServer is a server that is updated in place.
type rollingServer struct {
	config string
	cmd    *exec.Cmd
}

// become ends the server, as an operator does, and starts that version on the same store.
func (s *rollingServer) become(t *testing.T, version string) {
	t.Helper()
	s.end()
	binary := check.Got(filepath.Abs("../.tools/nats-server-" + version))(t)
	check.Got(os.Stat(binary))(t)
	s.cmd = exec.Command(binary, "-c", s.config)
	check.OK(t, s.cmd.Start())
}

func (s *rollingServer) end() {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// A cluster is updated from the oldest supported release to the newest, server by server, and the
// leader stays the same.
func TestCompatibility_RollingUpdate(t *testing.T) {
	t.Parallel()
	ports := tcpFreePorts(t, 6)
	var routes, urls []string
	for i := range 3 {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
		routes = append(routes, fmt.Sprintf(`"nats-route://127.0.0.1:%d"`, ports[i+3]))
	}
	var servers []*rollingServer
	for i := range 3 {
		s := &rollingServer{config: filepath.Join(t.TempDir(), "server.conf")}
		t.Cleanup(s.end)
		check.OK(t, os.WriteFile(s.config, fmt.Appendf(nil, `server_name: s%d, host: 127.0.0.1, port: %d
			jetstream { store_dir: %q }
			cluster { name: C, host: 127.0.0.1, port: %d, routes: [ %s ] }`,
			i+1, ports[i], t.TempDir(), ports[i+3], strings.Join(routes, ", ")), 0o600))
		servers = append(servers, s)
	}
	for _, s := range servers {
		s.become(t, releases[0])
	}
	dial := func() jetstream.JetStream {
		return tcpJS(t, tcpDial(t, strings.Join(urls, ","), nats.RetryOnFailedConnect(true), nats.PingInterval(time.Second)))
	}
	js := dial()
	var stream jetstream.Stream
	tcpEventually(t, "the bucket can be made", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := leader.CreateBucket(ctx, js, leader.BucketConfig{Name: "E", Replicas: 3})
		if err == nil {
			stream, err = js.Stream(ctx, "KV_E")
		}
		return err == nil
	})
	// settled waits, as an operator does before the next server: the server answers, all replicas are
	// current, and the leader has renewed its lease.
	settled := func(i int) {
		t.Helper()
		tcpEventually(t, fmt.Sprintf("s%d answers, and all replicas are current", i+1), func() bool {
			nc, err := nats.Connect(urls[i])
			if err != nil {
				return false
			}
			defer nc.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err = tcpJS(t, nc).AccountInfo(ctx); err != nil {
				return false
			}
			info, err := stream.Info(ctx)
			return err == nil && len(info.Cluster.Replicas) == 2 && !slices.ContainsFunc(info.Cluster.Replicas, func(r *jetstream.PeerInfo) bool {
				return !r.Current || r.Offline || r.Lag > 0 || r.Active > time.Second
			})
		})
		tcpRenewed(t, tcpBucket(t, js), "e", 1)
	}
	el := tcpElectionOf(t, "e")
	a := el.stand(tcpBucket(t, js), leader.Config{ID: "a"})
	term := tcpTerm(a)
	b := el.stand(tcpBucket(t, dial()), leader.Config{ID: "b"})
	b.Expect(leadertest.Observed("a"))
	for _, version := range releases[1:] {
		for i, s := range servers {
			s.become(t, version)
			settled(i)
			t.Logf("s%d is of version %s", i+1, version)
		}
	}
	check.Is(t, term.Err(), nil)
	h, err := leader.Lookup(t.Context(), tcpBucket(t, js), "e")
	check.That(t, err == nil && h.ID == "a" && h.Token == term.Token(), "Lookup: %v, %v", h, err)
}
