//go:build field

package leader_test

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// Many goroutines write through one guard. On three replicas, conditions on one subject
// reject one another in flight. The callers do not notice any of that.
func TestClusterGuard_ManyWriters(t *testing.T) {
	t.Parallel()
	c := clusterStart(t)
	for name, storage := range map[string]jetstream.StorageType{"file": jetstream.FileStorage, "memory": jetstream.MemoryStorage} {
		t.Run(name, func(t *testing.T) {
			put, kv := guardWriter(t, c.NC, jetstream.KeyValueConfig{Storage: storage, Replicas: 3, History: 64})
			guardRush(t, put, kv, 64, proof.Size(10, 40), func(i int) {
				if i == 5 {
					check.OK(t, kv.Delete(t.Context(), fence.DefaultGuardKey))
				}
			})
		})
	}
	t.Run("without batches", func(t *testing.T) {
		put, kv := guardWriter(t, c.NC, jetstream.KeyValueConfig{Replicas: 3})
		s := check.Got(c.JS.Stream(t.Context(), "KV_"+kv.Bucket()))(t)
		conf := s.CachedInfo().Config
		conf.AllowAtomicPublish = false
		check.Got(c.JS.UpdateStream(t.Context(), conf))(t)
		for g := range 16 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for range proof.Size(5, 20) {
					check.Is(t, check.Err(put.Put(t.Context(), string(rune('a'+g)), nil)), nil)
				}
			})
		}
	})
}

// On three replicas, while the guard moves as fast as it can.
func TestClusterGuardCheck_GuardThatMoves(t *testing.T) {
	t.Parallel()
	c := clusterStart(t)
	cfg := jetstream.KeyValueConfig{Bucket: "orders", Replicas: 3}
	var g *fence.Bucket
	clusterPlaced(t, func() (err error) {
		g, err = fence.CreateBucket(t.Context(), c.JS, cfg)
		return err
	})
	check.OK(t, checked(t.Context(), g))
	stop, stopped := make(chan struct{}), make(chan struct{})
	var moves atomic.Int64
	go func() {
		defer close(stopped)
		type answer struct {
			revision uint64
			err      error
		}
		reply := make(chan answer, 1)
		g.Backend().Get(t.Context(), func(e backend.Entry, err error) { reply <- answer{e.Revision, err} })
		marker := <-reply
		for last := marker.revision; ; {
			select {
			case <-stop:
				return
			default:
			}
			g.Backend().Update(t.Context(), []byte("junk"), last, func(revision uint64, err error) { reply <- answer{revision, err} })
			if a := <-reply; a.err == nil {
				moves.Add(1)
				last = a.revision
			}
		}
	}()
	other := check.Got(fence.OpenBucket(tcpJS(t, c.dial()), "orders"))(t)
	checks := 0
	tcpEventually(t, "100 checks while the guard moves 100 times", func() bool {
		check.OK(t, checked(t.Context(), other))
		checks++
		return checks >= 100 && moves.Load() >= 100
	})
	close(stop)
	<-stopped
	check.Is(t, check.Err(fence.CreateBucket(t.Context(), c.JS, cfg)), nil)
}

// guardAPI acts as the servers of a stream on which every guard works, behind the API
// prefix FAKE.
type guardAPI struct {
	mu       sync.Mutex
	tells    string            // version of the leader
	versions map[string]string // of the others that answer
	replicas []string
	asked    []string // names in requests for a version
}

func (f *guardAPI) info() any {
	f.mu.Lock()
	defer f.mu.Unlock()
	meta := map[string]string{}
	if f.tells != "" {
		meta["_nats.ver"] = f.tells
	}
	var replicas []map[string]any
	for _, name := range f.replicas {
		replicas = append(replicas, map[string]any{"name": name, "current": true})
	}
	return map[string]any{
		"config":  map[string]any{"name": "ORDERS", "subjects": []string{"orders.>"}, "num_replicas": 3, "metadata": meta},
		"cluster": map[string]any{"name": "C", "leader": "s1", "replicas": replicas},
	}
}

