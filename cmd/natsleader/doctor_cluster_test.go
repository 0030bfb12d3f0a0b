package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/doctor"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// report adds findings to the transcript.
func report(w *testworld.World, title string, b facts.Bucket, checks ...string) {
	found := judge.Of(b, checks...).Findings
	for i := range found {
		found[i].Check = ""
	}
	w.Notef("# %s\n%s\n", title, strings.Join(doctor.Lines(found, 0), "\n"))
}

// about is a fact about a stream.
func about(info *jetstream.StreamInfo) facts.Fact[facts.Stream] {
	s := facts.Stream{Info: info}
	if info.Cluster != nil {
		s.Looks = facts.NewLooks(info.Cluster)
	}
	return facts.Known(s, facts.Source{})
}

// Doctor compares two looks at the servers of the stream, and counts without the missing ones
// how many can still be lost.
func TestDoctor_Replicas(t *testing.T) {
	type peer = jetstream.PeerInfo
	const apart, pause = judge.SettleTime, doctor.SettlePause
	well := peer{Current: true, Active: time.Second}
	offline, silent := peer{Offline: true, Active: time.Minute}, peer{Active: time.Minute}
	quiet := peer{Current: true, Active: 6 * time.Second}
	behind := func(lag uint64, active time.Duration) peer { return peer{Lag: lag, Active: active} }
	testworld.Alone(t, func(w *testworld.World) {
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
				return &jetstream.ClusterInfo{Name: "C", Leader: "a", Replicas: []*jetstream.PeerInfo{&b, &c}}
			}
			first := look(k.b, k.was)
			s := facts.Stream{Info: &jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: 3}, Cluster: first}, Looks: facts.NewLooks(first)}
			if k.apart > 0 {
				s.Looks.Take(look(k.b, k.is), k.apart)
			} else {
				*first = *look(k.b, k.is)
			}
			b := facts.Bucket{Stream: facts.Known(s, facts.Source{})}
			report(w, k.name, b, "cluster", "replicas")
		}
	})
}

// A stream without a leader, and one that lacks a server, are reported.
func TestDoctor_VacantReplica(t *testing.T) {
	testworld.Alone(t, func(w *testworld.World) {
		c := &jetstream.ClusterInfo{Name: "C", Leader: "a"}
		info := &jetstream.StreamInfo{Cluster: c}
		b := facts.Bucket{Asked: facts.Asked{Bucket: "elections", Wait: time.Second}, Settings: facts.Known(facts.Settings{}, facts.Source{})}
		check := func(replicas, servers int) {
			c.Replicas = slices.Repeat([]*jetstream.PeerInfo{{Name: "b", Current: true}}, servers-1)
			info.Config.Replicas = replicas
			b.Stream = about(info)
			report(w, fmt.Sprintf("replicas: %d, servers: %d", replicas, servers), b, "cluster", "replicas")
		}
		for replicas := 2; replicas <= 5; replicas++ {
			check(replicas, replicas-1)
		}
		check(4, 4)
		check(1, 1)
		info.Config = jetstream.StreamConfig{Name: "KV_elections", Replicas: 3, MaxMsgsPerSubject: 1, Storage: jetstream.MemoryStorage}
		b.Stream = about(info)
		report(w, "in memory", b, "settings")
		info.Cluster = &jetstream.ClusterInfo{Name: "C"}
		b.Stream = about(info)
		report(w, "no leader", b, "cluster")
		sound := b.Stream
		for _, no := range []facts.Refusal{{Code: facts.CodeOffline}, {Code: 1, Text: "JetStream error 1: no"}} {
			b.Stream = facts.Known(facts.Stream{Refusal: &no}, facts.Source{})
			report(w, fmt.Sprint("code ", no.Code), b, "bucket")
		}
		b.Stream.Lose(facts.NoAnswer, "nats: timeout", facts.Source{})
		report(w, "no answer", b, "bucket")
		b.Stream = sound
		for _, b.Asked.Lease = range []time.Duration{12*time.Second - 1, 12 * time.Second} {
			report(w, fmt.Sprint("leases of ", b.Asked.Lease), b, "lease")
		}
	})
}

