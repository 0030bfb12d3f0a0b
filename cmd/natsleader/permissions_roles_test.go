package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/jsm.go/natscontext"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
	"github.com/natsleader/natsleader/shard"
)

// granted returns what natsleader permissions prints.
func granted(t *testing.T, args string) string {
	t.Helper()
	var out, errs bytes.Buffer
	code := execute(strings.Fields("permissions "+args), stdio{stdout: &out, stderr: &errs})
	expect.Must(t, code == 0, "exit code %d\n%s", code, &errs)
	return out.String()
}

// withConf lets the server have the users and the accounts of a configuration. The password of each is its name, and
// "admin" may do everything in the account of the bucket.
func withConf(t *testing.T, conf string) func(*server.Options) {
	t.Helper()
	for _, name := range []string{"billing", "shipping", "orders", "observer", "operator", "exporter", "creator"} {
		t.Setenv(strings.ToUpper(name)+"_PASSWORD", name)
	}
	return func(o *server.Options) {
		got := &server.Options{}
		expect.OK(t, got.ProcessConfigString(conf))
		admin := &server.User{Username: "admin", Password: "admin"}
		for _, a := range got.Accounts {
			if a.Name == "ELECTIONS" {
				admin.Account = a
			}
		}
		o.Accounts, o.Users, o.NoAuthUser = got.Accounts, append(got.Users, admin), "admin"
	}
}

// trial is a user with the commands that it is for. A line that begins with & and a user goes on in the background. One
// that begins with ! is a command of the user admin, + starts a candidate of that user, join a member of the group
// orders, and GET asks the command in the background.
type trial struct {
	flags, user string
	does        []string
	without     string // only permissions that contain it are taken away
}

// happens returns what comes of each line, and the time that it takes.
func (x trial) happens(t *testing.T, conf string) (results []string, took []time.Duration) {
	t.Helper()
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		w.run("bucket add --history 1d")
		time.Sleep(time.Minute)
		note := func(line string, begun time.Time, result any) {
			results, took = append(results, fmt.Sprintf("%s: %v", line, result)), append(took, time.Since(begun))
		}
		var waits []func()
		ctx, interrupt := context.WithCancel(w.Context())
		for _, line := range x.does {
			begun, rest, user := time.Now(), line[1:], x.user
			switch {
			case line[0] == '&':
				user, rest, _ = strings.Cut(rest, " ")
				w.served = newPipes()
				code := make(chan int, 1)
				process := stdio{stdout: io.Discard, stderr: io.Discard, dial: w.inProcess(), life: ctx, listener: w.served}
				go func() { code <- execute(strings.Fields(rest+" "+as(user)), process) }()
				time.Sleep(59 * time.Second)
				waits = append(waits, func() { note(line, begun, <-code) })
			case line[0] == '+':
				store := leader.Store(w.bucket)
				if strings.Contains(x.flags, "--seats") {
					store = seats.Of(store, 2)
				}
				w.campaignsOn(store, "billing", leader.Config{ID: rest, Succession: leader.Queue{}})
			case line[0] == '!':
				time.Sleep(time.Minute) // who has handed over stands again
				begun = time.Now()
				_, _, code := w.run(rest)
				note(line, begun, code)
			case strings.HasPrefix(line, "GET "):
				response := w.response(http.MethodGet, strings.TrimPrefix(line, "GET "), "")
				body := string(expect.Got(io.ReadAll(response.Body))(w))
				if response.StatusCode != http.StatusOK {
					body = "(reason)" // between two tries to connect it is another
				}
				note(line, begun, fmt.Sprintf("%d %.12s", response.StatusCode, body))
			case strings.HasPrefix(line, "join "):
				nc := expect.Got(nats.Connect("nats://orders:orders@localhost", w.inProcess()...))(w)
				w.Cleanup(nc.Close)
				bucket := expect.Got(leader.OpenBucket(expect.Got(jetstream.New(nc))(w), "elections"))(w)
				m := works(w, bucket, "orders", shard.Config{ID: strings.TrimPrefix(line, "join "), Shards: 8})
				time.Sleep(59 * time.Second)
				note(line, begun, m.Err())
			default:
				note(line, begun, w.briefly(line+" "+as(x.user)))
			}
		}
		interrupt()
		for _, ended := range waits {
			ended()
		}
		synctest.Wait()
		w.Log(strings.Join(results, "\n"))
	}, withConf(t, conf))
	return results, took
}

