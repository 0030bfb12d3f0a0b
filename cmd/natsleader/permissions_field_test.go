//go:build field

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/natsleader/natsleader/leader"
)

// permissionsOfThePage reads the list in docs/cli.md, for the election billing in the
// bucket elections.
func permissionsOfThePage(t *testing.T) map[string]*server.Permissions {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Permissions\n")
	_, section, _ = strings.Cut(section, "```text\n")
	section, _, _ = strings.Cut(section, "```")
	line := regexp.MustCompile(`^(.*?) +(publish|subscribe) +(\S+)$`)
	all := map[string]*server.Permissions{}
	var command string
	for l := range strings.Lines(section) {
		m := line.FindStringSubmatch(strings.TrimSuffix(l, "\n"))
		if m == nil {
			t.Fatalf("not a line of the list: %q", l)
		}
		if m[1] != "" {
			command = m[1]
			all[command] = &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"nothing.at.all"}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}
		}
		subject := strings.NewReplacer("KV_E", "KV_elections", ".E.", ".elections.").Replace(m[3])
		subject = strings.Replace(subject, "natsleader_history_E", "natsleader_history_elections", 1)
		subject = strings.Replace(subject, ".E_roster.", ".elections_roster.", 1)
		if before, ok := strings.CutSuffix(subject, ".a"); ok {
			subject = before + ".billing"
		}
		subject = strings.Replace(subject, ".a.*", ".billing.*", 1)
		p := all[command].Publish
		if m[2] == "subscribe" {
			p = all[command].Subscribe
		}
		p.Allow = append(p.Allow, subject)
	}
	return all
}

// dispensable reports whether a subject serves only cleaning up, or flow control, which
// a small bucket does not need.
func dispensable(subject string) bool {
	return strings.Contains(subject, "CONSUMER.DELETE") || strings.HasPrefix(subject, "$JS.FC.")
}

// prompt reports whether the command does without the subject: step-down hears of the handover
// by it, and polls otherwise.
func prompt(command, subject string) bool {
	if command == "history a" && strings.Contains(subject, "KV_elections") && !strings.Contains(subject, "CONSUMER") {
		return true // it shows what the history has
	}
	if command == "roster a --watch" && strings.HasPrefix(subject, "natsleader.feed.") {
		return true // it prints what there is
	}
	return strings.HasPrefix(command, "step-down") &&
		(strings.HasPrefix(subject, "natsleader.feed.") || strings.Contains(subject, "CONSUMER.CREATE"))
}

