package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// stdoutOf returns what a function prints to the standard output and error of the process.
func stdoutOf(tb testing.TB, do func()) string {
	tb.Helper()
	out := expect.Got(os.Create(filepath.Join(tb.TempDir(), "out")))(tb)
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = out, out
	do()
	os.Stdout, os.Stderr = stdout, stderr
	expect.OK(tb, out.Close())
	return string(expect.Got(os.ReadFile(out.Name()))(tb))
}

// complete adds to the transcript what the shell offers for the last word of a command line. fisk prints it to
// the standard output of the process. What a command or a flag of fisk itself adds is left out.
func (w *world) complete(lines ...string) {
	w.Helper()
	for _, line := range lines {
		words := strings.Fields(stdoutOf(w, func() {
			_, errs, code := w.run("--completion-bash " + line)
			expect.That(w, errs == "" && code == 0, "%s: exit code %d\n%s", line, code, errs)
		}))
		slices.Sort(words)
		w.notef("$ natsleader %s\n%s\n", strings.ReplaceAll(line, "''", "<Tab>"), strings.Join(words, " "))
	}
}

// The shell offers commands, flags, elections, candidates, buckets and contexts, and nothing where NATS does
// not answer.
func TestCompletion(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		w.prompt("bucket add other")
		w.campaigns("billing", leader.Config{ID: "leads-billing"})
		w.campaigns("reports", leader.Config{ID: "leads-billing"})
		w.campaigns("mail", leader.Config{ID: "leads-mail"})
		for _, id := range []string{"web-2", "web-3", "two words", "-flag", "$HOME"} {
			w.campaigns("billing", leader.Config{ID: id, Queue: &leader.Queue{AtOnce: true}})
		}
		w.campaigns("mail", leader.Config{ID: "web-4", Queue: &leader.Queue{AtOnce: true}})
		w.bucket = expect.Got(leader.OpenBucket(w.js, "other"))(w)
		w.campaigns("elsewhere", leader.Config{})
		w.withContext("production", `{"url":"nats://127.0.0.1:1"}`)
		w.withContext("staging", `{"url":"nats://127.0.0.1:1"}`)
		w.complete("status --context ''")
		w.Setenv("NATS_URL", "nats://127.0.0.1:4222")
		w.complete("''", "bucket ''")
		for _, command := range []string{"run", "status", "watch", "step-down", "history"} {
			w.complete(command + " ''")
		}
		w.complete("drain ''", "step-down billing --to ''", "step-down billing --to we''", "step-down mail --to ''", "step-down --bucket other elsewhere --to ''")
		w.complete("status --bucket other ''", "status --bucket ''", "status --bucket oth''", "bucket rm ''", "bucket info ''")
		w.complete("run --succession ''", "run --log-format ''", "status --''")
		w.complete("status --server nats://127.0.0.1:1 ''")
	})
}

// The shell waits for completions for a second, whether the server does not answer or NATS itself.
func TestCompletion_Hung(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.campaigns("billing", leader.Config{})
		for hung, hears := range map[string]func([]byte) bool{
			"JetStream":  func(b []byte) bool { return !strings.Contains(string(b), "$JS.API.") },
			"the server": func([]byte) bool { return false },
		} {
			w.dialled = func(c net.Conn) net.Conn { return &deaf{c, hears} }
			began := time.Now()
			offered := stdoutOf(w, func() { w.run("--completion-bash status --timeout 1h ''") })
			expect.That(w, !strings.Contains(offered, "billing") && time.Since(began) == time.Second, "%s: %v after %v", hung, offered, time.Since(began))
		}
		w.dialled = nil
	})
}