// briefly calls a command, interrupts it after a minute, and returns its exit code.
func (w *world) briefly(line string) int {
	ctx, stop := context.WithTimeout(w.Context(), time.Minute)
	defer stop()
	process := stdio{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, dial: w.inProcess(), life: ctx}
	return execute(strings.Fields(line), process)
}

// The users that natsleader permissions prints may do what they are for. The transcript has the exit codes of that, and
// what becomes different without each permission. Nothing does without flow control, and without a feed where there is
// also a consumer. Without the end of a consumer some commands are late.
func TestPermissions_AreLeast(t *testing.T) {
	w := &world{T: t}
	for _, x := range []trial{
		{flags: "candidate --election billing --roster", user: "billing", does: []string{
			"+b", "&billing hold billing --id a --succession queue", "!roster billing", "!transfer billing a", "!roster billing",
			"!transfer billing nobody", "!transfer billing",
		}},
		{flags: "candidate --election billing --roster --seats", user: "billing", without: ".seat.", does: []string{
			"+b", "+c", "&billing hold billing --id a --succession queue --seats 2", "!roster billing.seat.2", "!transfer billing.seat.2 a",
			"!transfer billing.seat.2 nobody", "!transfer billing.seat.2 c",
		}},
		{flags: "observer --roster --history", user: "observer", does: []string{
			"+a", "+b", "status", "status billing", "status --roster", "roster billing", "history billing", "history", "watch", "watch billing", "watch b*",
			"wait billing --leader nobody --wait 9s",
		}},
		{flags: "observer --roster --history", user: "observer", does: []string{"+a", "&observer ui --http 127.0.0.1:9848", "GET /api/past?election=&hours=1"}},
		{flags: "operator --roster --history", user: "operator", does: []string{
			"+a", "+b", "status", "status billing", "status --roster", "roster billing", "history billing", "step-down billing",
			"drain b", "note billing --owner x", "note billing", "cordon x", "uncordon x", "drain a --cordon", "cordon",
		}},
		{flags: "candidate operator --group orders", user: "operator", without: "shard.map", does: []string{
			"join m1", "join m2", "shards orders", "shards move orders 0 m2", "shards drain orders m1",
		}},
		{flags: "candidate operator --election billing --accounts", user: "operator", without: "ask", does: []string{
			"&billing hold billing --id a --js-api-prefix elections", "status billing", "step-down billing --yes",
		}},
		{flags: "observer --election billing", user: "observer", without: "note", does: []string{"!note billing --owner x", "note billing"}},
		{flags: "operator --election billing", user: "operator", without: "note", does: []string{"note billing --owner x"}},
		{flags: "exporter", user: "exporter", does: []string{"+a", "&exporter exporter --http 127.0.0.1:9847", "GET /connected"}},
		{flags: "creator --roster --history --bucket fresh", user: "creator", does: []string{
			"bucket add fresh --roster --history 1d --max-lease 20s", "bucket add fresh --description x --history 2d", "bucket info fresh", "bucket ls",
		}},
		{flags: "creator --roster --history", user: "creator", without: "CONSUMER.CREATE", does: []string{"bucket add --max-lease 20s", "+a", "bucket add --max-lease 16s"}},
	} {
		conf := granted(t, x.flags)
		all, took := x.happens(t, conf)
		w.notef("natsleader permissions %s\n  %s\n", x.flags, strings.Join(all, "\n  "))
		for line := range strings.Lines(conf) {
			permission, _, ok := strings.Cut(strings.TrimSpace(line), " # ")
			if !ok || !strings.HasPrefix(permission, `"`) && !strings.HasPrefix(permission, "allow") || !strings.Contains(permission, x.without) {
				continue
			}
			w.notef("without %s\n", permission)
			less := strings.Replace(line, permission, `"no.other.remains"`, 1)
			if strings.HasPrefix(permission, "allow") {
				less = ""
			}
			now, takes := x.happens(t, strings.Replace(conf, line, less, 1))
			for i := range now {
				if now[i] != all[i] {
					w.notef("  %s\n", now[i])
				} else if takes[i] > took[i]+4*time.Second {
					w.notef("  %s, late\n", now[i])
				}
			}
		}
	}
	w.compare()
}

