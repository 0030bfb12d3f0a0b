package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/natsleader/natsleader/internal/backend"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// changeOf returns a change to a holder.
func changeOf(election string, s state, h leader.Holder) change {
	return electionChange{at: time.Unix(1e9, 0), state: s, now: electionStatus{election: election, entry: backend.Entry{Revision: 1}, holder: h}}
}

// The exporter shows no more elections than it is allowed to, counts the others, and shows
// no name or ID that a client made up to spoil the page. It shows the assigner of a group, and not its members.
func TestExporter_IsBounded(t *testing.T) {
	alone(t, func(w *world) {
		e := newElectionMetrics("elections", 2, newLineLog(io.Discard, "", logText))
		e.up = true
		registry := expect.Got(metricsRegistry(e))(w)
		shows := func(what string, changes ...change) {
			w.notef("# %s\n", what)
			expect.OK(w, e.changed(changes...))
			page := httptest.NewRecorder()
			e.serve(page, httptest.NewRequest(http.MethodGet, "/metrics", nil), registry)
			w.noteMetrics(page.Body.String())
			p := expfmt.NewTextParser(model.UTF8Validation)
			expect.Got(p.TextToMetricFamilies(page.Body))(w)
		}
		h := leader.Holder{ID: "\xff\"\n" + strings.Repeat("x", 200), Token: 7}
		const b = "b.shard.assigner"
		shows("five keys, one of which is the name of no election, and one that of a member", changeOf("\xff", stateLeading, h),
			changeOf("b.shard.member.a", stateLeading, h), changeOf("a", stateLeading, h), changeOf(b, stateLeading, h), changeOf("c", stateLeading, h))
		shows("b was deleted, and its marker has expired", changeOf(b, stateNever, leader.Holder{}))
		shows("c is still there, and a has another leader", changeOf("c", stateLeading, h),
			changeOf("a", stateLeading, h), changeOf("a", stateLeading, leader.Holder{ID: "b", Token: 8}))
		gone := electionChange{state: stateDeleted, now: electionStatus{election: "a", gone: time.Unix(1e9, 0)}}
		shows("the marker of a has expired, and only that of b is left", gone, changeOf("\xff", stateNever, leader.Holder{}),
			changeOf(b, stateDeleted, leader.Holder{}))
		e.trouble(errors.New("gone"))
		shows("the bucket is gone")
	})
}

// The exporter asks twice a minute whether the streams of the history and of the roster have a leader. It does not ask
// again without the permission.
func TestExporter_StreamsBeside(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		w.run("bucket add --roster --history 30d")
		var silent atomic.Bool
		var asked atomic.Int32
		w.dialled = func(c net.Conn) net.Conn {
			return &deaf{c, func(b []byte) bool {
				asks := strings.Contains(string(b), "STREAM.INFO.natsleader_history_")
				if asks {
					asked.Add(1)
				}
				return !asks || !silent.Load()
			}}
		}
		at := func(what string, later time.Duration) {
			w.Helper()
			time.Sleep(later)
			_, page := w.get("/metrics")
			w.notef("# %s\n", what)
			for line := range strings.Lines(page) {
				if strings.HasPrefix(line, "natsleader_bucket_") {
					w.notef("  %s", line)
				}
			}
		}
		end := w.follow("serve --metrics :9847")
		at("both have a leader", 5*time.Second)
		silent.Store(true)
		at("the history has none: not known yet", 5*time.Second)
		at("that is known", streamsEvery)
		silent.Store(false)
		at("it has one again", streamsEvery+lookEvery)
		expect.OK(w, w.js.DeleteStream(w.Context(), "natsleader_history_elections"))
		at("it is gone", streamsEvery+lookEvery)
		w.notef("# it was asked for %d times\n", asked.Swap(0))
		end()
		end = w.follow("serve --metrics :9847 -s nats://blind:blind@127.0.0.1:4222")
		at("a user may not read the settings of the history", 5*time.Minute)
		end()
		w.notef("# it was asked for %d times\n", asked.Load())
	}, withUser("blind", denied("$JS.API.STREAM.INFO.natsleader_history_elections")))
}

// noteMetrics adds the metrics of a page to the transcript, but none of Go and of the process.
func (w *world) noteMetrics(page string) {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "natsleader_") {
			w.notef("  %s", line)
		}
	}
}

// exported adds to the transcript what the exporter serves.
func (w *world) exported() {
	w.Helper()
	for _, path := range []string{"/metrics", "/connected", "/live"} {
		status, body := w.get(path)
		w.notef("GET %s: %d\n", path, status)
		if path == "/metrics" {
			w.noteMetrics(body)
		} else {
			w.notef("  %s", body)
		}
	}
}

