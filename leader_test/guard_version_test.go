package leader_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/leader"
)

// Guards on servers that are too old for them. The tests of oldserver_prove_test.go
// show the same with real servers.

// findsNamesAnywhere is a rule for a link that hides from the server the headers that
// nats-server 2.11.0 to 2.11.6 do not find. These servers look only at the first place
// at which a name occurs. Without the sequence they do not look for the subject.
func findsNamesAnywhere(f frame) treatment {
	if f.dir != up || f.head == 0 {
		return pass
	}
	hidden := func(name string) bool {
		i := bytes.Index(f.raw, []byte(name))
		return i > 0 && (f.raw[i-1] != '\n' || f.raw[i+len(name)] != ':')
	}
	sequence, subject := hidden(jetstream.ExpectedLastSubjSeqHeader), hidden(jetstream.ExpectedLastSubjSeqSubjHeader)
	if sequence {
		renames(jetstream.ExpectedLastSubjSeqHeader)(f)
	}
	if sequence || subject {
		renames(jetstream.ExpectedLastSubjSeqSubjHeader)(f)
	}
	return pass
}

// The probe finds a server that looks for the names of headers anywhere in a message. The
// header that hides the other comes first by chance. Every check must detect that.
func TestGuardVersion_Probe(t *testing.T) {
	bubble(t, func(w *world) {
		w.sealed()
		w.stream(jetstream.StreamConfig{Subjects: []string{"orders.>"}})
		cl := w.dial("a")
		w.ok(checked(w.Context(), cl.openStream(t)))
		cl.filter(findsNamesAnywhere)
		for i := range 100 {
			err := checked(w.Context(), cl.openStream(t))
			if !errors.Is(err, leader.ErrIncompatibleBucket) || !strings.Contains(err.Error(), "does not heed a condition on another subject") {
				t.Fatalf("check %d: %v", i, err)
			}
		}
		a := w.guarding(cl, cl.openStream(t))
		w.at(time.Minute)
		a.saw(t, "0s faulted unfit")
	})
}

// saysVersion returns a rule for a link with which the server reports another version
// of itself, of the same length.
func saysVersion(is, says string) func(frame) treatment {
	return func(f frame) treatment {
		if i := bytes.Index(f.raw, []byte(`"_nats.ver":"`+is+`"`)); i >= 0 && f.dir == down {
			copy(f.raw[i+len(`"_nats.ver":"`):], says)
		}
		return pass
	}
}

// A candidate does not campaign while the server that leads the stream of its guard is
// too old.
func TestGuardVersion_OldServer(t *testing.T) {
	bubble(t, func(w *world) {
		w.sealed()
		w.stream(jetstream.StreamConfig{Subjects: []string{"orders.>"}})
		cl := w.dial("a")
		is := cl.nc.ConnectedServerVersion()
		cl.filter(saysVersion(is, "2.11.4"))
		a := w.guarding(cl, cl.openStream(t))
		w.at(time.Minute)
		a.saw(t, "0s faulted unfit")
		if n, _ := w.messages(); n != 0 {
			t.Errorf("%d messages were written", n)
		}
		err := checked(w.Context(), cl.openStream(t))
		want := leader.ErrIncompatibleBucket.Error() + ": stream ORDERS needs nats-server 2.11.8 or later on all servers that keep it, " +
			"or else some writes of earlier terms are accepted: server " + cl.nc.ConnectedServerName() +
			", which leads the stream, is of version 2.11.4; update it"
		if err == nil || err.Error() != want {
			t.Errorf("got\n %v\nwant\n %s", err, want)
		}
		// It stands as soon as the server has been updated.
		cl.filter(nil)
		cl.cut()
		cl.open()
		w.at(2 * time.Minute)
		if !a.IsLeader() {
			t.Errorf("a saw %q", a.news())
		}
	})
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
		tcpOK(t, err)
	}
	on("FAKE.STREAM.INFO.ORDERS", func([]byte) any { return f.info() })
	on("FAKE.STREAM.MSG.GET.ORDERS", func([]byte) any {
		return map[string]any{"message": map[string]any{"subject": "orders.guard", "seq": 7, "data": []byte("{}"), "time": time.Now()}}
	})
	on("orders.guard", func([]byte) any {
		return map[string]any{"error": map[string]any{"code": 400, "err_code": 10071, "description": "wrong last sequence: 0"}}
	})
	on("$SYS.REQ.ACCOUNT.PING.STATZ", f.version)
	tcpOK(t, nc.Flush())
}

// Each server that keeps a stream may become its leader, so each is asked.
func TestGuardVersion_EveryReplica(t *testing.T) {
	t.Parallel()
	opts := tcpOptions(t, "server_name: me, cluster { name: C, host: 127.0.0.1, port: -1 }")
	opts.JetStream, opts.NoSystemAccount = false, true
	nc := tcpDial(t, tcpServe(t, opts).ClientURL())
	f := &guardAPI{}
	f.serve(t, nc)
	js, err := jetstream.NewWithAPIPrefix(nc, "FAKE")
	tcpOK(t, err)
	s, err := fence.OpenStream(js, "ORDERS", "orders.guard")
	tcpOK(t, err)
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
				tcpOK(t, err)
			} else {
				want := leader.ErrIncompatibleBucket.Error() + ": stream ORDERS needs nats-server 2.11.8 or later on all servers that keep it, " +
					"or else some writes of earlier terms are accepted: " + k.text
				if !errors.Is(err, leader.ErrIncompatibleBucket) || err.Error() != want {
					t.Errorf("got\n %v\nwant\n %s", err, want)
				}
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			slices.Sort(f.asked)
			if want := slices.DeleteFunc(k.replicas, func(name string) bool { return name == "me" }); !slices.Equal(f.asked, want) {
				t.Errorf("asked %q, want %q", f.asked, want)
			}
		})
	}
}
