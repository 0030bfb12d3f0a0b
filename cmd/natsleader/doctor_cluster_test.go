package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

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

// When another server leads the stream, doctor looks at a replica for as long as under the first one.
func TestDoctor_LooksUnderNewLeader(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		began := time.Now()
		info := func() *jetstream.StreamInfo {
			c := &jetstream.ClusterInfo{Name: "C", Leader: "a", Replicas: []*jetstream.PeerInfo{{Name: "c", Lag: 7, Active: time.Second}}}
			if time.Since(began) >= time.Second {
				c.Leader = "b"
			}
			return &jetstream.StreamInfo{Config: jetstream.StreamConfig{Name: "KV_x"}, Cluster: c}
		}
		nc := w.dial()
		defer nc.Close()
		if _, err := nc.Subscribe("fake.STREAM.INFO.KV_x", func(m *nats.Msg) {
			text, _ := json.Marshal(info())
			_ = m.Respond(text)
		}); err != nil {
			w.Fatal(err)
		}
		e := environment{nc: nc, api: "fake.", wait: time.Second, info: info(), infoAt: began}
		e.lookAtReplicas(w.Context())
		if took := time.Since(began); took != time.Second+settleTime || e.looks.apart != settleTime {
			w.Errorf("%v, and %v under the new leader", took, e.looks.apart)
		}
	})
}

// Doctor judges every server of the cluster that answers, and reports those that keep
// the stream and do not answer.
func TestDoctor_ClusterVersions(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		nc := w.dial()
		defer nc.Close()
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
	}, func(o *server.Options) { o.ServerName, o.NoSystemAccount = "me", true })
}
