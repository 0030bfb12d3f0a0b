//go:build field && linux

package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// Each exit code on the page is that of a command which ends so, and the page has no others.
// The help of run has the codes of run.
func TestExitCodes_OfThePage(t *testing.T) {
	text := expect.Got(os.ReadFile(cliPage))(t)
	_, table, _ := strings.Cut(string(text), "\n## Exit codes\n")
	table, _, _ = strings.Cut(table, "\n## ")
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([\d, +n]+) \|`).FindAllStringSubmatch(table, -1) {
		for code := range strings.SplitSeq(row[1], ", ") {
			listed[code] = true
		}
	}

	open := startServer(t).ClientURL()
	newBucket(t, open, "elections", leader.BucketConfig{})
	campaigns(t, open, "elections", "led", leader.Config{ID: "other"})
	succeeds(t, "bucket", "add", "kept", "--history", "1h", "-s", open)
	nc, js := connectTo(t, open)
	newBucket(t, open, "groups", leader.BucketConfig{MaxLease: 2 * time.Minute})
	groups := expect.Got(leader.OpenBucket(js, "groups"))(t)
	joins := func(group string) func() error {
		m := testworld.Works(t, groups, group, shard.Config{ID: "m", Shards: 2, LeaseDuration: 2 * time.Minute})
		testworld.Eventually(t, group+" is shared", func() bool {
			_, _, code := outcome(t, natsleader(t, "status", group, "--bucket", "groups", "-s", open))
			return code == 0
		})
		return m.Stop
	}
	joins("shared")
	expect.OK(t, joins("left")())
	joins("unassigned")
	expect.OK(t, nc.Publish("$KV.groups.unassigned.shard.assigner", []byte("junk"))) // which counts for a lease
	expect.OK(t, nc.Flush())
	without := startServer(t, func(o *server.Options) { o.JetStream = false }).ClientURL()
	denies := startServer(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "all", Password: "p"}, {Username: "r", Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.DIRECT.GET.>"}}}}, {Username: "u", Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.INFO.>"}}}}}
	}).ClientURL()
	denied := strings.Replace(denies, "//", "//u:p@", 1)
	unread := strings.Replace(denies, "//", "//r:p@", 1)
	all := strings.Replace(denies, "//", "//all:p@", 1)
	newBucket(t, all, "elections", leader.BucketConfig{})
	_, js = connectTo(t, all)
	testworld.Works(t, expect.Got(leader.OpenBucket(js, "elections"))(t), "shared", shard.Config{ID: "m", Shards: 2})
	testworld.Eventually(t, "the group has a map", func() bool {
		_, _, code := outcome(t, natsleader(t, "status", "shared", "-s", all))
		return code == 0
	})

	cases := map[string][][]string{
		"0":   {{"status", "led", "-s", open}, {"status", "shared", "--bucket", "groups", "-s", open}, {"status", "left", "--bucket", "groups", "-s", open}, {"status", "unassigned", "--shard", "1", "--bucket", "groups", "-s", open}, {"status", "-s", open}, {"run", "free", "-s", open, "--", "true"}},
		"1":   {{"status", "free", "-s", open}, {"status", "unassigned", "--bucket", "groups", "-s", open}, {"status", "left", "--shard", "1", "--bucket", "groups", "-s", open}, {"step-down", "free", "-s", open}, {"step-down", "free", "--to", "x", "-s", open}, {"step-down", "led", "--to", "x", "-s", open}},
		"2":   {{"doctor", "-s", without}},
		"64":  {{"status", "--nonsense"}, {"run", "a"}, {"status", "a..b", "-s", open}, {"run", "a", "--no-command", "--wait", "0s"}},
		"66":  {{"history", "free", "-s", open, "--bucket", "kept"}, {"history", "free", "--at", "1s", "-s", open, "--bucket", "kept"}},
		"69":  {{"status", "-s", denies, "--user", "u", "--password", "wrong"}, {"run", "a", "-s", without, "--", "true"}, {"run", "a", "--no-command", "-s", without}},
		"75":  {{"run", "led", "--try", "-s", open, "--", "true"}, {"run", "led", "--no-command", "--try", "-s", open}},
		"77":  {{"status", "-s", denied}, {"status", "-s", unread}, {"status", "shared", "-s", unread}, {"run", "a", "-s", denied, "--", "true"}, {"run", "a", "--no-command", "-s", denied}},
		"78":  {{"status", "-s", open, "--bucket", "nowhere"}, {"run", "a", "-s", open, "--bucket", "nowhere", "--", "true"}, {"run", "a", "-s", open, "--roster", "--", "true"}},
		"79":  {{"run", "free", "--once", "-s", open, "--shell", "--", binary + " step-down free -s " + open + "; sleep 60"}},
		"124": {{"run", "led", "--wait", "100ms", "-s", open, "--", "true"}, {"run", "led", "--no-command", "--wait", "100ms", "-s", open}},
		"126": {{"run", "free", "-s", open, "--", "/"}},
		"127": {{"run", "free", "-s", open, "--", "/no/such/program"}},
		// A signal to natsleader itself: TestRunLoop.
		"128+n": {{"run", "free", "-s", open, "--", "sh", "-c", "kill -9 $$"}},
	}
	got, want := slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(cases))
	expect.That(t, slices.Equal(got, want), "the page lists %q, and the command has %q", got, want)
	number := map[string]int{
		"0": 0, "1": front.ExitFailed, "2": front.ExitCritical, "64": front.ExitUsage, "66": front.ExitUnknown, "69": front.ExitUnreachable, "75": front.ExitBusy, "77": front.ExitDenied,
		"78": front.ExitBucket, "79": front.ExitLost, "124": front.ExitWaited, "126": front.ExitCannotRun, "127": front.ExitNotFound, "128+n": 128 + 9,
	}
	for code, lines := range cases {
		for _, args := range lines {
			out, errs, got := outcome(t, natsleader(t, args...))
			expect.That(t, got == number[code], "%q: exit code %d, want %s\n%s%s", args, got, code, out, errs)
		}
	}
	help := succeeds(t, "run", "--help")
	for code := range cases {
		if code == "0" || code == "2" || code == "66" {
			continue // no code of run's own
		}
		expect.That(t, regexp.MustCompile(`(?m)^ +`+regexp.QuoteMeta(code)+`  `).MatchString(help),
			"the help of run does not have %s", code)
	}
}
