//go:build field

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// generous is a lease that even a busy machine renews in time.
const generous = 2 * time.Minute

// serverCluster starts three servers that sync every write, and makes the bucket on all
// of them.
func serverCluster(t *testing.T) []*server.Server {
	t.Helper()
	var free []int
	var routes []string
	for range 3 {
		port := testserver.FreePort(t)
		free = append(free, port)
		routes = append(routes, fmt.Sprintf(`"nats-route://127.0.0.1:%d"`, port))
	}
	var all []*server.Server
	for i, port := range free {
		all = append(all, configured(t, fmt.Sprintf(`
			server_name: s%d, host: 127.0.0.1, port: -1
			jetstream { store_dir: %q, sync_interval: always }
			cluster { name: C, host: 127.0.0.1, port: %d, routes: [ %s ] }
			%s`, i+1, testserver.StoreDir(t), port, strings.Join(routes, ", "), permitted)))
	}
	_, js := connectTo(t, asUser(all[0], "admin"))
	eventually(t, "the bucket can be made", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := leader.CreateBucket(ctx, js, leader.BucketConfig{Name: "elections", Replicas: 3, MaxLease: generous})
		return err == nil
	})
	eventually(t, "all replicas are current", func() bool { return current(t, js) })
	return all
}

// current reports whether the bucket has two watchers that are up to date.
func current(t *testing.T, js jetstream.JetStream) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, "KV_elections")
	if err != nil || s.CachedInfo().Cluster == nil || len(s.CachedInfo().Cluster.Replicas) != 2 {
		return false
	}
	for _, r := range s.CachedInfo().Cluster.Replicas {
		if !r.Current || r.Offline {
			return false
		}
	}
	return true
}

func TestDoctor_Cluster(t *testing.T) {
	t.Parallel()
	all := serverCluster(t)
	_, js := connectTo(t, asUser(all[0], "admin"))
	candidate, admin := asUser(all[0], "candidate"), asUser(all[0], "admin")
	system := systemContext(t, all[0])

	t.Run("everything is well", func(t *testing.T) {
		d := diagnose(t, candidate, "--system-context", system)
		d.fineBut(t, "clock", "store") // a test cannot set the clock of this host, and a candidate creates no streams
		if d.code != 0 {
			t.Errorf("exit code %d", d.code)
		}
		told := make(map[string]bool)
		for _, f := range d.Findings {
			told[f.Check] = true
		}
		for _, c := range checks {
			if !told[c.name] {
				t.Errorf("nothing is told of %s", c.name)
			}
		}
		d.says(t, "cluster", "ok", "all 3 replicas are current")
		d.says(t, "sync", "ok", "before it is acknowledged")
	})
	t.Run("without the permission to ask for versions", func(t *testing.T) {
		diagnose(t, candidate).says(t, "server", "note", "not checked: versions of s", "may not publish to $SYS.REQ.ACCOUNT.PING.STATZ", "--system-context")
	})
	t.Run("with the permission to ask for versions", func(t *testing.T) {
		d := diagnose(t, admin)
		for _, f := range d.Findings {
			if f.Check == "server" && f.Severity != "ok" {
				t.Errorf("%+v", f)
			}
		}
	})
	t.Run("one replica", func(t *testing.T) {
		newBucket(t, admin, "single", leader.BucketConfig{Replicas: 1})
		diagnose(t, admin, "--bucket", "single").says(t, "replicas", "warning", "one replica", "natsleader bucket add single --replicas 3")
	})
	t.Run("two replicas", func(t *testing.T) {
		_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "two", Replicas: 2})
		if err != nil {
			t.Fatal(err)
		}
		diagnose(t, admin, "--bucket", "two").says(t, "replicas", "warning", "2 replicas", "--replicas 3")
	})
	t.Run("short leases", func(t *testing.T) {
		diagnose(t, candidate, "--lease", "8s").says(t, "lease", "note", "8s", "the loss of one server")
	})
	t.Run("a server is down", func(t *testing.T) {
		all[2].Shutdown()
		all[2].WaitForShutdown()
		eventually(t, "the others have noticed", func() bool { return !current(t, js) })
		diagnose(t, candidate).says(t, "cluster", "warning", "s3 is offline")
	})
	t.Run("a majority is down", func(t *testing.T) {
		all[1].Shutdown()
		all[1].WaitForShutdown()
		// Either a server still answers, or none does.
		d := diagnose(t, candidate, "--timeout", "3s")
		if text := d.String(); d.code != 2 || !strings.Contains(text, "servers are missing: nothing can be written") && !strings.Contains(text, "has no leader") {
			t.Errorf("exit code %d\n%v", d.code, d)
		}
	})
}

