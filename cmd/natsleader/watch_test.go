package main

import (
	"bytes"
	"net"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// watch reports each change once, and goes on after a restart of the server. The leader of a bucket that is
// deleted may lead until its lease is over, and no line advises to make the bucket before that.
func TestWatch_EachChangeOnce(t *testing.T) {
	for name, line := range map[string]string{"people": "watch", "programs": "watch --json", "one": "watch mail"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, leader.BucketConfig{}, func(w *world) {
				must := func(err error) {
					w.Helper()
					expect.OK(w, err)
					time.Sleep(time.Minute)
				}
				a := w.campaigns("billing", leader.Config{ID: "a"})
				time.Sleep(time.Second) // a renews its lease between two steps of the test
				stop := w.follow(line)
				defer stop()
				w.notef("# a publishes its address\n")
				must(a.Proclaim(w.Context(), []byte("10.0.0.7:80")))
				w.notef("# m campaigns\n")
				m := w.campaigns("mail", leader.Config{ID: "m"})
				w.notef("# a record with a lease of 50ms is written\n")
				put(w.T, w.js, "silent", record(w.T, w.js, "mail", "s", 50*time.Millisecond))
				time.Sleep(time.Minute)
				w.notef("# the server restarts\n")
				w.restart()
				time.Sleep(time.Minute)
				w.notef("# a stops, the record of s is deleted, and others write the keys\n")
				must(a.Stop(w.Context()))
				kv, err := w.js.KeyValue(w.Context(), "elections")
				must(err)
				must(kv.Delete(w.Context(), "silent"))
				put(w.T, w.js, "silent", "hello")
				put(w.T, w.js, "billing", record(w.T, w.js, "mail", "b", time.Hour))
				time.Sleep(time.Minute)
				w.notef("# the bucket is deleted, and made again\n")
				must(m.Stop(w.Context()))
				must(w.js.DeleteKeyValue(w.Context(), "elections"))
				_, err = leader.CreateBucket(w.Context(), w.js, leader.BucketConfig{Name: "elections"})
				must(err)
			})
		})
	}
}

// The end of a lease is reported only after another look at the key: a consumer may be
// deaf for a while although the connection lives.
func TestWatch_DeafFeedEndsNoLease(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.campaigns("billing", leader.Config{ID: "a", LeaseDuration: 5 * time.Second})
		time.Sleep(time.Millisecond)
		defer w.follow("watch")()
		stream := expect.Got(w.js.Stream(w.Context(), "KV_elections"))(w)
		w.notef("# the consumers are deleted\n")
		for info := range stream.ListConsumers(w.Context()).Info() {
			expect.OK(w, stream.DeleteConsumer(w.Context(), info.Name))
		}
		time.Sleep(time.Minute)
		put(w.T, w.js, "mail", record(w.T, w.js, "billing", "m", time.Hour))
		time.Sleep(time.Second)
	})
}

// deaf is a connection to a server that gets only what it hears.
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
	bubble(t, leader.BucketConfig{}, func(w *world) {
		for to, opening := range map[string]string{"": "it connects", "$JS.API.STREAM.INFO.": "it reads the settings", "$JS.API.CONSUMER.": "it waits for its first feed"} {
			began := time.Now()
			w.dialled = func(c net.Conn) net.Conn {
				return &deaf{c, func(b []byte) bool { return !bytes.Contains(b, []byte(to)) }}
			}
			stop := w.follow("watch --timeout 10m")
			time.Sleep(time.Second)
			stop()
			expect.That(w, time.Since(began) == time.Second,
				"while %s: it ends after %v", opening, time.Since(began))
		}
	})
}
