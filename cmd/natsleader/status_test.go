package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// rawIn reports whether a text contains a byte that a terminal may obey.
func rawIn(text string) bool {
	return slices.ContainsFunc([]string{"\x1b", "\a", "\r", "\u202e", "\u009b", "\U000e0001", "\xff"},
		func(s string) bool { return strings.Contains(text, s) })
}

// The remaining lease follows from the server's clock, also if the clock of this host is ahead.
func TestServerClock_RemainingLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x electionStatus
		x.entry.Revision = 7
		x.holder = leader.Holder{ID: "a", Lease: 15 * time.Second, Renewed: time.Now().Add(-2 * time.Hour)}
		c := newServerClock(x.holder.Renewed.Add(10*time.Second), 0)
		time.Sleep(time.Second)
		if got := x.remaining(c.now()); x.at(c.now()) != stateLeading || got != 4*time.Second {
			t.Errorf("%s, %v left", x.at(c.now()), got)
		}
	})
}

// The server's time goes on while this host is suspended.
func TestServerClock_HostSleeps(t *testing.T) {
	clock, slept := passed, time.Duration(0)
	passed = func() time.Duration { return clock() + slept }
	defer func() { passed = clock }()
	synctest.Test(t, func(t *testing.T) {
		server := time.Unix(1000, 0)
		c := newServerClock(server.Add(-2*time.Second), 2*time.Second)
		slept = time.Hour
		time.Sleep(time.Second)
		expect.Equal(t, c.now().Sub(server), time.Hour+time.Second, "the server's time has gone on by %v")
	})
}

// status shows every state of an election, who led last, and why that ended, as far as the record says.
func TestStatus_ShowsEveryState(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("status", "status --json")
		w.campaigns("leading", leader.Config{ID: "a", Value: []byte("10.0.0.7:80")})
		released := w.campaigns("released", leader.Config{ID: "a"})
		time.Sleep(time.Second) // after the renewals
		expect.OK(w, released.Stop())
		of := func(lease time.Duration, edits ...string) string {
			return strings.NewReplacer(edits...).Replace(record(w.T, w.js, "leading", "b", lease))
		}
		put(w.T, w.js, "binary", of(time.Hour, `"value":"10.0.0.7:80"`, `"value64":"/wA="`))
		put(w.T, w.js, "deleted", of(time.Hour))
		put(w.T, w.js, "expired", of(time.Minute))
		put(w.T, w.js, "foreign", "hello")
		put(w.T, w.js, "lapsed", of(time.Minute, `"leading"`, `"pending"`))
		put(w.T, w.js, "nameless", `{"v":1,"state":"released","session":"s","n":1,"lease":"1h"}`)
		put(w.T, w.js, "left", of(time.Hour, `"leading"`, `"released","to":"c"`))
		kv, err := w.js.KeyValue(w.Context(), "elections")
		if err == nil {
			err = kv.Delete(w.Context(), "deleted")
		}
		expect.OK(w, err)
		time.Sleep(2 * time.Minute)
		put(w.T, w.js, "pending", of(time.Hour, `"leading"`, `"pending"`))
		w.prompt("status", "status --json")
		for election := range strings.FieldsSeq("leading binary deleted expired foreign lapsed left nameless never pending released") {
			w.prompt("status " + election)
		}
		w.prompt("status never --json")
	})
}

// The text that others wrote reaches no terminal as it is: no transcript may contain what a terminal obeys.
func TestStatus_EscapesForeignText(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		const name = "\x1b]0;title\a\u202ereversed\u009b" // no spaces: the server takes it
		evil := name + "\x1b[2J\r\n\U000e0001\xff"
		w.campaigns("model", leader.Config{ID: "b"})
		time.Sleep(time.Second) // after the renewals
		id, err := json.Marshal(evil)
		expect.OK(w, err)
		long := base64.StdEncoding.EncodeToString([]byte(evil + strings.Repeat("x", 100)))
		const leading = `{"v":1,"state":"leading","session":"s","n":1,"lease":"1h","token":7,`
		put(w.T, w.js, "billing", leading+fmt.Sprintf(`"id":%s,"value":%[1]s}`, id))
		put(w.T, w.js, "long", leading+`"id":"b","value64":"`+long+`"}`)
		put(w.T, w.js, name, leading+fmt.Sprintf(`"id":%s,"value":%[1]s}`, id))
		w.bucket.Backend().Announce(w.Context(), "billing", strings.Repeat("A", 26), // Campaign takes no such ID
			fmt.Appendf(nil, `{"v":1,"id":%s,"since":"2000-01-01T00:00:00Z","value":%[1]s}`, id), time.Hour,
			func(_ uint64, err error) {
				expect.That(w, err == nil, "%v", err)
			})
		synctest.Wait()
		w.prompt("status", "status --json", "status --roster", "status billing --roster", "status billing --roster --json")
		for _, election := range []string{"billing", "long"} {
			w.prompt("status "+election+" --roster", "status "+election+" --roster --json")
		}
		w.fails("step-down billing --to="+name, exitUsage, `\x1b]0;title`)
		for _, command := range []string{"watch", "watch billing --roster"} {
			w.follow(command)()
			w.follow(command + " --json")()
		}
		shell := w.globals()
		shell.words = make(map[string][]string)
		ids := (&stepDown{globals: shell, election: "billing"}).successorIDs()
		w.notef("# the elections and candidates that the shell offers: %q, %q\n", shell.electionNames(), ids)
	})
}

// An ID or value of blanks is quoted, in tables, lines and lists of names.
func TestStatus_QuotesBlanks(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		for _, id := range []string{" ", "  "} {
			w.campaigns("billing", leader.Config{ID: id, Value: []byte("   "), Queue: &leader.Queue{AtOnce: true}})
		}
		time.Sleep(time.Second) // after the renewals
		w.prompt("status", "status billing --roster", "roster billing")
		look := expect.Got(w.globals().newInspector(w.Context()))(w)
		defer look.close()
		_, err := look.recordon(w.Context(), func([]string) ([]string, error) { return []string{" ", "a"}, nil })
		expect.OK(w, err)
		w.prompt("cordon", "status")
		w.follow("roster billing --watch")()
		w.follow("watch")()
	})
}

// The status of one election needs the permissions of an observer.
func TestStatus_ObserverPermissions(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.campaigns("billing", leader.Config{ID: "a"})
		time.Sleep(time.Second) // after a renewal
		const as = " -s nats://observer:observer@localhost"
		w.prompt("status billing"+as, "status mail"+as)
		w.fails("status"+as, exitDenied, "CONSUMER.CREATE")
	}, withUser("observer", &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			"$JS.API.STREAM.INFO.KV_elections", "$JS.API.DIRECT.GET.KV_elections.$KV.elections.billing",
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
	}))
}
