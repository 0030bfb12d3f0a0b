package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/act"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// A direct get goes to any replica of the bucket. If that one hangs, status asks once more. If nothing answers, the error
// names the stream, and not the server of the connection, which answers.
func TestStatus_HungReplica(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Run("bucket add --history 30d")
		w.Campaigns("billing", leader.Config{ID: "a"})
		for _, id := range []string{"a", "b", "c"} {
			w.Joins(id, shard.Config{})
		}
		nc := w.Js.Conn()
		for prefix, answered := range map[string]int{"HUNG": 2, "SILENT": 1000} {
			asked := 0
			w.Made(nc.Subscribe(prefix+".>", func(m *nats.Msg) {
				if strings.Contains(m.Subject, ".DIRECT.GET.") {
					if asked++; asked <= answered {
						return
					}
					asked = 0
				}
				expect.OK(w, nc.PublishRequest("$JS.API"+strings.TrimPrefix(m.Subject, prefix), m.Reply, m.Data))
			}))
		}
		synctest.Wait() // for the subscriptions
		for _, prefix := range []string{"HUNG", "SILENT"} {
			w.Timed("status billing --js-api-prefix " + prefix)
			w.Timed("history billing --js-api-prefix " + prefix)
			w.Timed("history --js-api-prefix " + prefix)
			w.Timed("status orders --js-api-prefix " + prefix)
		}
	})
}

// An account for which JetStream was switched off is not taken for servers that hang: they answer one request of it.
func TestStatus_AccountWithoutJetStream(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		nc := w.Js.Conn()
		w.Made(nc.SubscribeSync("off.>")) // hears, and is silent
		w.Made(nc.Subscribe("off.INFO", func(m *nats.Msg) {
			expect.OK(w, m.Respond([]byte(`{"error": {"code": 503, "err_code": 10039, "description": "JetStream not enabled for account"}}`)))
		}))
		w.Timed("status --js-api-prefix off", "status billing --js-api-prefix off", "history --js-api-prefix off", "doctor --js-api-prefix off")
	})
}

// A group that is not known does not hide the elections, and status is not finished with 0.
func TestStatus_SilentGroup(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Campaigns("billing", leader.Config{ID: "a"})
		w.Joins("b", shard.Config{})
		time.Sleep(time.Second)
		nc := w.Js.Conn()
		w.Made(nc.Subscribe("HUNG.>", func(m *nats.Msg) {
			if !strings.Contains(m.Subject, ".DIRECT.GET.") {
				expect.OK(w, nc.PublishRequest("$JS.API"+strings.TrimPrefix(m.Subject, "HUNG"), m.Reply, m.Data))
			}
		}))
		synctest.Wait() // for the subscription
		w.Prompt("status", "status --js-api-prefix HUNG", "status --json --js-api-prefix HUNG", "status --all-buckets --js-api-prefix HUNG")
	})
}

// A link that delays each answer is no stream without a leader: what takes several answers names the delay, and succeeds with more
// time. That of --timeout is also for the connection.
func TestStatus_SlowLink(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Joins("b", shard.Config{})
		time.Sleep(time.Second)
		w.Away = 600 * time.Millisecond
		w.Prompt("status orders --shard 1", "status")
		w.Away = 900 * time.Millisecond
		w.Prompt("status", "status --timeout 12s")
	})
}

// A group that may not be read has the exit code of that, as an election has, and does not hide the elections.
func TestStatus_DeniedGroup(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Campaigns("billing", leader.Config{ID: "a"})
		w.Joins("b", shard.Config{})
		time.Sleep(time.Second)
		w.Prompt("status -s nats://blind:blind@localhost", "status orders -s nats://blind:blind@localhost", "status billing -s nats://blind:blind@localhost")
	}, testworld.WithUser("blind", testworld.Denied("$JS.API.DIRECT.GET.>")))
}

