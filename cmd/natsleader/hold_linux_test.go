package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// holds starts `natsleader hold`, which prints the token, and returns a function that waits for its end and tells
// of it in the transcript.
func holds(w *world, line string) (ended func()) {
	w.Helper()
	var errs bytes.Buffer
	code := make(chan int)
	w.notef("$ natsleader %s &\n", line)
	go func() {
		process := stdio{stdout: noteWriter{w, ""}, stderr: &errs, dial: w.inProcess(), life: w.Context()}
		code <- execute(strings.Fields(line), process)
	}()
	time.Sleep(time.Minute)
	return func() {
		w.Helper()
		w.notef("# natsleader %s has ended\n", line)
		end := <-code
		_, _ = noteWriter{w, "! "}.Write(errs.Bytes())
		w.ended(end)
	}
}

// hold prints the token and holds the leadership until a signal.
func TestHold_UntilSignal(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		stop := w.follow("hold jobs --id a --quiet")
		b := w.campaigns("jobs", leader.Config{ID: "b"})
		w.prompt("status jobs")
		stop()
		time.Sleep(time.Minute)
		expect.That(t, b.IsLeader(), "b does not lead")
	})
}

// hold ends when the leadership is lost, and when --try or --wait finds another leader.
func TestHold_ExitCodes(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		ended := holds(w, "hold jobs --id a --quiet")
		w.prompt("hold jobs --id b --try", "hold jobs --id b --wait 1s", "hold jobs true", "step-down jobs")
		ended()
		w.prompt("hold jobs --bucket other --quiet", "hold jobs --bucket other --quiet --log-format json")
		w.prompt("hold jobs --retry-connect --tlsca /nowhere/ca")
	})
}

// With several seats --try ends if all of them are taken.
func TestRunTry_Seats(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		ended := holds(w, "hold jobs --id a --seats 2 --try --quiet")
		w.campaigns("jobs", leader.Config{ID: "b", Seats: 2})
		w.prompt("hold jobs --id c --seats 2 --try --quiet", "hold jobs --id c --seats 2 --try", "step-down jobs")
		ended()
	})
}

// --try leads although the key holds the record of a leader that has died.
func TestRunTry_ExpiredRecord(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.campaigns("other", leader.Config{ID: "a"})
		put(w.T, w.js, "jobs", record(w.T, w.js, "other", "dead", time.Second))
		time.Sleep(time.Minute)
		w.prompt("status jobs")
		ended := holds(w, "hold jobs --id b --try --quiet")
		w.prompt("step-down jobs")
		ended()
	})
}

// A permission that is missing is found before hold or run campaigns, and not at the first election.
func TestRun_MissingPermission(t *testing.T) {
	const key = "$KV.elections.jobs"
	for _, subject := range []string{key, "$JS.API.STREAM.INFO.KV_elections", "$JS.API.DIRECT.GET.KV_elections." + key} {
		bubble(t, leader.BucketConfig{}, func(w *world) {
			w.fails("hold jobs --timeout 10m -s nats://worker:worker@localhost", exitDenied,
				"permission denied: this connection may not publish to "+subject+"\n")
		}, withUser("worker", denied(subject)))
	}
}
