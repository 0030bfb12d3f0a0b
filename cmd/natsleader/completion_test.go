package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The shell offers commands, flags, elections, candidates, buckets and contexts, and nothing where NATS does
// not answer.
func TestCompletion(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		w.Prompt("bucket add other")
		w.Campaigns("billing", leader.Config{ID: "leads-billing"})
		w.Campaigns("reports", leader.Config{ID: "leads-billing"})
		w.Campaigns("mail", leader.Config{ID: "leads-mail"})
		for _, id := range []string{"web-2", "web-3", "two words", "-flag", "$HOME"} {
			w.Campaigns("billing", leader.Config{ID: id, Queue: &leader.Queue{AtOnce: true}})
		}
		w.Campaigns("mail", leader.Config{ID: "web-4", Queue: &leader.Queue{AtOnce: true}})
		w.Bucket = expect.Got(leader.OpenBucket(w.Js, "other"))(w)
		w.Campaigns("elsewhere", leader.Config{})
		w.WithContext("production", `{"url":"nats://127.0.0.1:1"}`)
		w.WithContext("staging", `{"url":"nats://127.0.0.1:1"}`)
		w.Complete("status --context ''")
		w.Setenv("NATS_URL", "nats://127.0.0.1:4222")
		w.Complete("''", "bucket ''")
		for _, command := range []string{"run", "status", "watch", "step-down", "history"} {
			w.Complete(command + " ''")
		}
		w.Complete("drain ''", "step-down billing --to ''", "step-down billing --to we''", "step-down mail --to ''", "step-down --bucket other elsewhere --to ''")
		w.Complete("status --bucket other ''", "status --bucket ''", "status --bucket oth''", "bucket rm ''", "bucket info ''")
		w.Complete("run --succession ''", "run --log-format ''", "status --''")
		w.Complete("status --server nats://127.0.0.1:1 ''")
	})
}

// The shell waits for completions for a second, whether the server does not answer or NATS itself.
func TestCompletion_Hung(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Campaigns("billing", leader.Config{})
		for hung, hears := range map[string]func([]byte) bool{
			"JetStream":  func(b []byte) bool { return !strings.Contains(string(b), "$JS.API.") },
			"the server": func([]byte) bool { return false },
		} {
			w.Dialled = func(c net.Conn) net.Conn { return &deaf{c, hears} }
			began := time.Now()
			offered := testworld.StdoutOf(w, func() { w.Run("--completion-bash status --timeout 1h ''") })
			expect.That(w, !strings.Contains(offered, "billing") && time.Since(began) == time.Second, "%s: %v after %v", hung, offered, time.Since(began))
		}
		w.Dialled = nil
	})
}