// Each command needs the permissions that the page lists.
func TestCommandPermissions_MatchPage(t *testing.T) {
	t.Parallel()
	pagePermissions := permissionsOfThePage(t)
	for _, x := range []struct {
		args []string
		of   string // in the list
	}{
		{[]string{"bucket", "info"}, "bucket info"},
		{[]string{"bucket", "add", "--max-lease", "20s"}, "bucket add"},
		{[]string{"bucket", "add", "--roster", "--max-lease", "20s"}, "bucket add --roster"},
		{[]string{"bucket", "add", "--history", "1d"}, "bucket add --history"},
		{[]string{"bucket", "ls"}, "bucket ls"},
		{[]string{"history", "billing"}, "history a"},
		{[]string{"status", "billing"}, "status a"},
		{[]string{"status", "billing", "--roster"}, "status a --roster"},
		{[]string{"status"}, "status, watch"},
		{[]string{"status", "--roster"}, "status --roster"},
		{[]string{"roster", "billing"}, "roster a"},
		{[]string{"roster", "billing", "--watch"}, "roster a --watch"},
		{[]string{"watch"}, "status, watch"},
		{[]string{"watch", "billing"}, "watch a"},
		{[]string{"step-down", "billing"}, "step-down a"},
		{[]string{"step-down", "billing"}, "step-down a, no feed"},
		{[]string{"transfer", "billing"}, "step-down a"},
		{[]string{"step-down", "billing", "--force", "--yes"}, "step-down a --force"},
	} {
		all := pagePermissions[x.of]
		if all == nil {
			t.Fatalf("nothing about %s", x.of)
		}
		t.Run(x.of+": "+strings.Join(x.args, " "), func(t *testing.T) {
			t.Parallel()
			feed := !strings.Contains(x.of, "no feed")
			if code := runLimited(t, all, feed, x.args); code != 0 {
				t.Errorf("with all of %q: exit code %d", x.of, code)
			}
			for _, subject := range all.Publish.Allow[1:] {
				if dispensable(subject) || strings.HasSuffix(subject, "CREATE.KV_elections") || // it exists
					strings.HasSuffix(subject, "UPDATE.KV_elections_roster") || // it does not
					strings.HasSuffix(subject, "UPDATE.natsleader_history_elections") {
					continue
				}
				less := &server.Permissions{Subscribe: all.Subscribe, Publish: without(all.Publish, subject)}
				if code := runLimited(t, less, feed, x.args); (code == 0) != prompt(x.of, subject) {
					t.Errorf("without publishing to %s: exit code %d", subject, code)
				}
			}
			for _, subject := range all.Subscribe.Allow {
				less := &server.Permissions{Publish: all.Publish, Subscribe: without(all.Subscribe, subject)}
				if code := runLimited(t, less, feed, x.args); (code == 0) != prompt(x.of, subject) {
					t.Errorf("without subscribing to %s: exit code %d", subject, code)
				}
			}
		})
	}
}

// without returns a permission without one subject. There is always another subject in
// it, because an empty list permits everything.
func without(p *server.SubjectPermission, subject string) *server.SubjectPermission {
	rest := slices.DeleteFunc(slices.Clone(p.Allow), func(s string) bool { return s == subject })
	return &server.SubjectPermission{Allow: append(rest, "nothing.at.all")}
}

// runLimited runs a command as a user with these permissions, and returns its exit
// code. It interrupts a command that does not end by itself after the command's first
// output.
func runLimited(t *testing.T, p *server.Permissions, feed bool, args []string) int {
	t.Helper()
	s := startServer(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin"}, {Username: "limited", Permissions: p}}
		o.NoAuthUser = "admin"
	})
	// With a roster, a command that does not use it needs no permission for it. But a
	// change of the bucket changes both.
	roster := args[0] != "bucket" || args[1] != "add"
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{Roster: roster})
	if !feed {
		_, js := connectTo(t, s.ClientURL())
		stream, err := js.Stream(t.Context(), "KV_elections")
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		cfg.RePublish = nil
		if _, err = js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	c := campaigns(t, s.ClientURL(), "elections", "billing", leader.Config{Roster: roster})
	defer func() { _ = c.Stop(t.Context()) }() // while the server runs
	if args[0] == "history" {
		succeeds(t, "bucket", "add", "--history", "1d", "-s", s.ClientURL())
		recorded(t, s.ClientURL(), "billing", 1)
	}
	if args[0] == "transfer" {
		next := stands(t, s.ClientURL(), "billing", leader.Config{Roster: true})
		defer func() { _ = next.Stop(t.Context()) }()
		leaderSees(t, s.ClientURL(), "billing", 1)
	}
	cmd := natsleader(t, append(args, "-s", "nats://limited:@"+s.Addr().String())...)
	if args[0] != "watch" && !slices.Contains(args, "--watch") {
		out, errs, code := outcome(t, cmd)
		t.Logf("%v: exit code %d\n%s%s", args, code, out, errs)
		return code
	}
	out := started(t, cmd)
	eventually(t, "it prints something", func() bool { return out.text() != "" })
	_ = cmd.Process.Signal(os.Interrupt) // unless it has ended
	code := endOf(t, cmd)
	t.Logf("%v: exit code %d\n%s", args, code, out.text())
	return code
}
