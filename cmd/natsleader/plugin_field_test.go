//go:build field

package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// introspection returns the description that `nats plugins register` asks the binary
// for, and keeps (natscli, plugins/plugins.go).
func introspection(t *testing.T) json.RawMessage {
	t.Helper()
	return json.RawMessage(succeeds(t, "--fisk-introspect"))
}

// natsleader describes itself as a plugin.
func TestPlugin_Introspects(t *testing.T) {
	var model fisk.ApplicationModel
	expect.OK(t, json.Unmarshal(introspection(t), &model))
	expect.That(t, model.Name == "natsleader" && model.Help != "", "%q: %q", model.Name, model.Help)
	names := make(map[string]bool)
	var walk func(group *fisk.CmdGroupModel)
	walk = func(group *fisk.CmdGroupModel) {
		for _, c := range group.Commands {
			if c.CmdGroupModel != nil && len(c.Commands) > 0 {
				walk(c.CmdGroupModel)
				continue
			}
			names[c.Name] = true
			expect.That(t, slices.ContainsFunc(c.Flags, func(f *fisk.FlagModel) bool { return f.Name == "bucket" }),
				"%s: --bucket is not its own flag: `nats` would drop it", c.Name)
		}
	}
	walk(model.CmdGroupModel)
	for _, name := range []string{"run", "status", "watch", "step-down", "add", "info", "doctor"} {
		expect.That(t, names[name], "no command %q in %v", name, names)
	}
}

// natsCommand runs an application with the global flags of `nats` (natscli,
// nats/main.go) and the command as its plugin. It returns the plugin's output, and the
// exit code.
func natsCommand(t *testing.T, command string, args ...string) (string, int) {
	t.Helper()
	app := fisk.New("nats", "NATS Utility")
	app.Flag("server", "NATS server urls").Short('s').Envar("NATS_URL").String()
	app.Flag("user", "Username or Token").Envar("NATS_USER").String()
	app.Flag("tlsfirst", "Perform TLS handshake first").Bool()
	app.Flag("timeout", "Time to wait on responses from NATS").Default("5s").Envar("NATS_TIMEOUT").Duration()
	app.Flag("connection-name", "Nickname").Default("NATS CLI").String()
	app.Flag("context", "Configuration context").Envar("NATS_CONTEXT").String()
	app.Flag("no-context", "Disable the selected context").UnNegatableBool()
	expect.Got(app.ExternalPluginCommand(command, introspection(t), "leader", ""))(t)
	code := 0
	app.Terminate(func(c int) { code = c })
	app.ErrorWriter(io.Discard)
	app.UsageWriter(io.Discard)
	printed := testworld.StdoutOf(t, func() { app.MustParseWithUsage(args) }) // the plugin inherits the outputs
	return printed, code
}

// hermetic keeps the settings of the user that runs the tests away from a plugin, which
// gets the environment of the test.
func hermetic(t *testing.T) {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "NATS") {
			t.Setenv(name, value) // restores it after the test
			expect.OK(t, os.Unsetenv(name))
		}
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
}

// natsleader works as a plugin of nats.
func TestPlugin_WorksInNats(t *testing.T) {
	hermetic(t)
	natsleader(t) // builds the binary
	url := startServer(t).ClientURL()
	newBucket(t, url, "others", leader.BucketConfig{})
	campaigns(t, url, "others", "billing", leader.Config{ID: "a"})
	works := func(says string, args ...string) {
		t.Helper()
		out, code := natsCommand(t, binary, args...)
		expect.That(t, code == 0 && strings.Contains(out, says), "nats %q: exit code %d\n%s", args, code, out)
	}
	works("Leader:    a\n", "--server", url, "leader", "status", "billing", "--bucket", "others")
	works("Leader:    a\n", "leader", "status", "billing", "--bucket=others", "-s", url, "--timeout", "10s", "--connection-name", "x")
	works(`"id": "a"`, "--no-context", "-s", url, "leader", "status", "--bucket=others", "--json", "billing")
	t.Setenv("NATS_URL", url)
	t.Setenv("NATSLEADER_BUCKET", "others")
	works(`"billing"`, "leader", "status", "--json")
	works("others", "leader", "bucket", "info", "others")
}

// The limits of a plugin, as docs/cli.md describes them.
func TestPlugin_Limits(t *testing.T) {
	hermetic(t)
	echo := filepath.Join(t.TempDir(), "echo")
	expect.OK(t, os.WriteFile(echo, []byte("#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 75\n"), 0o755)) //nolint:gosec // it is run
	out, code := natsCommand(t, echo, "leader", "run", "billing", "--", "sort", "", "--", "file")
	expect.Equal(t, out, "<run><billing><sort><file>", "the words arrive as %s")
	expect.Equal(t, code, 1, "exit code %d")
	// A flag of `nats` that takes no value arrives with one: see withoutValues.
	out, _ = natsCommand(t, echo, "--no-context", "leader", "status")
	expect.Equal(t, out, "<status><--no-context=true>", "--no-context arrives as %s")
}
