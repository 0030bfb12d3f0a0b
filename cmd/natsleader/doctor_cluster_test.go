package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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

// Doctor compares two looks at the servers of the stream, and counts without the missing ones
// how many can still be lost.
func TestDoctor_Replicas(t *testing.T) {
	peer := func(name string, p jetstream.PeerInfo) *jetstream.PeerInfo {
		p.Name = name
		return &p
	}
	well := jetstream.PeerInfo{Current: true, Active: time.Second}
	offline, silent := jetstream.PeerInfo{Offline: true, Active: time.Minute}, jetstream.PeerInfo{Active: time.Minute}
	behind := func(lag uint64, active time.Duration) jetstream.PeerInfo {
		return jetstream.PeerInfo{Lag: lag, Active: active}
	}
	const one, two = "3 replicas: elections go on without 1 of their servers", "3 replicas, 1 of them missing (c): elections stop with the loss of one more server"
	for name, k := range map[string]struct {
		b, was, is jetstream.PeerInfo // server b, and server c in the two looks
		apart      time.Duration
		severity   severity
		words      string
		replicas   string
	}{
		"well":    {well, well, well, 0, severityOK, "all 3 replicas are current", one},
		"offline": {well, offline, offline, 0, severityWarning, "c is offline, last seen 1m0s ago", two},
		"offline and unheard": {
			well, offline, jetstream.PeerInfo{Offline: true}, 0, severityWarning, "c is offline", two,
		},
		"silent": {well, silent, silent, 0, severityWarning, "c has not been heard of for 1m0s", two},
		"silent while nothing is written": {
			well,
			jetstream.PeerInfo{Current: true, Active: 6 * time.Second},
			jetstream.PeerInfo{Current: true, Active: 6 * time.Second},
			0, severityWarning, "c has not been heard of for 6s", two,
		},
		"unheard": {well, behind(674, 0), behind(676, 0), settleTime, severityWarning, "c has not been heard of since a leads", two},
		"just gone": {
			well, behind(1, time.Second), behind(3, time.Second+settleTime), settleTime,
			severityWarning, "c has not been heard of for 4s, and is 3 operations behind", two,
		},
		"stuck": {
			well, behind(7, time.Second), behind(7, time.Second), settleTime,
			severityWarning, "c is 7 operations behind, and has not caught up in 2.5s", two,
		},
		"catching up":           {well, behind(7, time.Second), behind(6, time.Second), settlePause, severityNote, "c is catching up, 6 operations behind", one},
		"catching up in bursts": {well, behind(7, 0), behind(3, time.Second), settlePause, severityNote, "c is catching up, 3 operations behind", one},
		"caught up":             {well, behind(7, 0), well, settlePause, severityOK, "all 3 replicas are current", one},
		"one look only":         {well, behind(7, time.Second), behind(7, time.Second), 0, severityNote, "not checked: whether the replica on c is catching up", one},
		"majority is away": {
			silent, offline, offline, 0, severityCritical, "2 of the stream's 3 servers",
			"3 replicas, 2 of them missing (b, c): elections stop",
		},
	} {
		first := &jetstream.ClusterInfo{Name: "C", Leader: "a", Replicas: []*jetstream.PeerInfo{peer("b", k.b), peer("c", k.was)}}
		e := environment{info: &jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: 3}, Cluster: first}, looks: newReplicaLooks(first)}
		if k.apart > 0 {
			e.looks.take(&jetstream.ClusterInfo{Name: "C", Leader: "a", Replicas: []*jetstream.PeerInfo{peer("b", k.b), peer("c", k.is)}}, k.apart)
		} else {
			first.Replicas[1] = peer("c", k.is)
		}
		found := checkCluster(t.Context(), &e)
		last := found[len(found)-1]
		if last.Severity != k.severity || !strings.Contains(last.Text, k.words) {
			t.Errorf("%s: %+v", name, found)
		}
		if found := checkReplicas(t.Context(), &e); len(found) != 1 || found[0].Text != k.replicas {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// A stream without a leader, and one that lacks a server, are reported.
func TestDoctor_VacantReplica(t *testing.T) {
	c := &jetstream.ClusterInfo{Name: "C", Leader: "a", Replicas: []*jetstream.PeerInfo{{Name: "b", Current: true}}}
	e := environment{info: &jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: 3}, Cluster: c}, looks: newReplicaLooks(c)}
	if found := checkCluster(t.Context(), &e); len(found) != 1 || found[0].Severity != severityWarning || !strings.Contains(found[0].Text, "2 of its 3 replicas only") {
		t.Errorf("%+v", found)
	}
	for replicas, want := range map[int]string{
		2: "elections stop",
		3: "elections stop with the loss of one more server",
		4: "elections stop with the loss of one more server",
		5: "elections go on without 1 more of their servers",
	} {
		c.Replicas = slices.Repeat([]*jetstream.PeerInfo{{Name: "b", Current: true}}, replicas-2)
		e.info.Config.Replicas = replicas
		if found := checkReplicas(t.Context(), &e); found[0].Text != fmt.Sprintf("%d replicas, 1 of them missing: %s", replicas, want) {
			t.Errorf("%+v", found)
		}
	}
	c.Replicas, e.info.Config.Replicas = slices.Repeat([]*jetstream.PeerInfo{{Name: "b", Current: true}}, 3), 4
	if found := checkReplicas(t.Context(), &e); !strings.HasPrefix(found[0].Text, "4 replicas outlive the loss of no more servers than 3 do") {
		t.Errorf("%+v", found)
	}
	e.info.Cluster = &jetstream.ClusterInfo{Name: "C"}
	if found := checkCluster(t.Context(), &e); found[0].Severity != severityCritical || !strings.Contains(found[0].Text, "no leader") {
		t.Errorf("%+v", found)
	}
}

