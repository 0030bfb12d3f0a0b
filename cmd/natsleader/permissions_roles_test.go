package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/jsm.go/natscontext"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/permissions"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// granted returns what natsleader permissions prints.
func granted(t *testing.T, args string) string {
	t.Helper()
	var out, errs bytes.Buffer
	code := execute(strings.Fields("permissions "+args), front.Stdio{Stdout: &out, Stderr: &errs})
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

// The transcript has the exit codes of commands that only some users may use. A candidate can delete the key of its
// own election, and no other. An observer of some elections sees who is cordoned.
func TestPermissions_KeepUsersApart(t *testing.T) {
	conf := granted(t, "candidate observer operator exporter creator --election billing --election shipping --roster --history")
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		w.Run("bucket add --history 1d")
		w.Campaigns("billing", leader.Config{ID: "a", Queue: &leader.Queue{AtOnce: true}})
		for _, line := range []string{
			"status billing", "status", "history billing", "run billing --no-command --wait 10s", "run shipping --no-command --wait 10s --id x", "step-down billing --yes",
			"note billing --owner x", "bucket add --max-lease 20s", "bucket ls", "bucket rm elections --yes --force", "step-down billing --force --yes",
		} {
			var codes []string
			for _, user := range []string{"shipping", "observer", "operator", "exporter", "creator", "billing"} {
				codes = append(codes, fmt.Sprintf("%s %d", user, w.Briefly(line+" "+as(user))))
			}
			w.Notef("%s: %s\n", line, strings.Join(codes, ", "))
		}
		w.Run("drain web-1 --keep")
		w.Prompt("status shipping " + as("observer"))
	}, withConf(t, conf))
}

// What is printed for several flags, in each format, and what is refused.
func TestPermissions_Formats(t *testing.T) {
	testworld.Alone(t, func(w *testworld.World) {
		w.Prompt("permissions candidate operator exporter creator --election billing",
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
	text := string(expect.Got(proof.ReadOutside(file))(t))
	i := strings.Index(text, permissions.ConfHead)
	expect.Must(t, i >= 0, "%s has no line %s", file, permissions.ConfHead)
	want := text[:i] + granted(t, "candidate operator creator --election billing --election shipping --accounts")
	if *testworld.Update {
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