// One connection and one feed serve the page and the metrics. A line says once what is not up to date.
func TestServe_PageAndMetrics(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.campaigns("billing", leader.Config{ID: "a"})
		count := func() (clients, consumers int) {
			stream := expect.Got(w.js.Stream(w.Context(), "KV_elections"))(w)
			return w.s.NumClients(), expect.Got(stream.Info(w.Context()))(w).State.Consumers
		}
		clients, consumers := count()
		stop := w.follow("serve --page :9848 --metrics :80")
		time.Sleep(time.Second)
		withBoth, feeds := count()
		expect.That(w, withBoth == clients+1 && feeds == consumers+1, "%d more clients and %d more consumers", withBoth-clients, feeds-consumers)
		metrics := w.served
		w.served = w.servedAt["page"]
		w.reads("/api/elections")
		w.served = metrics
		w.exported()
		w.notef("# the server is gone\n")
		w.s.Shutdown()
		w.s.WaitForShutdown()
		synctest.Wait()
		w.exported()
		stop()
		w.serve()
	})
}

// The exporter shows elections with a leader, with several, with dead candidates and without candidates, in
// buckets that go away and come back. While the bucket cannot be read it shows no election: what it has read
// may be wrong by then.
func TestExporter_AllElections(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		at := func(what string, do func() error) {
			w.Helper()
			w.notef("# %s\n", what)
			expect.OK(w, do())
			time.Sleep(lookEvery + lookLimit)
			w.exported()
		}
		var silent atomic.Bool
		w.dialled = func(c net.Conn) net.Conn {
			return &deaf{c, func(b []byte) bool { return !silent.Load() || !strings.Contains(string(b), "$JS.API.") }}
		}
		defer w.follow("serve --metrics :80 --bucket jobs --timeout 1h -s nats://boss:boss@127.0.0.1:4222")()
		at("there is no bucket", func() error { return nil })
		at("the bucket is made, many has two leaders, and the holder of dead, a one-shot job, has died", func() (err error) {
			w.bucket, err = leader.CreateOrUpdateBucket(w.Context(), w.js, leader.BucketConfig{Name: "jobs", MaxLease: 10 * time.Second})
			for _, id := range []string{"a", "b"} {
				w.campaignsOn(seats.Of(w.bucket, 2), "many", leader.Config{ID: id})
			}
			w.prompt("note dead --one-shot --bucket jobs")
			record := `{"v":1,"state":"leading","id":"worker-c","session":"s","n":1,"lease":"100ms","token":1}`
			_, failed := w.js.Publish(w.Context(), "$KV.jobs.dead", []byte(record))
			w.prompt("drain web-1 --keep --bucket jobs", "drain web-2 --keep --bucket jobs")
			return errors.Join(err, failed)
		})
		at("the cluster has lost its quorum: JetStream does not answer", func() error { silent.Store(true); return nil })
		at("it answers again", func() error { silent.Store(false); return nil })
		publish := func(key, record, operation string) error {
			m := &nats.Msg{Subject: "$KV.jobs." + key, Data: []byte(record), Header: nats.Header{"KV-Operation": {operation}}}
			_, err := w.js.PublishMsg(w.Context(), m)
			return err
		}
		at("the key of left is deleted after a release, and that of job without", func() error {
			err := publish("left", `{"v":1,"state":"released","id":"worker-l","session":"s","n":1,"lease":"1s"}`, "PUT")
			time.Sleep(time.Second) // the bucket keeps one revision
			return errors.Join(err, publish("left", "", "DEL"), publish("job", "", "DEL"))
		})
		at("job is a one-shot job", func() error { w.prompt("note job --one-shot --bucket jobs"); return nil })
		w.prompt("undrain web-1 --bucket jobs")
		w.dialled = nil
		at("the server restarts", func() error { w.restart(); return nil })
		reload := func(deny ...string) error {
			o := w.o.Clone()
			o.Users[1].Permissions = denied(deny...)
			return w.s.ReloadOptions(o)
		}
		at("a permission is revoked", func() error { return reload("$JS.API.STREAM.INFO.>") })
		at("it is granted again", func() error { return reload() })
		at("the bucket is deleted", func() error { return w.js.DeleteKeyValue(w.Context(), "jobs") })
		w.notef("# the server is gone: no metrics at once, although the limit for an answer is an hour\n")
		w.s.Shutdown()
		w.s.WaitForShutdown()
		synctest.Wait()
		w.exported()
		w.serve()
	}, withUser("boss", nil))
}
