package main

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// permissionsOfThePage reads docs/command-permissions.txt, for the election billing in the bucket elections.
func permissionsOfThePage(t *testing.T) map[string]*server.Permissions {
	t.Helper()
	text := expect.Got(proof.ReadOutside("../../docs/command-permissions.txt"))(t)
	_, section, _ := strings.Cut(string(text), "\n\n") // the lines before it are comments
	line := regexp.MustCompile(`^(.*?) +(publish|subscribe|as) +(\S.*)$`)
	all := map[string]*server.Permissions{}
	var command string
	add := func(p *server.SubjectPermission, subjects ...string) {
		for _, subject := range subjects {
			if !slices.Contains(p.Allow, subject) {
				p.Allow = append(p.Allow, subject)
			}
		}
	}
	for l := range strings.Lines(section) {
		m := line.FindStringSubmatch(strings.TrimSuffix(l, "\n"))
		expect.Must(t, m != nil, "not a line of the list: %q", l)
		if m[1] != "" {
			command = m[1]
			all[command] = &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"nothing.at.all"}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}
		}
		subject := regexp.MustCompile(`([._])E([._]|$)`).ReplaceAllString(m[3], "${1}elections$2")
		subject = regexp.MustCompile(`\.a(\.\*)?$`).ReplaceAllString(subject, ".billing$1")
		switch m[2] {
		case "publish":
			add(all[command].Publish, subject)
		case "subscribe":
			add(all[command].Subscribe, subject)
		case "as":
			of := all[m[3]]
			expect.Must(t, of != nil && m[3] != command, "no command %q stands before %s", m[3], command)
			add(all[command].Publish, of.Publish.Allow...)
			add(all[command].Subscribe, of.Subscribe.Allow...)
		}
	}
	return all
}

// Each command needs the permissions that the page lists. The transcript has the exit code of each command without one of
// them. It is 0 without flow control, without what only makes a thing that exists, and mostly without what only cleans up.
// step-down then polls for the handover, history shows what the history has, and watch --roster prints what there is.
func TestCommandPermissions_MatchPage(t *testing.T) {
	proof.NotRaced(t)
	pagePermissions := permissionsOfThePage(t)
	w := &testworld.World{T: t}
	for _, x := range []struct {
		args string
		of   string // in the list
	}{
		{"bucket info", "bucket info"},
		{"bucket add --max-lease 20s", "bucket add"},
		{"bucket add --roster --max-lease 20s", "bucket add --roster"},
		{"bucket add --history 1d", "bucket add --history"},
		{"bucket ls", "bucket ls"},
		{"history billing", "history a"},
		{"history", "history"},
		{"drain x --keep", "drain x --keep"},
		{"undrain x", "undrain x"},
		{"drain a", "drain x"},
		{"status billing", "status a"},
		{"status billing --roster", "status a --roster"},
		{"wait billing", "wait a"},
		{"note billing --owner x", "note a"},
		{"status", "status, watch"},
		{"status --roster", "status --roster"},
		{"watch billing --roster", "watch a --roster"},
		{"watch", "status, watch"},
		{"watch billing", "watch a"},
		{"step-down billing", "step-down a"},
		{"step-down billing", "step-down a, no feed"},
		{"step-down billing --to next", "step-down a"},
		{"step-down billing --force --yes", "step-down a --force"},
	} {
		all := pagePermissions[x.of]
		expect.Must(t, all != nil, "nothing about %s", x.of)
		feed := !strings.Contains(x.of, "no feed")
		w.Notef("%s (%s): %d\n", x.args, x.of, runLimited(t, all, feed, x.args))
		for _, subject := range slices.Concat(all.Publish.Allow[1:], all.Subscribe.Allow) {
			w.Notef("  without %s: %d\n", subject, runLimited(t, without(all, subject), feed, x.args))
		}
	}
	w.Compare()
}

// runLimited runs a command as a user with these permissions, and returns its exit code. It interrupts a
// command that does not end by itself.
func runLimited(t *testing.T, p *server.Permissions, feed bool, args string) (code int) {
	t.Helper()
	// With a roster, a command that does not use it needs no permission for it. But a
	// change of the bucket changes both.
	roster := !strings.HasPrefix(args, "bucket add")
	testworld.Bubble(t, leader.BucketConfig{Roster: roster}, func(w *testworld.World) {
		if !feed {
			w.Change("KV_elections", func(c *jetstream.StreamConfig) { c.RePublish = nil })
		}
		a := leader.Config{ID: "a"}
		if roster {
			a.Queue = &leader.Queue{AtOnce: true}
		}
		w.Campaigns("billing", a)
		if strings.HasPrefix(args, "history") {
			w.Run("bucket add --history 1d")
			time.Sleep(time.Minute)
		}
		if strings.HasPrefix(args, "undrain") {
			w.Run("drain x --keep")
		}
		if strings.HasPrefix(args, "step-down") && !strings.Contains(args, "--force") {
			w.Campaigns("billing", leader.Config{ID: "b", Queue: &leader.Queue{AtOnce: true}})
		}
		ctx, interrupt := context.WithTimeout(w.Context(), time.Minute)
		defer interrupt()
		var out bytes.Buffer
		process := front.Stdio{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Dial: w.InProcess(), Life: ctx}
		code = execute(strings.Fields(args+" "+as("limited")), process)
		w.Logf("%s: exit code %d\n%s", args, code, out.String())
	}, testworld.WithUser("limited", p))
	return code
}
