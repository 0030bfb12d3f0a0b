//go:build field

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// output collects the output of a running command.
type output struct {
	mu    sync.Mutex
	lines []string
	ended chan struct{} // closed when no process is left that could print
}

func (o *output) collect(r io.Reader) {
	for s := bufio.NewScanner(r); s.Scan(); {
		o.mu.Lock()
		o.lines = append(o.lines, s.Text())
		o.mu.Unlock()
	}
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.lines, "\n")
}

// started starts a command, and collects its output, in order.
func started(tb testing.TB, cmd *exec.Cmd) *output {
	tb.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		tb.Fatal(err)
	}
	o := output{ended: make(chan struct{})}
	go func() {
		defer close(o.ended)
		o.collect(r)
	}()
	tb.Cleanup(func() {
		<-o.ended
		_ = r.Close()
	})
	return &o
}

func (o *output) says(t *testing.T, what string) {
	t.Helper()
	eventually(t, "it prints "+what, func() bool { return strings.Contains(o.text(), what) })
}

// interrupted ends a command as Control-C does.
func interrupted(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := endOf(t, cmd); code != 0 {
		t.Errorf("%v: exit code %d", cmd.Args[1:], code)
	}
}

// watch reports each change once.
func TestWatch_EachChangeOnce(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	_, js := connectTo(t, url)
	a := campaigns(t, url, "elections", "billing", leader.Config{ID: "a"})
	all, one, lines := natsleader(t, "watch", "-s", url), natsleader(t, "watch", "mail", "-s", url), natsleader(t, "watch", "--json", "-s", url)
	timeline, mail, asJSON := started(t, all), started(t, one), started(t, lines)

	timeline.says(t, "billing  a leads with token")
	mail.says(t, "mail  no candidate has ever led it")
	asJSON.says(t, `"billing"`)
	if err := a.Proclaim(t.Context(), []byte("10.0.0.7:80")); err != nil {
		t.Fatal(err)
	}
	timeline.says(t, ": 10.0.0.7:80")
	campaigns(t, url, "elections", "mail", leader.Config{ID: "m"})
	timeline.says(t, "mail  m leads with token")
	mail.says(t, "mail  m leads with token")
	put(t, js, "silent", record(t, js, "mail", "s", 50*time.Millisecond))
	timeline.says(t, "silent  s has not renewed its lease, nobody leads")
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	timeline.says(t, "billing  a has handed over, nobody leads")
	kv, err := js.KeyValue(t.Context(), "elections")
	if err == nil {
		err = kv.Delete(t.Context(), "silent")
	}
	if err != nil {
		t.Fatal(err)
	}
	timeline.says(t, "silent  the key was deleted, nobody leads")
	put(t, js, "silent", "hello")
	timeline.says(t, "silent  the key holds something that natsleader did not write")
	asJSON.says(t, `"foreign"`)

	interrupted(t, all)
	interrupted(t, one)
	interrupted(t, lines)
	for _, line := range []string{"m leads", ": 10.0.0.7:80", "has not renewed", "handed over", "was deleted", "did not write"} {
		if n := strings.Count(timeline.text(), line); n != 1 {
			t.Errorf("%q was told %d times", line, n)
		}
	}
	if strings.Contains(mail.text(), "billing") {
		t.Error("the watch of one election tells of another")
	}
	if t.Failed() {
		t.Log("\n" + timeline.text())
	}
	for line := range strings.Lines(asJSON.text()) {
		var c struct {
			Time     time.Time `json:"time"`
			Election string    `json:"election"`
			State    state     `json:"state"`
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.Time.IsZero() || c.Election == "" || c.State == "" {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// watch goes on after a restart of the server.
func TestWatch_OutlivesRestart(t *testing.T) {
	t.Parallel()
	var opts server.Options
	s := startServer(t, func(o *server.Options) {
		o.Port = testserver.FreePort(t)
		opts = *o
	})
	url := s.ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	a := campaigns(t, url, "elections", "billing", leader.Config{ID: "a"})
	before, _ := a.Term()
	cmd := natsleader(t, "watch", "-s", url)
	timeline := started(t, cmd)
	timeline.says(t, "a leads")

	s.Shutdown()
	s.WaitForShutdown()
	timeline.says(t, "trying again")
	startServer(t, func(o *server.Options) {
		o.StoreDir = opts.StoreDir
		o.Port = opts.Port
	})
	timeline.says(t, "connected again")
	m := campaigns(t, url, "elections", "mail", leader.Config{ID: "m"})
	defer m.Stop(t.Context()) //nolint:errcheck // while the server runs
	timeline.says(t, "m leads")
	interrupted(t, cmd)
	if n := strings.Count(timeline.text(), "the connection was lost; trying again"); n != 1 {
		t.Errorf("told %d times that it is not connected\n%s", n, timeline.text())
	}
	after, _ := a.Term()
	if err := a.Stop(t.Context()); err != nil { // while the server runs
		t.Error(err)
	}
	if after == before && strings.Count(timeline.text(), "a leads") != 1 {
		t.Errorf("what did not change was told again\n%s", timeline.text())
	}
}

func TestWatch_EndsAtSIGTERM(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	cmd := natsleader(t, "watch", "billing", "-s", url)
	started(t, cmd).says(t, "billing")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := endOf(t, cmd); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// The end of a lease is reported only after another look at the key: a consumer may be
// deaf for a while although the connection lives.
func TestWatch_DeafFeedEndsNoLease(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	campaigns(t, url, "elections", "billing", leader.Config{ID: "a", LeaseDuration: 5 * time.Second})
	cmd := natsleader(t, "watch", "-s", url)
	timeline := started(t, cmd)
	timeline.says(t, "a leads")
	_, js := connectTo(t, url)
	stream, err := js.Stream(t.Context(), "KV_elections")
	if err != nil {
		t.Fatal(err)
	}
	deaf := 0
	for info := range stream.ListConsumers(t.Context()).Info() {
		if err := stream.DeleteConsumer(t.Context(), info.Name); err != nil {
			t.Fatal(err)
		}
		deaf++
	}
	if deaf == 0 {
		t.Fatal("it has no consumer")
	}
	eventually(t, "it looks again", func() bool {
		n := 0
		for range stream.ListConsumers(t.Context()).Info() {
			n++
		}
		return n > 0
	})
	put(t, js, "mail", record(t, js, "billing", "m", time.Hour))
	timeline.says(t, "m leads")
	interrupted(t, cmd)
	if strings.Contains(timeline.text(), "not renewed") {
		t.Error(timeline.text())
	}
}

// The leader of a bucket that is deleted may lead until its lease is over, and no command advises to make
// the bucket before that.
func TestWatch_DeletedBucket(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	_, js := connectTo(t, url)
	a := campaigns(t, url, "elections", "model", leader.Config{ID: "a"})
	put(t, js, "billing", record(t, js, "model", "b", time.Hour))
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	cmd := natsleader(t, "watch", "-s", url)
	timeline := started(t, cmd)
	timeline.says(t, "billing  b leads")
	if err := js.DeleteKeyValue(t.Context(), "elections"); err != nil {
		t.Fatal(err)
	}
	timeline.says(t, "bucket elections is gone; b (billing) may lead until ")
	newBucket(t, url, "elections", leader.BucketConfig{})
	timeline.says(t, "connected again")
	interrupted(t, cmd)
	if said := timeline.text(); strings.Contains(said, "the key is gone") || strings.Contains(said, "bucket add") {
		t.Error(said)
	}
}
