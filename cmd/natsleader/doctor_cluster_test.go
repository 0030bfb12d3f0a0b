package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// report adds findings to the transcript.
func (w *world) report(title string, found ...finding) {
	w.notef("# %s\n%s\n", title, strings.Join(lines(found, 0), "\n"))
}

// Doctor compares two looks at the servers of the stream, and counts without the missing ones
// how many can still be lost.
func TestDoctor_Replicas(t *testing.T) {
	type peer = jetstream.PeerInfo
	const apart, pause = settleTime, settlePause
	well := peer{Current: true, Active: time.Second}
	offline, silent := peer{Offline: true, Active: time.Minute}, peer{Active: time.Minute}
	quiet := peer{Current: true, Active: 6 * time.Second}
	behind := func(lag uint64, active time.Duration) peer { return peer{Lag: lag, Active: active} }
	alone(t, func(w *world) {
		for _, k := range []struct {
			name       string
			b, was, is peer // server b, and server c in the two looks
			apart      time.Duration
		}{
			{"well", well, well, well, 0},
			{"offline", well, offline, offline, 0},
			{"offline and unheard", well, offline, peer{Offline: true}, 0},
			{"silent", well, silent, silent, 0},
			{"silent while nothing is written", well, quiet, quiet, 0},
			{"unheard", well, behind(674, 0), behind(676, 0), apart},
			{"just gone", well, behind(1, time.Second), behind(3, time.Second+apart), apart},
			{"stuck", well, behind(7, time.Second), behind(7, time.Second), apart},
			{"catching up", well, behind(7, time.Second), behind(6, time.Second), pause},
			{"catching up in bursts", well, behind(7, 0), behind(3, time.Second), pause},
			{"caught up", well, behind(7, 0), well, pause},
			{"one look only", well, behind(7, time.Second), behind(7, time.Second), 0},
			{"a majority is away", silent, offline, offline, 0},
		} {
			look := func(b, c peer) *jetstream.ClusterInfo {
				b.Name, c.Name = "b", "c"
				return &jetstream.ClusterInfo{Name: "C", Leader: "a", Replicas: []*peer{&b, &c}}
			}
			first := look(k.b, k.was)
			e := environment{info: &jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: 3}, Cluster: first}, looks: newReplicaLooks(first)}
			if k.apart > 0 {
				e.looks.take(look(k.b, k.is), k.apart)
			} else {
				*first = *look(k.b, k.is)
			}
			w.report(k.name, append(checkCluster(w.Context(), &e), checkReplicas(w.Context(), &e)...)...)
		}
	})
}

// A stream without a leader, and one that lacks a server, are reported.
func TestDoctor_VacantReplica(t *testing.T) {
	alone(t, func(w *world) {
		c := &jetstream.ClusterInfo{Name: "C", Leader: "a"}
		e := environment{info: &jetstream.StreamInfo{Cluster: c}, looks: newReplicaLooks(c), name: "elections", wait: time.Second}
		check := func(replicas, servers int) {
			c.Replicas = slices.Repeat([]*jetstream.PeerInfo{{Name: "b", Current: true}}, servers-1)
			e.info.Config.Replicas = replicas
			w.report(fmt.Sprintf("replicas: %d, servers: %d", replicas, servers), append(checkCluster(w.Context(), &e), checkReplicas(w.Context(), &e)...)...)
		}
		for replicas := 2; replicas <= 5; replicas++ {
			check(replicas, replicas-1)
		}
		check(4, 4)
		check(1, 1)
		e.info.Config = jetstream.StreamConfig{Name: "KV_elections", Replicas: 3, MaxMsgsPerSubject: 1, Storage: jetstream.MemoryStorage}
		w.report("in memory", checkSettings(w.Context(), &e)...)
		e.info.Cluster = &jetstream.ClusterInfo{Name: "C"}
		w.report("no leader", checkCluster(w.Context(), &e)...)
		for _, e.infoErr = range []error{&jetstream.APIError{ErrorCode: codeOffline}, nats.ErrTimeout, &jetstream.APIError{ErrorCode: 1, Description: "no"}} {
			w.report(e.infoErr.Error(), checkBucket(w.Context(), &e)...)
		}
		for _, e.asked = range []time.Duration{lossOfServer - 1, lossOfServer} {
			w.report(fmt.Sprint("leases of ", e.asked), checkLease(w.Context(), &e)...)
		}
	})
}

