package main

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// watch reports each change once, and goes on after a restart of the server. The leader of a bucket that is
// deleted may lead until its lease is over, and no line advises to make the bucket before that.
func TestWatch_EachChangeOnce(t *testing.T) {
	for name, line := range map[string]string{"people": "watch", "programs": "watch --json --log-format json", "one": "watch mail"} {
		t.Run(name, func(t *testing.T) {
			testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
				must := func(err error) {
					w.Helper()
					expect.OK(w, err)
					time.Sleep(time.Minute)
				}
				a := w.Campaigns("billing", leader.Config{ID: "a"})
				time.Sleep(time.Second) // a renews its lease between two steps of the test
				stop := w.Follow(line)
				defer stop()
				w.Notef("# a publishes its address\n")
				must(leadertest.Led(a).Proclaim(w.Context(), []byte("10.0.0.7:80")))
				w.Notef("# m campaigns\n")
				m := w.Campaigns("mail", leader.Config{ID: "m"})
				w.Notef("# a record with a lease of 50ms is written\n")
				testworld.Put(w.T, w.Js, "silent", testworld.Record(w.T, w.Js, "mail", "s", 50*time.Millisecond))
				time.Sleep(time.Minute)
				w.Notef("# the server restarts\n")
				w.Restart()
				time.Sleep(time.Minute)
				w.Notef("# a stops, the record of s is deleted, and others write the keys\n")
				must(a.Stop())
				kv, err := w.Js.KeyValue(w.Context(), "elections")
				must(err)
				must(kv.Delete(w.Context(), "silent"))
				testworld.Put(w.T, w.Js, "silent", "hello")
				testworld.Put(w.T, w.Js, "billing", testworld.Record(w.T, w.Js, "mail", "b", time.Hour))
				time.Sleep(time.Minute)
				w.Notef("# the bucket is deleted, and made again\n")
				must(m.Stop())
				must(w.Js.DeleteKeyValue(w.Context(), "elections"))
				_, err = leader.CreateOrUpdateBucket(w.Context(), w.Js, leader.BucketConfig{Name: "elections"})
				must(err)
			})
		})
	}
}

// The end of a lease is reported only after another look at the key: a consumer may be
// deaf for a while although the connection lives.
func TestWatch_DeafFeedEndsNoLease(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Campaigns("billing", leader.Config{ID: "a", LeaseDuration: 5 * time.Second})
		time.Sleep(time.Millisecond)
		defer w.Follow("watch")()
		stream := expect.Got(w.Js.Stream(w.Context(), "KV_elections"))(w)
		w.Notef("# the consumers are deleted\n")
		for info := range stream.ListConsumers(w.Context()).Info() {
			expect.OK(w, stream.DeleteConsumer(w.Context(), info.Name))
		}
		time.Sleep(time.Minute)
		testworld.Put(w.T, w.Js, "mail", testworld.Record(w.T, w.Js, "billing", "m", time.Hour))
		time.Sleep(time.Second)
	})
}

// deaf is a connection to a server that gets only a part of what is written.
type deaf struct {
	net.Conn
	hears func(b []byte) bool
}

func (d *deaf) Write(b []byte) (int, error) {
	if !d.hears(b) {
		return len(b), nil
	}
	return d.Conn.Write(b)
}

// watch can be interrupted while it opens.
func TestWatch_InterruptedEarly(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		for to, opening := range map[string]string{"": "it connects", "$JS.API.STREAM.INFO.": "it reads the settings", "$JS.API.CONSUMER.": "it waits for its first feed"} {
			began := time.Now()
			w.Dialled = func(c net.Conn) net.Conn {
				return &deaf{c, func(b []byte) bool { return !bytes.Contains(b, []byte(to)) }}
			}
			stop := w.Follow("watch --timeout 10m")
			time.Sleep(time.Second)
			stop()
			expect.That(w, time.Since(began) == time.Second,
				"while %s: it ends after %v", opening, time.Since(began))
		}
	})
}
