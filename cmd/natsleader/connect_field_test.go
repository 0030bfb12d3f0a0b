//go:build field

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/natsleader/natsleader/leader"
)

// fails runs the binary and checks how it fails: with one line that has all of the
// texts.
func fails(t *testing.T, cmd *exec.Cmd, code int, says ...string) {
	t.Helper()
	out, errs, got := outcome(t, cmd)
	if got != code || strings.Count(errs, "\n") != 1 {
		t.Errorf("%v: exit code %d, not %d\n%s%s", cmd.Args[1:], got, code, out, errs)
	}
	for _, s := range says {
		if !strings.Contains(errs, s) {
			t.Errorf("%v: does not say %q\n%s", cmd.Args[1:], s, errs)
		}
	}
}

// withContext writes a context for the command, and selects it.
func withContext(t *testing.T, cmd *exec.Cmd, name, json string) *exec.Cmd {
	t.Helper()
	dir := filepath.Join(cmd.Dir, "nats", "context")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, name+".json"), json)
	writeFile(t, filepath.Join(cmd.Dir, "nats", "context.txt"), name)
	return cmd
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The selected context is used, and flags override it.
func TestConnect_FlagsOverride(t *testing.T) {
	s := startServer(t, func(o *server.Options) { o.Username, o.Password = "ada", "secret" })
	nc, js := connectTo(t, "nats://ada:secret@"+s.Addr().String())
	if _, err := leader.CreateBucket(t.Context(), js, leader.BucketConfig{Name: "elections"}); err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	good := `{"url":"` + s.ClientURL() + `","user":"ada","password":"secret"}`
	nowhere := `{"url":"nats://127.0.0.1:1","user":"ada","password":"secret"}`
	for what, cmd := range map[string]*exec.Cmd{
		"selected":        withContext(t, natsleader(t, "bucket", "info"), "here", good),
		"flag over it":    withContext(t, natsleader(t, "bucket", "info", "--server", s.ClientURL()), "there", nowhere),
		"environment":     withEnv(natsleader(t, "bucket", "info"), "NATS_URL="+s.ClientURL(), "NATS_USER=ada", "NATS_PASSWORD=secret"),
		"without context": withContext(t, natsleader(t, "bucket", "info", "--no-context", "-s", s.ClientURL(), "--user", "ada", "--password", "secret"), "there", `{"url":"nats://127.0.0.1:1","creds":"/nowhere"}`),
	} {
		if out, errs, code := outcome(t, cmd); code != 0 {
			t.Errorf("%s: exit code %d\n%s%s", what, code, out, errs)
		}
	}
	file := filepath.Join(t.TempDir(), "production.json")
	writeFile(t, file, good)
	succeeds(t, "bucket", "info", "--context", file)
	byName := withContext(t, natsleader(t, "bucket", "info", "--context", "here"), "here", good)
	withContext(t, byName, "there", nowhere)
	if out, errs, code := outcome(t, byName); code != 0 {
		t.Errorf("by name: exit code %d\n%s%s", code, out, errs)
	}
	fails(t, natsleader(t, "status", "-s", s.ClientURL(), "--user", "ada", "--password", "wrong"), exitUnreachable, "Authorization Violation")
}

func withEnv(cmd *exec.Cmd, env ...string) *exec.Cmd {
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

func TestConnect_Credentials(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "user.nk")
	writeFile(t, file, string(seed))

	byKey := startServer(t, func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} })
	succeeds(t, "bucket", "add", "-s", byKey.ClientURL(), "--nkey", file)

	byToken := startServer(t, func(o *server.Options) { o.Authorization = "opensesame" })
	succeeds(t, "bucket", "add", "-s", byToken.ClientURL(), "--token", "opensesame")
	succeeds(t, "bucket", "add", "-s", byToken.ClientURL(), "--user", "opensesame") // as `nats` does
}

// The JetStream domain of the flags is used.
func TestConnect_Domain(t *testing.T) {
	s := startServer(t, func(o *server.Options) { o.JetStreamDomain = "hub" })
	succeeds(t, "bucket", "add", "-s", s.ClientURL(), "--js-domain", "hub")
	succeeds(t, "bucket", "info", "-s", s.ClientURL(), "--js-api-prefix", "$JS.hub.API")
	fails(t, natsleader(t, "bucket", "info", "-s", s.ClientURL(), "--js-domain", "elsewhere"), exitUnreachable, "JetStream does not answer")
}

// A command that cannot connect says why.
func TestConnect_FailureSaysWhy(t *testing.T) {
	fails(t, natsleader(t, "status", "-s", "nats://ada:secret@127.0.0.1:1"), exitUnreachable, "cannot connect to nats://xxxxx@127.0.0.1:1")
	fails(t, natsleader(t, "status", "--context", "nowhere"), exitUsage, `unknown context "nowhere"`)
	for _, flag := range []string{"--creds", "--nkey", "--tlscert", "--tlskey", "--tlsca"} {
		fails(t, natsleader(t, "status", flag, "/nowhere/file"), exitUsage, "/nowhere/file: no such file")
	}
	s := startServer(t, func(o *server.Options) { o.JetStream = false })
	for _, command := range [][]string{{"status"}, {"bucket", "info"}, {"bucket", "add"}} {
		_, errs, code := outcome(t, natsleader(t, append(command, "-s", s.ClientURL())...))
		if code != exitUnreachable || strings.Count(errs, "\n") != 1 || strings.Count(errs, "JetStream does not answer") != 1 || strings.Count(errs, "enabled") != 1 {
			t.Errorf("%v: exit code %d, says %s", command, code, errs)
		}
	}
	fails(t, natsleader(t, "status", "-s", startServer(t).ClientURL(), "--bucket", "KV_jobs"), exitBucket, "the name of the bucket may be jobs")
}
