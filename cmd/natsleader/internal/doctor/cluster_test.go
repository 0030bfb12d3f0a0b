package doctor

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// When another server leads the stream, doctor looks at a replica for as long as under the first one, and does not look on
// while ever another one leads it.
func TestDoctor_LooksUnderNewLeader(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		began, terms := time.Now(), 1
		info := func() *jetstream.StreamInfo {
			term := min(int(time.Since(began)/time.Second), terms)
			c := &jetstream.ClusterInfo{Name: "C", Leader: fmt.Sprint(term), Replicas: []*jetstream.PeerInfo{{Name: "c", Lag: 7, Active: time.Second}}}
			return &jetstream.StreamInfo{Config: jetstream.StreamConfig{Name: "KV_x"}, Cluster: c}
		}
		nc := w.Connect()
		defer nc.Close()
		w.Made(nc.Subscribe("fake.STREAM.INFO.KV_x", func(m *nats.Msg) {
			text, _ := json.Marshal(info())
			_ = m.Respond(text)
		}))
		e := Environment{Asker: inspect.Asker{Nc: nc, Api: "fake.", Wait: time.Second}, Info: info(), infoAt: began}
		looks := e.lookAtReplicas(w.Context())
		took := time.Since(began)
		expect.That(w, took == time.Second+judge.SettleTime && looks.Apart == judge.SettleTime,
			"%v, and %v under the new leader", took, looks.Apart)
		began, terms = time.Now(), 60
		e.Info, e.infoAt = info(), began
		e.lookAtReplicas(w.Context())
		expect.Equal(w, time.Since(began), 2*judge.SettleTime, "it looks for %v")
	})
}

// Doctor measures quick answers fifteen times, slow ones for a second, and at least three.
func TestDoctor_Measures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for takes, times := range map[time.Duration]int{0: manyTrips, 100 * time.Millisecond: 10, time.Minute: someTrips} {
			took := expect.Got(new(Environment).times(func() (time.Duration, error) {
				time.Sleep(takes)
				return takes, nil
			}))(t)
			expect.Equal(t, len(took), times, "%d times %v", takes)
		}
	})
}

// A server that was not asked is not silent: doctor says why it could not ask.
func TestDoctor_ServersNotAsked(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		nc := w.Connect()
		defer nc.Close()
		e := Environment{Asker: inspect.Asker{Nc: nc, Wait: time.Second}, system: func() (*nats.Conn, error) { return nil, nats.ErrNoServers }}
		e.Info = &jetstream.StreamInfo{Cluster: &jetstream.ClusterInfo{Name: "C", Leader: "a"}}
		e.ReadServer(w.Context())
		got, _ := e.Server.Get()
		expect.That(w, got.Unasked == nats.ErrNoServers.Error() && got.Refused == "", "%+v", got)
	})
}