// When another server leads the stream, doctor looks at a replica for as long as under the first one, and does not look on
// while ever another one leads it.
func TestDoctor_LooksUnderNewLeader(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		began, terms := time.Now(), 1
		info := func() *jetstream.StreamInfo {
			term := min(int(time.Since(began)/time.Second), terms)
			c := &jetstream.ClusterInfo{Name: "C", Leader: fmt.Sprint(term), Replicas: []*jetstream.PeerInfo{{Name: "c", Lag: 7, Active: time.Second}}}
			return &jetstream.StreamInfo{Config: jetstream.StreamConfig{Name: "KV_x"}, Cluster: c}
		}
		nc := w.dial()
		defer nc.Close()
		w.made(nc.Subscribe("fake.STREAM.INFO.KV_x", func(m *nats.Msg) {
			text, _ := json.Marshal(info())
			_ = m.Respond(text)
		}))
		e := environment{nc: nc, api: "fake.", wait: time.Second, info: info(), infoAt: began}
		e.lookAtReplicas(w.Context())
		took := time.Since(began)
		expect.That(w, took == time.Second+settleTime && e.looks.apart == settleTime,
			"%v, and %v under the new leader", took, e.looks.apart)
		began, terms = time.Now(), 60
		e.info, e.infoAt = info(), began
		e.lookAtReplicas(w.Context())
		expect.Equal(w, time.Since(began), 2*settleTime, "it looks for %v")
	})
}

// Doctor measures quick answers fifteen times, slow ones for a second, and at least three.
func TestDoctor_Measures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for takes, times := range map[time.Duration]int{0: manyTrips, 100 * time.Millisecond: 10, time.Minute: someTrips} {
			took := expect.Got(new(environment).times(func() (time.Duration, error) {
				time.Sleep(takes)
				return takes, nil
			}))(t)
			expect.Equal(t, len(took), times, "%d times %v", takes)
		}
	})
}

// Doctor judges every server of the cluster that answers, and reports those that keep
// the stream and do not answer.
func TestDoctor_ClusterVersions(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		nc := w.dial()
		defer nc.Close()
		answers := map[string]string{"b": "2.11.6", "elsewhere": "2.10.29", "new": "2.12.0", "odd": "latest"}
		w.made(nc.Subscribe("$SYS.REQ.ACCOUNT.PING.STATZ", func(m *nats.Msg) {
			for name, version := range answers {
				_ = m.Respond(fmt.Appendf(nil, `{"server": {"name": %q, "ver": %q}, "data": {}}`, name, version))
			}
		}))
		e := environment{nc: nc, name: "elections", wait: 200 * time.Millisecond, info: &jetstream.StreamInfo{
			Config:  jetstream.StreamConfig{Metadata: map[string]string{"_nats.ver": "2.11.0"}},
			Cluster: &jetstream.ClusterInfo{Name: "C", Leader: "a", Replicas: []*jetstream.PeerInfo{{Name: "b"}, {Name: "c"}, {Name: "me"}}},
		}}
		found := e.checkVersions()
		w.report("servers", found...)
		w.notef("# on a terminal\n%s\n", strings.Join(lines(found[1:3], 80), "\n"))
		w.notef("advice: %s\n", e.adviseRoster())
		e.known["b"] = "2.10.29"
		w.notef("advice: %s\n", e.adviseRoster())
		w.made(nc.Subscribe("$SYS.REQ.SERVER.PING.JSZ", func(m *nats.Msg) {
			for _, status := range []string{`"b"}, "data": {"config": {"sync_interval": 10000000000}}`, `"c"}`, `"new"}, "data": {"config": {"sync_interval": 1}}`} {
				_ = m.Respond([]byte(`{"server": {"name": ` + status + "}"))
			}
		}))
		w.report("syncs", checkSync(w.Context(), &e)...)
		e.nc = expect.Got(nats.Connect("", append(w.inProcess(), nats.UserInfo("limited", "limited"),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...))(w)
		defer e.nc.Close()
		w.report("it may not ask", e.checkVersions()...)
		for _, version := range []string{"3.0.0", "2.12.0-beta.1", "2.11.8", "2.11.7", "2.11.0", "2.10.29", "1.4.1", "other"} {
			w.report(version, judgeVersion("", version))
		}
	}, withUser("limited", denied("$SYS.REQ.ACCOUNT.PING.STATZ")), func(o *server.Options) { o.ServerName, o.NoSystemAccount = "me", true })
}
