package main

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/act"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	"github.com/natsleader/natsleader/internal/backend"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// renewal returns the record of a current term with token 7, made of that of the election model.
func renewal(t *testing.T, js jetstream.JetStream, id string, lease time.Duration) string {
	t.Helper()
	return elected.ReplaceAllString(testworld.Record(t, js, "model", id, lease), `"state":"leading","token":7`)
}

var elected = regexp.MustCompile(`"state":"(elected"|leading","token":\d+)`)

// pending returns the same record of a candidate that does not lead yet.
func pending(renewal string) string {
	return strings.Replace(renewal, `"state":"leading","token"`, `"state":"pending","least"`, 1)
}

// step-down --force deletes the key and prints what follows from that.
func TestStepDownForce_DeletesKey(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{MaxLease: 6 * time.Second}, func(w *testworld.World) {
		a := w.Campaigns("billing", leader.Config{ID: "a", RefuseRequests: true})
		for _, line := range []string{"step-down billing --force --yes", "step-down billing --force --yes --json"} {
			term, _ := a.Term()
			begun := time.Now()
			w.Prompt(line)
			<-term.Context().Done()
			d := time.Since(begun)
			expect.That(w, d < time.Second, "a finds out after %v, by its next renewal", d)
			w.Notef("# a finds out from the feed\n")
			time.Sleep(time.Minute)
		}
	})
}

// step-down --force refuses without a confirmation. Where standard input is no terminal, that is --yes.
func TestStepDownForce_Unconfirmed(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Campaigns("model", leader.Config{ID: "a"})
		record := renewal(w.T, w.Js, "a", time.Hour)
		testworld.Put(w.T, w.Js, "billing", record)
		for _, stdin := range []string{"", "y\ny\n"} {
			out, errs, code := w.Answered(stdin, "step-down billing --force")
			w.Notef("$ natsleader step-down billing --force < %q\n%s%s", stdin, out, errs)
			w.Ended(code)
		}
		for _, answer := range []string{"n", ""} {
			w.Answers("step-down billing --force", answer, nil)
		}
		w.NoteKey("billing", record)
	})
}

// The marker keeps the record, and with it the lease that candidates wait for, if that is known. A record can be
// too large for a marker, whose header takes more room than that of a record.
func TestStepDownForce_KeepsTheRecord(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{MaxLease: 15 * time.Second}, func(w *testworld.World) {
		w.Campaigns("model", leader.Config{ID: "a"})
		leading := renewal(w.T, w.Js, "a", 12*time.Second)
		kv := expect.Got(w.Js.KeyValue(w.Context(), "elections"))(w)
		for _, x := range []struct{ election, record string }{
			{"leading", leading},
			{"pending", pending(leading)},
			{"foreign", "hello"},
			// The bucket allowed this lease once, or it is junk.
			{"long", renewal(w.T, w.Js, "a", time.Minute)},
		} {
			testworld.Put(w.T, w.Js, x.election, x.record)
			w.Prompt("step-down " + x.election + " --force --yes")
			w.NoteKey(x.election, x.record)
			expect.Is(w, expect.Err(kv.Get(w.Context(), x.election)), jetstream.ErrKeyNotFound)
		}
		w.Notef("# a bucket in which a renewal just fits\n")
		short, long := renewal(w.T, w.Js, "a", 12*time.Second), renewal(w.T, w.Js, "a", 99*time.Second)
		testworld.Put(w.T, w.Js, "short", short)
		testworld.Put(w.T, w.Js, "long", long)
		conf := w.Config("KV_elections")
		const update = len("NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 18446744073709551615\r\n\r\n")
		conf.MaxMsgSize = int32(len(long) + update)
		w.Made(w.Js.UpdateStream(w.Context(), conf))
		w.Prompt("step-down short --force --yes")
		w.NoteKey("short", short)
		w.Prompt("step-down long --force --yes")
		w.NoteKey("long", long)
		w.Notef("# a bucket that bounds no lease\n")
		plain := expect.Got(w.Js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "plain"}))(w)
		w.Made(plain.PutString(w.Context(), "foreign", "\x1b]0;title\a"))
		w.Prompt("step-down foreign --force --yes --bucket plain")
	})
}