// A member of a stream without a leader answers what it knows, which shows no more than that. Elections go on without the
// roster and the history, which have lost their leaders.
func TestDoctor_LeaderlessSideStreams(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		nc := w.Connect()
		defer nc.Close()
		answer := ""
		w.Made(nc.Subscribe("fake.STREAM.INFO.*", func(m *nats.Msg) { _ = m.Respond([]byte(answer)) }))
		e := doctor.Environment{Asker: inspect.Asker{Nc: nc, Api: "fake.", Wait: time.Second}, Name: "elections", Info: &jetstream.StreamInfo{Config: jetstream.StreamConfig{
			Metadata: map[string]string{wire.RosterKey: "elections_roster", facts.HistoryKey: facts.HistoryStream("elections")},
		}}}
		e.Asked.Bucket = "elections"
		e.Stream, e.Settings = about(e.Info), facts.Known(facts.Settings{}, facts.Source{})
		for _, answer = range []string{
			`{"config":{"name":"S"},"cluster":{"name":"C","replicas":[{"name":"b"}]}}`, `{"error":{"err_code":10008,"description":"no leader"}}`, `{"error":{"err_code":1}}`,
		} {
			e.ReadRoster(w.Context())
			e.ReadHistory(w.Context())
			report(w, answer, e.Bucket, "roster", "history")
		}
	})
}

// Doctor judges every server of the cluster that answers, and reports those that keep
// the stream and do not answer.
func TestDoctor_ClusterVersions(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		nc := w.Connect()
		defer nc.Close()
		answers := map[string]string{"b": "2.11.6", "elsewhere": "2.10.29", "new": "2.12.0", "odd": "latest"}
		w.Made(nc.Subscribe("$SYS.REQ.ACCOUNT.PING.STATZ", func(m *nats.Msg) {
			for name, version := range answers {
				_ = m.Respond(fmt.Appendf(nil, `{"server": {"name": %q, "ver": %q}, "data": {}}`, name, version))
			}
		}))
		e := doctor.Environment{Asker: inspect.Asker{Nc: nc, Wait: 200 * time.Millisecond}, Name: "elections", Info: &jetstream.StreamInfo{
			Config:  jetstream.StreamConfig{Metadata: map[string]string{"_nats.ver": "2.11.0"}},
			Cluster: &jetstream.ClusterInfo{Name: "C", Leader: "a", Replicas: []*jetstream.PeerInfo{{Name: "b"}, {Name: "c"}, {Name: "me"}}},
		}}
		e.Asked = facts.Asked{Bucket: "elections", Roster: true}
		e.Stream = about(e.Info)
		e.Settings = facts.Known(facts.Settings{}, facts.Source{})
		e.Roster = facts.Known(facts.Stream{}, facts.Source{})
		e.ReadServer(w.Context())
		report(w, "servers", e.Bucket, "server")
		w.Notef("# on a terminal\n%s\n", strings.Join(doctor.Lines(judge.Of(e.Bucket, "server").Findings[1:3], 80), "\n"))
		report(w, "roster", e.Bucket, "roster")
		got, _ := e.Server.Get()
		got.Others[slices.IndexFunc(got.Others, func(v facts.Version) bool { return v.Name == "b" })].Version = "2.10.29"
		report(w, "roster, and b is old", e.Bucket, "roster")
		w.Made(nc.Subscribe("$SYS.REQ.SERVER.PING.JSZ", func(m *nats.Msg) {
			for _, status := range []string{`"b"}, "data": {"config": {"sync_interval": 10000000000}}`, `"c"}`, `"new"}, "data": {"config": {"sync_interval": 1}}`} {
				_ = m.Respond([]byte(`{"server": {"name": ` + status + "}"))
			}
		}))
		e.ReadSync(w.Context())
		report(w, "syncs", e.Bucket, "sync")
		e.Nc = expect.Got(nats.Connect("", append(w.InProcess(), nats.UserInfo("limited", "limited"),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...))(w)
		defer e.Nc.Close()
		e.ReadServer(w.Context())
		report(w, "it may not ask", e.Bucket, "server")
		e.Stream = about(&jetstream.StreamInfo{})
		for _, version := range []string{"3.0.0", "2.12.0-beta.1", "2.11.8", "2.11.7", "2.11.0", "2.10.29", "1.4.1", "other"} {
			e.Server = facts.Known(facts.Server{Version: version}, facts.Source{})
			report(w, version, e.Bucket, "server")
		}
	}, testworld.WithUser("limited", testworld.Denied("$SYS.REQ.ACCOUNT.PING.STATZ")), func(o *server.Options) { o.ServerName, o.NoSystemAccount = "me", true })
}
