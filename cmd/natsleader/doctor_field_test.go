//go:build field

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/natsleader/natsleader/leader"
)

// diagnose runs doctor. One space is between two words of what it returns.
func diagnose(t *testing.T, url string, args ...string) (out string, code int) {
	t.Helper()
	out, errs, code := outcome(t, natsleader(t, append([]string{"doctor", "-s", url}, args...)...))
	if errs != "" {
		t.Fatalf("doctor %v: exit code %d\n%s%s", args, code, out, errs)
	}
	return regexp.MustCompile(` +`).ReplaceAllString(out, " "), code
}

// finds runs doctor, and fails the test unless the report has all of the texts.
func finds(t *testing.T, url string, args []string, code int, texts ...string) {
	t.Helper()
	out, got := diagnose(t, url, args...)
	if got != code {
		t.Errorf("exit code %d, not %d", got, code)
	}
	printed(t, out, texts...)
}

// configured starts a server with a configuration, and changes to it.
func configured(t *testing.T, config string, changes ...func(*server.Options)) *server.Server {
	t.Helper()
	return startServer(t, func(o *server.Options) {
		*o = server.Options{}
		if err := o.ProcessConfigString(config); err != nil {
			t.Fatal(err)
		}
		o.NoLog, o.NoSigs = true, true
		for _, change := range changes {
			change(o)
		}
	})
}

// asUser returns the server's URL with a user of that name.
func asUser(s *server.Server, name string) string {
	return strings.Replace(s.ClientURL(), "nats://", "nats://"+name+":x@", 1)
}

// systemContext returns the file of a context with system credentials.
func systemContext(t *testing.T, s *server.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "system.json")
	text := fmt.Sprintf(`{"url": %q, "user": "operator", "password": "x"}`, s.ClientURL())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// expire leaves the record of an election whose leader is gone.
func expire(t *testing.T, url, election string) {
	t.Helper()
	c := campaigns(t, url, "elections", "model", leader.Config{ID: "a"})
	_, js := connectTo(t, url)
	put(t, js, election, record(t, js, "model", "worker-c", 100*time.Millisecond))
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// doctorStreams names the streams that a user sees.
func doctorStreams(t *testing.T, url string) (names []string) {
	t.Helper()
	_, js := connectTo(t, url)
	all := js.StreamNames(t.Context())
	for name := range all.Name() {
		names = append(names, name)
	}
	if err := all.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}