// The transcript has the exit codes of commands that only some users may use. A candidate can delete the key of its
// own election, and no other. An observer of some elections sees who is cordoned.
func TestPermissions_KeepUsersApart(t *testing.T) {
	conf := granted(t, "candidate observer operator exporter creator --election billing --election shipping --roster --history")
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		w.run("bucket add --history 1d")
		w.campaigns("billing", leader.Config{ID: "a", Succession: leader.Listed{}})
		for _, line := range []string{
			"status billing", "status", "history billing", "hold billing --wait 10s", "hold shipping --wait 10s --id x", "step-down billing --yes",
			"note billing --owner x", "bucket add --max-lease 20s", "bucket ls", "bucket rm elections --yes --force", "step-down billing --force --yes",
		} {
			var codes []string
			for _, user := range []string{"shipping", "observer", "operator", "exporter", "creator", "billing"} {
				codes = append(codes, fmt.Sprintf("%s %d", user, w.briefly(line+" "+as(user))))
			}
			w.notef("%s: %s\n", line, strings.Join(codes, ", "))
		}
		w.run("cordon web-1")
		w.prompt("status shipping " + as("observer"))
	}, withConf(t, conf))
}

// What is printed for several flags, in each format, and what is refused.
func TestPermissions_Formats(t *testing.T) {
	alone(t, func(w *world) {
		w.prompt("permissions candidate operator exporter creator --election billing",
			"permissions candidate observer creator --election billing --roster --history --seats --inbox-prefix _INBOX_b --js-domain hub --format nsc",
			"permissions candidate operator --group orders --election tenant.* --bucket fast --js-api-prefix P --seats --roster --format table",
			"permissions", "permissions owner", "permissions candidate", "permissions candidate --election a..b", "permissions candidate --election a>",
			"permissions observer --bucket a.b", "permissions candidate operator --election operator",
			"permissions candidate --election a.b --election a-b",
			"permissions candidate --election a --accounts --roster", "permissions candidate --election a --accounts --format nsc")
	})
}

// The selected context is not that of the users.
func TestPermissions_Context(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	context := expect.Got(natscontext.New("ops", false, natscontext.WithJSDomain("hub")))(t)
	expect.OK(t, context.Save("ops"))
	expect.OK(t, natscontext.SelectContext("ops"))
	text := granted(t, "exporter")
	expect.That(t, strings.Contains(text, `"$JS.API.STREAM.INFO.KV_elections"`), "%s", text)
}

// deploy/accounts.conf is what the command prints after its comment.
func TestPermissions_Accounts(t *testing.T) {
	const file = "../../deploy/accounts.conf"
	text := string(expect.Got(os.ReadFile(file))(t))
	i := strings.Index(text, confHead)
	expect.Must(t, i >= 0, "%s has no line %s", file, confHead)
	want := text[:i] + granted(t, "candidate operator creator --election billing --election shipping --accounts")
	if *update {
		expect.OK(t, os.WriteFile(file, []byte(want), 0o644)) //nolint:gosec // an example
		return
	}
	expect.Equal(t, text, want, "%s\n")
}

// The commands of nsc grant what the configuration grants.
func TestPermissions_OfNsc(t *testing.T) {
	const args = "candidate observer operator exporter creator --election billing --roster --history"
	type user struct{ pub, sub []string }
	want, got := map[string]user{}, map[string]user{}
	o := &server.Options{}
	withConf(t, granted(t, args))(o)
	for _, u := range o.Users[:len(o.Users)-1] {
		if u.Permissions.Response != nil {
			u.Permissions.Publish.Allow = append(u.Permissions.Publish.Allow, "--allow-pub-response")
		}
		want[u.Username] = user{u.Permissions.Publish.Allow, u.Permissions.Subscribe.Allow}
	}
	for command := range strings.SplitSeq(strings.ReplaceAll(granted(t, args+" --format nsc"), "\\\n", ""), "\n") {
		words := strings.Fields(strings.ReplaceAll(command, "'", ""))
		if len(words) < 5 || words[0] == "#" {
			continue
		}
		u := user{}
		for i, word := range words {
			switch word {
			case "--allow-pub":
				u.pub = append(u.pub, words[i+1])
			case "--allow-sub":
				u.sub = append(u.sub, words[i+1])
			case "--allow-pub-response":
				u.pub = append(u.pub, word)
			}
		}
		got[words[slices.Index(words, "--name")+1]] = u
	}
	expect.Deep(t, got, want)
}
