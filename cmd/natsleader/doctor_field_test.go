//go:build field

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
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

// asUser returns the server's URL with a user of that name.
func asUser(s *server.Server, name string) string {
	return strings.Replace(s.ClientURL(), "nats://", "nats://"+name+":x@", 1)
}