// renewing is a bucket in which the leader renews its lease right before each of
// the first deletions.
type renewing struct {
	backend.Store
	renew func()
	times int
	fails error // of each deletion
}

func (r *renewing) Mark(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	if r.times > 0 {
		r.times--
		r.renew()
	}
	if r.fails != nil {
		reply(0, r.fails)
		return
	}
	r.Store.Mark(ctx, key, value, revision, reply)
}

// step-down --force does not delete the key of a holder that was not shown. A holder that was shown may
// renew its lease meanwhile.
func TestStepDownForce_ShownHolderOnly(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Campaigns("model", leader.Config{ID: "a"})
		a, b := renewal(w.T, w.Js, "a", time.Hour), renewal(w.T, w.Js, "b", time.Hour)
		for _, x := range []struct{ election, meanwhile string }{
			{"renewed", a},
			{"otherwise", renewal(w.T, w.Js, "a", 2*time.Hour)},
			{"succeeded", b},
			{"later", strings.Replace(a, `"token":7`, `"token":9`, 1)},
			{"taken", pending(a)},
			{"expired", renewal(w.T, w.Js, "a", time.Nanosecond)},
			{"foreign", "hello"},
		} {
			testworld.Put(w.T, w.Js, x.election, a)
			w.Answers("step-down "+x.election+" --force", "yes", func() {
				testworld.Put(w.T, w.Js, x.election, x.meanwhile)
				time.Sleep(time.Second)
			})
			w.NoteKey(x.election, x.meanwhile)
		}

		// The key changes between the second look and the deletion.
		g := w.Globals()
		for _, x := range []struct {
			meanwhile string
			times     int
			fails     error
		}{
			{a, 2, nil},
			{b, 1, nil},
			{a, 1000, nil},
			{a, 0, leader.ErrUnreachable},
			{a, 0, context.DeadlineExceeded},
			{a, 0, leader.ErrPermission},
		} {
			testworld.Put(w.T, w.Js, "between", a)
			look, shown, err := inspect.Look(w.Context(), g, "between")
			w.Made(look, err)
			bucket := &renewing{look.Bucket.Backend(), func() { testworld.Put(w.T, w.Js, "between", x.meanwhile) }, x.times, x.fails}
			limited, cancel := context.WithTimeout(w.Context(), 90*time.Millisecond)
			_, err = (&act.StepDown{Globals: g, Election: "between"}).Remove(limited, look, bucket, shown, facts.Leading, 0)
			cancel()
			w.Notef("# %d renewals are left: %v\n", bucket.times, err)
			w.Ended(front.CodeOf(err))
			w.NoteKey("between", x.meanwhile)
			look.Close()
		}
	})
}

// If several operators act at once, one of them deletes the key of a leader that renews
// its lease all the time.
func TestStepDownForce_Races(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{MaxLease: time.Hour}, func(w *testworld.World) {
		w.Campaigns("model", leader.Config{ID: "a"})
		record := renewal(w.T, w.Js, "a", time.Hour)
		testworld.Put(w.T, w.Js, "billing", record)
		kv := expect.Got(w.Js.KeyValue(w.Context(), "elections"))(w)
		revision, err := expect.Got(kv.Get(w.Context(), "billing"))(w).Revision(), error(nil)
		var all sync.WaitGroup
		all.Go(func() {
			// Until a renewal is rejected, as a leader would.
			for from := time.Now(); err == nil && time.Since(from) < time.Minute; time.Sleep(time.Millisecond) {
				revision, err = kv.Update(w.Context(), "billing", []byte(record), revision)
			}
		})
		outcomes := make(chan string, 4)
		for range cap(outcomes) {
			all.Go(func() {
				out, errs, _ := w.Run("step-down billing --force --yes")
				outcomes <- out + errs
			})
		}
		all.Wait()
		expect.That(w, err != nil, "no renewal is rejected within a minute")
		deleted := 0
		for range cap(outcomes) {
			out := <-outcomes
			if strings.HasSuffix(out, "\ndeleted\n") {
				deleted++
			} else if !strings.Contains(out, "nothing was deleted") && !strings.Contains(out, "nothing to delete") {
				w.Error(out)
			}
		}
		expect.Equal(w, deleted, 1, "%d have deleted it")
		w.NoteKey("billing", record)
	})
}