// version answers as the server of that name, if there is one.
func (f *guardAPI) version(req []byte) any {
	var q struct {
		Name    string `json:"server_name"`
		Cluster string `json:"cluster"`
		All     bool   `json:"include_unused"`
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if json.Unmarshal(req, &q) != nil || !q.All || q.Cluster != "C" {
		return nil
	}
	f.asked = append(f.asked, q.Name)
	if v := f.versions[q.Name]; v != "" {
		return map[string]any{"server": map[string]any{"name": q.Name, "ver": v}, "data": map[string]any{}}
	}
	return nil
}

func (f *guardAPI) serve(t *testing.T, nc *nats.Conn) {
	t.Helper()
	on := func(subject string, answer func(req []byte) any) {
		_, err := nc.Subscribe(subject, func(m *nats.Msg) {
			if a := answer(m.Data); a != nil {
				b, _ := json.Marshal(a)
				_ = m.Respond(b)
			}
		})
		check.OK(t, err)
	}
	on("FAKE.STREAM.INFO.ORDERS", func([]byte) any { return f.info() })
	on("FAKE.STREAM.MSG.GET.ORDERS", func([]byte) any {
		return map[string]any{"message": map[string]any{"subject": "orders.guard", "seq": 7, "data": []byte("{}"), "time": time.Now()}}
	})
	on("orders.guard", func([]byte) any {
		return map[string]any{"error": map[string]any{"code": 400, "err_code": 10071, "description": "wrong last sequence: 0"}}
	})
	on("$SYS.REQ.ACCOUNT.PING.STATZ", f.version)
	check.OK(t, nc.Flush())
}

// Each server that keeps a stream may become its leader, so each is asked.
func TestGuardVersion_EveryReplica(t *testing.T) {
	t.Parallel()
	opts := tcpOptions(t, "server_name: me, cluster { name: C, host: 127.0.0.1, port: -1 }")
	opts.JetStream, opts.NoSystemAccount = false, true
	nc := tcpDial(t, tcpServe(t, opts).ClientURL())
	f := &guardAPI{}
	f.serve(t, nc)
	js := check.Got(jetstream.NewWithAPIPrefix(nc, "FAKE"))(t)
	s := check.Got(fence.OpenStream(js, "ORDERS", "orders.guard"))(t)
	type others = map[string]string
	for _, k := range []struct {
		name, tells string
		versions    others
		replicas    []string
		text        string // empty: fit
	}{
		{"all are new", "2.12.1", others{"s2": "2.11.8", "s3": "3.0.0"}, []string{"s2", "s3"}, ""},
		{"no version is told", "", nil, nil, "server s1, which leads the stream, does not tell its version, as before 2.11; update it"},
		{"the leader is old", "2.11.6", nil, nil, "server s1, which leads the stream, is of version 2.11.6; update it"},
		{"the leader is one short", "2.11.7", nil, nil, "server s1, which leads the stream, is of version 2.11.7; update it"},
		{"the last replica is old", "2.12.1", others{"s2": "2.12.1", "s3": "2.11.0"}, []string{"s2", "s3"}, "server s3, which may come to lead the stream, is of version 2.11.0; update it"},
		{"2.10 does not lead", "2.11.8", others{"s2": "2.10.29"}, []string{"s2", "s3"}, "server s2, which may come to lead the stream, is of version 2.10.29; update it"},
		{"one does not answer", "2.11.8", others{"s2": "2.12.0"}, []string{"s2", "s3"}, ""},
		{"one does not answer, the other is old", "2.11.8", others{"s3": "2.11.4"}, []string{"s2", "s3"}, "server s3, which may come to lead the stream, is of version 2.11.4; update it"},
		{"a version of its own", "2.11.8", others{"s2": "nightly"}, []string{"s2"}, ""},
		{"before a release", "2.12.0-preview.1", others{"s2": "2.11.4-RC.2"}, []string{"s2"}, "server s2, which may come to lead the stream, is of version 2.11.4-RC.2; update it"},
		{"the connected one keeps it", "2.12.0", nil, []string{"me"}, ""},
	} {
		t.Run(k.name, func(t *testing.T) {
			f.mu.Lock()
			f.tells, f.versions, f.replicas, f.asked = k.tells, k.versions, k.replicas, nil
			f.mu.Unlock()
			err := checked(t.Context(), s)
			if k.text == "" {
				check.OK(t, err)
			} else {
				want := leader.ErrIncompatibleBucket.Error() + ": stream ORDERS needs nats-server 2.11.8 or later on all servers that keep it, " +
					"or else some writes of earlier terms are accepted: " + k.text
				check.That(t, errors.Is(err, leader.ErrIncompatibleBucket) && err.Error() == want,
					"got\n %v\nwant\n %s", err, want)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			slices.Sort(f.asked)
			want := slices.DeleteFunc(k.replicas, func(name string) bool { return name == "me" })
			check.That(t, slices.Equal(f.asked, want), "asked %q, want %q", f.asked, want)
		})
	}
}
