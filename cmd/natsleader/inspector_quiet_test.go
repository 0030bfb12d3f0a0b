package main

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// A tool that follows elections leaves a server of which no answer has shown a majority for 5 s: none
// came, or one of a leader that hears from nobody. A bucket that does not exist, and a missing
// permission, are no reason.
func TestInspector_LeavesServerThatIsCutOff(t *testing.T) {
	cutOff := &jetstream.StreamInfo{Cluster: &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{{Offline: true}, {Offline: true}}}}
	for name, tt := range map[string]struct {
		info   *jetstream.StreamInfo
		err    error
		leaves bool
	}{
		"no answer":                    {err: nats.ErrTimeout, leaves: true},
		"no leader of JetStream":       {err: &jetstream.APIError{ErrorCode: 10008}, leaves: true},
		"a leader that is cut off":     {info: cutOff, leaves: true},
		"a leader":                     {info: &jetstream.StreamInfo{}},
		"a bucket that does not exist": {err: leader.ErrNoBucket},
		"a missing permission":         {err: leader.ErrPermission},
	} {
		t.Run(name, func(t *testing.T) {
			forgetTimers()
			defer forgetTimers()
			synctest.Test(t, func(t *testing.T) {
				s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
				if err != nil {
					t.Fatal(err)
				}
				s.Start()
				nc, err := nats.Connect("nats://one,nats://two", nats.InProcessServer(s), nats.DontRandomize(), nats.IgnoreDiscoveredServers())
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					nc.Close()
					s.Shutdown()
					s.WaitForShutdown()
				}()
				js, err := jetstream.New(nc)
				if err != nil {
					t.Fatal(err)
				}
				bucket, err := leader.OpenBucket(js, "E")
				if err != nil {
					t.Fatal(err)
				}
				its := &inspector{nc: nc, bucket: bucket}
				for range 4 { // at 0, 2, 4 and 6 s
					if got := its.heard(tt.info, tt.err); (got == nil) != (tt.err == nil && !tt.leaves) || tt.err != nil && !errors.Is(got, tt.err) {
						t.Errorf("returns %v", got)
					}
					time.Sleep(2 * time.Second)
				}
				if left := nc.ConnectedUrl() == "nats://two:4222"; left != tt.leaves {
					t.Errorf("it is connected to %s", nc.ConnectedUrl())
				}
			})
		})
	}
}

// forgetTimers makes nats.go forget the timers that it keeps for later use: those of a bubble are fatal
// outside of it.
func forgetTimers() {
	runtime.GC()
	runtime.GC()
}