// streamInfo is a server that answers every request with what it returns.
type streamInfo func() *jetstream.StreamInfo

// InProcessConn implements nats.InProcessConnProvider.
func (info streamInfo) InProcessConn() (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		_, _ = fmt.Fprint(ours, "INFO {\"max_payload\":1}\r\n")
		var subscription string
		for r := bufio.NewScanner(ours); r.Scan(); {
			switch words := append(strings.Fields(r.Text()), ""); words[0] {
			case "PING":
				_, _ = fmt.Fprint(ours, "PONG\r\n")
			case "SUB":
				subscription = words[2]
			case "PUB":
				text, _ := json.Marshal(info())
				_, _ = fmt.Fprintf(ours, "MSG %s %s %d\r\n%s\r\n", words[2], subscription, len(text), text)
			}
		}
	}()
	return theirs, nil
}

// inBubble runs a test in a bubble.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	empty := func() { // nats.go's pool of timers, which must not cross a bubble
		runtime.GC()
		runtime.GC()
	}
	empty()
	defer empty()
	synctest.Test(t, test)
}

// When another server leads the stream, doctor looks at a replica for as long as under the first one.
func TestDoctor_LooksUnderNewLeader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		began := time.Now()
		info := func() *jetstream.StreamInfo {
			c := &jetstream.ClusterInfo{Name: "C", Leader: "a", Replicas: []*jetstream.PeerInfo{{Name: "c", Lag: 7, Active: time.Second}}}
			if time.Since(began) >= time.Second {
				c.Leader = "b"
			}
			return &jetstream.StreamInfo{Cluster: c}
		}
		nc, err := nats.Connect("", nats.InProcessServer(streamInfo(info)))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		e := environment{nc: nc, wait: time.Second, info: info(), infoAt: began}
		e.lookAtReplicas(t.Context())
		if took := time.Since(began); took != time.Second+settleTime || e.looks.apart != settleTime {
			t.Errorf("%v, and %v under the new leader", took, e.looks.apart)
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