// status shows every state of an election, who led last, and why that ended, as far as the record says.
func TestStatus_ShowsEveryState(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("status", "status --json")
		w.Campaigns("leading", leader.Config{ID: "a", Value: []byte("10.0.0.7:80")})
		released := w.Campaigns("released", leader.Config{ID: "a"})
		time.Sleep(time.Second) // after the renewals
		expect.OK(w, released.Stop())
		of := func(lease time.Duration, edits ...string) string {
			return strings.NewReplacer(edits...).Replace(testworld.Record(w.T, w.Js, "leading", "b", lease))
		}
		testworld.Put(w.T, w.Js, "binary", of(time.Hour, `"value":"10.0.0.7:80"`, `"value64":"/wA="`))
		testworld.Put(w.T, w.Js, "deleted", of(time.Hour))
		testworld.Put(w.T, w.Js, "expired", of(time.Minute))
		testworld.Put(w.T, w.Js, "foreign", "hello")
		testworld.Put(w.T, w.Js, "lapsed", of(time.Minute, `"leading"`, `"pending"`))
		testworld.Put(w.T, w.Js, "nameless", `{"v":1,"state":"released","session":"s","n":1,"lease":"1h"}`)
		testworld.Put(w.T, w.Js, "left", of(time.Hour, `"leading"`, `"released","to":"c"`))
		kv, err := w.Js.KeyValue(w.Context(), "elections")
		if err == nil {
			err = kv.Delete(w.Context(), "deleted")
		}
		expect.OK(w, err)
		time.Sleep(2 * time.Minute)
		testworld.Put(w.T, w.Js, "pending", of(time.Hour, `"leading"`, `"pending"`))
		w.Prompt("status", "status --json")
		for election := range strings.FieldsSeq("leading binary deleted expired foreign lapsed left nameless never pending released") {
			w.Prompt("status " + election)
		}
		w.Prompt("status never --json")
	})
}

// The text that others wrote reaches no terminal as it is: no transcript may contain what a terminal obeys.
func TestStatus_EscapesForeignText(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		const name = "\x1b]0;title\a\u202ereversed\u009b" // no spaces: the server takes it
		evil := name + "\x1b[2J\r\n\U000e0001\xff"
		w.Campaigns("model", leader.Config{ID: "b"})
		time.Sleep(time.Second) // after the renewals
		id, err := json.Marshal(evil)
		expect.OK(w, err)
		long := base64.StdEncoding.EncodeToString([]byte(evil + strings.Repeat("x", 100)))
		const leading = `{"v":1,"state":"leading","session":"s","n":1,"lease":"1h","token":7,`
		testworld.Put(w.T, w.Js, "billing", leading+fmt.Sprintf(`"id":%s,"value":%[1]s}`, id))
		testworld.Put(w.T, w.Js, "long", leading+`"id":"b","value64":"`+long+`"}`)
		testworld.Put(w.T, w.Js, name, leading+fmt.Sprintf(`"id":%s,"value":%[1]s}`, id))
		w.Bucket.Backend().Announce(w.Context(), "billing", strings.Repeat("A", 26), // Campaign takes no such ID
			fmt.Appendf(nil, `{"v":1,"id":%s,"since":"2000-01-01T00:00:00Z","value":%[1]s}`, id), time.Hour,
			func(_ uint64, err error) {
				expect.That(w, err == nil, "%v", err)
			})
		synctest.Wait()
		w.Prompt("status", "status --json", "status --roster", "status billing --roster", "status billing --roster --json")
		for _, election := range []string{"billing", "long"} {
			w.Prompt("status "+election+" --roster", "status "+election+" --roster --json")
		}
		w.Fails("step-down billing --to="+name, front.ExitUsage, `\x1b]0;title`)
		for _, command := range []string{"watch", "watch billing --roster"} {
			w.Follow(command)()
			w.Follow(command + " --json")()
		}
		shell := w.Globals()
		shell.Words = make(map[string][]string)
		ids := (&act.StepDown{Globals: shell, Election: "billing"}).SuccessorIDs()
		w.Notef("# the elections and candidates that the shell offers: %q, %q\n", inspect.ElectionNames(shell), ids)
	})
}

// An ID or value of blanks is quoted, in tables, lines and lists of names.
func TestStatus_QuotesBlanks(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		for _, id := range []string{" ", "  "} {
			w.Campaigns("billing", leader.Config{ID: id, Value: []byte("   "), Queue: &leader.Queue{AtOnce: true}})
		}
		time.Sleep(time.Second) // after the renewals
		w.Prompt("status", "status billing --roster", "roster billing")
		look := expect.Got(inspect.New(w.Context(), w.Globals()))(w)
		defer look.Close()
		_, err := look.Recordon(w.Context(), func([]string) ([]string, error) { return []string{" ", "a"}, nil })
		expect.OK(w, err)
		w.Prompt("cordon", "status")
		w.Follow("roster billing --watch")()
		w.Follow("watch")()
	})
}

// The status of one election needs the permissions of an observer.
func TestStatus_ObserverPermissions(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Campaigns("billing", leader.Config{ID: "a"})
		time.Sleep(time.Second) // after a renewal
		const as = " -s nats://observer:observer@localhost"
		w.Prompt("status billing"+as, "status mail"+as)
		w.Fails("status"+as, front.ExitDenied, "CONSUMER.CREATE")
	}, testworld.WithUser("observer", &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			"$JS.API.STREAM.INFO.KV_elections", "$JS.API.DIRECT.GET.KV_elections.$KV.elections.billing",
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
	}))
}
