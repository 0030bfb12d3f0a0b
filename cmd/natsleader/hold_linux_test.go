package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// holds starts `natsleader run --no-command`, and returns a function that waits for its end, and adds the token that it has printed
// and its log to the transcript. They come then, because another command prints in the instant in which it is elected.
func holds(w *testworld.World, line string) (ended func()) {
	w.Helper()
	out := &backgroundOutput{w: w}
	var errs bytes.Buffer
	code := make(chan int, 1)
	w.Notef("$ natsleader %s &\n", line)
	go func() {
		process := front.Stdio{Stdout: out, Stderr: &errs, Dial: w.InProcess(), Life: w.Context()}
		code <- execute(strings.Fields(line), process)
	}()
	time.Sleep(59 * time.Second) // between two renewals
	return func() {
		w.Helper()
		w.Notef("# natsleader %s has ended\n", line)
		time.Sleep(5 * time.Second)
		expect.Must(w, len(code) == 1, "it goes on\n%s", &w.Shown)
		end := <-code
		w.Notef("%s", out.text())
		_, _ = testworld.NoteWriter{W: w, Mark: "! "}.Write(lineTimes.ReplaceAll(errs.Bytes(), nil))
		w.Ended(end)
	}
}

// backgroundOutput keeps what a command prints. hold prints its token in a goroutine of its own.
type backgroundOutput struct {
	w    *testworld.World
	kept bytes.Buffer
}

func (o *backgroundOutput) Write(b []byte) (int, error) {
	o.w.Mu.Lock()
	defer o.w.Mu.Unlock()
	return o.kept.Write(b)
}

func (o *backgroundOutput) text() string {
	o.w.Mu.Lock()
	defer o.w.Mu.Unlock()
	return o.kept.String()
}

// lineTimes are the times of the lines of a log, and the lines that another goroutine logs at the same time.
var lineTimes = regexp.MustCompile(`(?m)^2000-\S+ (INFO .*(asked to hand over|the servers answer again).*\n)?`)

// run --no-command prints the token and holds the leadership until a signal.
func TestHold_UntilSignal(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		stop := w.Follow("run jobs --no-command --id a --quiet")
		b := w.Campaigns("jobs", leader.Config{ID: "b"})
		w.Prompt("status jobs")
		stop()
		time.Sleep(time.Minute)
		expect.That(t, b.IsLeader(), "b does not lead")
	})
}

// run --no-command ends when the leadership is lost, and when --try or --wait finds another leader.
func TestHold_ExitCodes(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		ended := holds(w, "run jobs --no-command --id a --quiet")
		w.Prompt("run jobs --no-command --id b --try", "run jobs --no-command --id b --wait 1s", "run jobs --no-command --id b --wait 1s --kv-elect", "run jobs --no-command true", "run jobs --no-command -- true", "run jobs --no-command --try --drain 1s", "run --no-command jobs --try --hold 1s", "step-down jobs")
		ended()
		w.Prompt("run jobs --no-command --bucket other --quiet", "run jobs --no-command --bucket other --quiet --log-format json")
		w.Prompt("run jobs --no-command --retry-connect --tlsca /nowhere/ca", "run jobs --no-command -s nats://localhost:1", "run jobs --no-command --lease 1h")
		w.Prompt("run jobs --no-command --turn-timeout 15s", "run jobs --no-command --http 127.0.0.1:99999", "run jobs --no-command --roster")
	})
}

// With --retry-connect run --no-command waits for the server and for the bucket. It is alive meanwhile, and not ready.
func TestHold_RetryConnect(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		pages := func(when string) {
			w.Notef("# %s\n", when)
			for _, path := range []string{"/live", "/connected", "/leader"} {
				status, _ := w.Get(path)
				w.Notef("%s: %d\n", path, status)
			}
		}
		w.S.Shutdown()
		w.S.WaitForShutdown()
		stop := w.Follow("run jobs --no-command --id a --bucket late --retry-connect --http :80 --quiet")
		pages("without a server")
		w.Serve()
		time.Sleep(10 * time.Second)
		pages("without the bucket")
		w.Prompt("bucket add late")
		time.Sleep(10 * time.Second)
		pages("with the bucket")
		stop()
	})
}

