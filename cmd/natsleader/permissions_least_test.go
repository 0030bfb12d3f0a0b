package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
	"github.com/natsleader/natsleader/shard"
)

// The race detector makes these hundreds of runs take a minute. Other tests have the same goroutines.

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
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		w.Run("bucket add --history 1d")
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
				code := make(chan int, 1)
				process := front.Stdio{Stdout: io.Discard, Stderr: io.Discard, Dial: w.InProcess(), Life: ctx, Listener: w.Listen}
				go func() { code <- execute(strings.Fields(rest+" "+as(user)), process) }()
				time.Sleep(59 * time.Second)
				waits = append(waits, func() { note(line, begun, <-code) })
			case line[0] == '+':
				store := leader.Store(w.Bucket)
				if strings.Contains(x.flags, "--seats") {
					store = seats.Of(store, 2)
				}
				w.CampaignsOn(store, "billing", leader.Config{ID: rest, Queue: &leader.Queue{}})
			case line[0] == '!':
				time.Sleep(time.Minute) // who has handed over stands again
				begun = time.Now()
				_, _, code := w.Run(rest)
				note(line, begun, code)
			case strings.HasPrefix(line, "GET "):
				response := w.Response(http.MethodGet, strings.TrimPrefix(line, "GET "), "")
				body := string(expect.Got(io.ReadAll(response.Body))(w))
				if response.StatusCode != http.StatusOK {
					body = "(reason)" // between two tries to connect it is another
				}
				note(line, begun, fmt.Sprintf("%d %.12s", response.StatusCode, body))
			case strings.HasPrefix(line, "join "):
				nc := expect.Got(nats.Connect("nats://orders:orders@localhost", w.InProcess()...))(w)
				w.Cleanup(nc.Close)
				bucket := expect.Got(leader.OpenBucket(expect.Got(jetstream.New(nc))(w), "elections"))(w)
				m := testworld.Works(w, bucket, "orders", shard.Config{ID: strings.TrimPrefix(line, "join "), Shards: 8})
				time.Sleep(59 * time.Second)
				note(line, begun, m.Err())
			default:
				note(line, begun, w.Briefly(line+" "+as(x.user)))
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

// The users that natsleader permissions prints may do what they are for. The transcript has the exit codes of that, and
// what becomes different without each permission. Nothing does without flow control, and without a feed where there is
// also a consumer. Without the end of a consumer some commands are late.
func TestPermissions_AreLeast(t *testing.T) {
	proof.NotRaced(t)
	w := &testworld.World{T: t}
	for _, x := range []trial{
		{flags: "candidate --election billing --roster", user: "billing", does: []string{
			"+b", "&billing run billing --no-command --id a --succession queue", "!status billing --roster", "!step-down billing --to a", "!status billing --roster",
			"!step-down billing --to nobody", "!step-down billing --to next",
		}},
		{flags: "candidate --election billing --roster --seats", user: "billing", without: ".seat.", does: []string{
			"+b", "+c", "&billing run billing --no-command --id a --succession queue --seats 2", "!status billing.seat.2 --roster", "!step-down billing.seat.2 --to a",
			"!step-down billing.seat.2 --to nobody", "!step-down billing.seat.2 --to c",
		}},
		{flags: "observer --roster --history", user: "observer", does: []string{
			"+a", "+b", "status", "status billing", "status --roster", "status billing --roster", "history billing", "history", "watch", "watch billing", "watch b*",
			"wait billing --leader nobody --wait 9s",
		}},
		{flags: "observer --roster --history", user: "observer", does: []string{"+a", "&observer serve", "GET /api/past?election=&hours=1"}},
		{flags: "operator --roster --history", user: "operator", does: []string{
			"+a", "+b", "status", "status billing", "status --roster", "status billing --roster", "history billing", "step-down billing",
			"drain b", "note billing --owner x", "note billing", "drain x --keep", "undrain x", "drain a",
		}},
		{flags: "candidate operator --group orders", user: "operator", without: "shard.map", does: []string{
			"join m1", "join m2", "status orders", "step-down orders --shard 0 --to m2", "drain m1 --only orders",
		}},
		{flags: "candidate operator --election billing --accounts", user: "operator", without: "ask", does: []string{
			"&billing run billing --no-command --id a --js-api-prefix elections", "status billing", "step-down billing --yes",
		}},
		{flags: "observer --election billing", user: "observer", without: "note", does: []string{"!note billing --owner x", "note billing"}},
		{flags: "operator --election billing", user: "operator", without: "note", does: []string{"note billing --owner x"}},
		{flags: "exporter", user: "exporter", does: []string{"+a", "&exporter serve --metrics 127.0.0.1:9847", "GET /connected"}},
		{flags: "creator --roster --history --bucket fresh", user: "creator", does: []string{
			"bucket add fresh --roster --history 1d --max-lease 20s", "bucket add fresh --description x --history 2d", "bucket info fresh", "bucket ls",
		}},
		{flags: "creator --roster --history", user: "creator", without: "CONSUMER.CREATE", does: []string{"bucket add --max-lease 20s", "+a", "bucket add --max-lease 16s"}},
	} {
		conf := granted(t, x.flags)
		all, took := x.happens(t, conf)
		w.Notef("natsleader permissions %s\n  %s\n", x.flags, strings.Join(all, "\n  "))
		for line := range strings.Lines(conf) {
			permission, _, ok := strings.Cut(strings.TrimSpace(line), " # ")
			if !ok || !strings.HasPrefix(permission, `"`) && !strings.HasPrefix(permission, "allow") || !strings.Contains(permission, x.without) {
				continue
			}
			w.Notef("without %s\n", permission)
			less := strings.Replace(line, permission, `"no.other.remains"`, 1)
			if strings.HasPrefix(permission, "allow") {
				less = ""
			}
			now, takes := x.happens(t, strings.Replace(conf, line, less, 1))
			for i := range now {
				if now[i] != all[i] {
					w.Notef("  %s\n", now[i])
				} else if takes[i] > took[i]+4*time.Second {
					w.Notef("  %s, late\n", now[i])
				}
			}
		}
	}
	w.Compare()
}