// In a cluster that is being updated, doctor names each server that is too old for guards or for a
// roster, whichever server it is connected to.
func TestDoctor_MixedCluster(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	var routes, urls []string
	var ports []int
	for range 3 {
		ports = append(ports, testserver.FreePort(t))
		routes = append(routes, fmt.Sprintf(`"nats-route://127.0.0.1:%d"`, ports[len(ports)-1]))
	}
	for i, version := range []string{"v2.11.8", "v2.11.4", "v2.10.29"} {
		urls = append(urls, oldServer(t, version, fmt.Sprintf("server_name: s%d, cluster { name: C, host: 127.0.0.1, port: %d, routes: [ %s ] }", i+1, ports[i], strings.Join(routes, ", "))))
	}
	for _, url := range urls {
		answersJS(t, url)
	}
	_, js := connectTo(t, urls[0])
	eventually(t, "the bucket can be made", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "elections", Replicas: 3})
		return err == nil
	})
	eventually(t, "all replicas are current", func() bool { return current(t, js) })
	for _, url := range urls {
		d := diagnose(t, url)
		d.says(t, "server", "warning", "nats-server 2.11.4 on s2", "older than 2.11.8", "guards do not stand")
		d.says(t, "server", "warning", "nats-server 2.10.29 on s3", "keeps no roster")
		if d.code != 1 {
			t.Errorf("exit code %d\n%v", d.code, d)
		}
	}
}

// Doctor judges every server of the cluster that answers, and reports those that keep
// the stream and do not answer.
func TestDoctor_ClusterVersions(t *testing.T) {
	nc, _ := connectTo(t, startServer(t, func(o *server.Options) { o.ServerName, o.NoSystemAccount = "me", true }).ClientURL())
	answers := map[string]string{"b": "2.11.6", "elsewhere": "2.10.29", "new": "2.12.0"}
	_, err := nc.Subscribe("$SYS.REQ.ACCOUNT.PING.STATZ", func(m *nats.Msg) {
		for name, version := range answers {
			_ = m.Respond(fmt.Appendf(nil, `{"server": {"name": %q, "ver": %q}, "data": {}}`, name, version))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	e := environment{nc: nc, name: "elections", wait: 200 * time.Millisecond, info: &jetstream.StreamInfo{
		Config:  jetstream.StreamConfig{Metadata: map[string]string{"_nats.ver": "2.11.0"}},
		Cluster: &jetstream.ClusterInfo{Name: "C", Leader: "a", Replicas: []*jetstream.PeerInfo{{Name: "b"}, {Name: "c"}, {Name: "me"}}},
	}}
	var got []string
	for _, f := range e.checkVersions() {
		got = append(got, fmt.Sprint(f.Severity, ": ", f.Text))
	}
	const guards = " is older than 2.11.8: it accepts some guarded writes of earlier terms, and candidates with guards do not stand"
	want := []string{
		"ok: nats-server " + nc.ConnectedServerVersion() + " on me",
		"warning: nats-server 2.11.0 on a" + guards,
		"warning: nats-server 2.11.6 on b" + guards,
		"warning: nats-server 2.10.29 on elsewhere is older than 2.11: it keeps no roster, has no expiry markers, and candidates with guards do not stand (it does not keep the bucket now)",
		"note: not checked: versions of c: no answer",
	}
	if old := e.tooOldFor(leastVersion); len(old) != 0 {
		t.Errorf("too old for a roster: %v", old)
	}
	e.known["b"] = "2.10.29"
	if advice := e.adviseRoster(); advice != "update the servers (b) to nats-server 2.11 or later, then: natsleader bucket add elections --roster" {
		t.Errorf("%s", advice)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}