// A line about a foreign record names no other candidate, and one about the roster does not look as if the lease
// were at stake.
func TestHold_NamesTheCause(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		ended := holds(w, "run jobs --no-command --id a --roster")
		expect.OK(w, w.Js.DeleteStream(w.Context(), "KV_elections_roster"))
		time.Sleep(time.Minute)
		testworld.Put(w.T, w.Js, "jobs", "not a record")
		ended()
	})
}

// When the bucket is deleted, the leader and the waiting candidate log the holder and the end of its lease, and how to
// make the bucket again only when that is over.
func TestHold_DeletedBucket(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{MaxLease: 5 * time.Second}, func(w *testworld.World) {
		a, b := holds(w, "run jobs --no-command --id a"), holds(w, "run jobs --no-command --id b")
		expect.OK(w, w.Js.DeleteKeyValue(w.Context(), "elections"))
		time.Sleep(time.Minute)
		a()
		w.Prompt("bucket add elections --max-lease 5s")
		time.Sleep(time.Minute)
		w.Prompt("step-down jobs")
		b()
	})
}

// Candidates follow one another in the queue, and one of higher priority takes over.
func TestHold_Succession(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		const queue = " --succession queue --turn-timeout 2s"
		a := holds(w, "run jobs --no-command --id a --value 10.0.0.7:80"+queue)
		b := holds(w, "run jobs --no-command --id b"+queue)
		c := holds(w, "run jobs --no-command --id c --roster")
		w.Prompt("status jobs", "step-down jobs --to c")
		a()
		w.Prompt("step-down jobs")
		c()
		w.Prompt("step-down jobs --yes")
		b()
		low := holds(w, "run mail --no-command --id low --succession priority --priority 1")
		high := holds(w, "run mail --no-command --id high --succession priority --priority 2 --preempt")
		low()
		w.Prompt("step-down mail --yes")
		high()
	})
}

// Of several that start with --try at once, one leads.
func TestHold_TryAtOnce(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		codes := make(chan int, 3)
		for range cap(codes) {
			go func() {
				_, _, code := w.Run("run nightly --no-command --try")
				codes <- code
			}()
		}
		time.Sleep(time.Hour)
		expect.Equal(w, len(codes), 2, "%d have ended")
		w.Run("step-down nightly")
		for range cap(codes) - 1 {
			expect.Equal(w, <-codes, front.ExitBusy, "exit code %d")
		}
		expect.Equal(w, <-codes, front.ExitLost, "exit code %d")
	})
}

// With several seats --try ends if all of them are taken.
func TestRunTry_Seats(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		ended := holds(w, "run jobs --no-command --id a --seats 2 --try")
		w.CampaignsOn(seats.Of(w.Bucket, 2), "jobs", leader.Config{ID: "b"})
		w.Prompt("run jobs --no-command --id c --seats 2 --try --quiet", "run jobs --no-command --id c --seats 2 --try", "step-down jobs")
		ended()
	})
}

// --try leads although the key holds the record of a leader that has died.
func TestRunTry_ExpiredRecord(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Campaigns("other", leader.Config{ID: "a"})
		testworld.Put(w.T, w.Js, "jobs", testworld.Record(w.T, w.Js, "other", "dead", time.Second))
		time.Sleep(time.Minute)
		w.Prompt("status jobs")
		ended := holds(w, "run jobs --no-command --id b --try --quiet")
		w.Prompt("step-down jobs")
		ended()
	})
}

// A permission that is missing is found before run campaigns, and not at the first election.
func TestRun_MissingPermission(t *testing.T) {
	const key = "$KV.elections.jobs"
	for _, subject := range []string{key, "$JS.API.STREAM.INFO.KV_elections", "$JS.API.DIRECT.GET.KV_elections." + key} {
		testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
			w.Fails("run jobs --no-command --timeout 10m -s nats://worker:worker@localhost", front.ExitDenied,
				"permission denied: this connection may not publish to "+subject+"\n")
		}, testworld.WithUser("worker", testworld.Denied(subject)))
	}
}
