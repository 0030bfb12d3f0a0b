//go:build field

package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/examples/internal/exampletest"
	"github.com/natsleader/natsleader/internal/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is an environment.
func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// Every fault of the demonstration is followed by a leader.
func TestDemo_LeaderAfterFaults(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	var stdout, stderr bytes.Buffer
	svg := filepath.Join(t.TempDir(), "faults.svg")
	args := []string{"-duration", "12s", "-lease", "700ms", "-pause", "300ms", "-svg", svg}
	code := run(t.Context(), args, env("KEY", "demo.test", "WORKERS", "5"), &stdout, &stderr)
	out := stdout.String()
	if code != 0 || stderr.Len() > 0 || strings.Contains(out, "VIOLATION") || strings.Contains(out, "\x1b") {
		t.Fatalf("exit code %d\n%s%s", code, stderr.String(), out)
	}
	for _, want := range []string{
		"RESIGN", "CRASH", "BLACKHOLE", "DELETE", "RESTART", "OUTAGE", // in the timeline
		"resign ", "crash ", "black hole ", "key deleted ", "server restart ", "server outage ", // in the table
		"all checks held",
	} {
		check.That(t, strings.Contains(out, want), "the output lacks %q", want)
	}
	picture, err := os.ReadFile(svg)
	check.That(t, err == nil && xml.Unmarshal(picture, new(struct{})) == nil, "no picture: %v\n%s", err, picture)
	for _, want := range []string{">crash<", ">nobody leads for 0.", ">server restart<", "with a lease of 700ms<"} {
		check.That(t, strings.Contains(string(picture), want), "the picture lacks %q", want)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	check.That(t, strings.Count(out, " elected ") >= 6, "too few failovers")
	if t.Failed() {
		t.Log(out)
	}
}

func TestCtrlC_EndsTheDemoCleanly(t *testing.T) {
	for _, at := range []string{"starts", "elected", "RESIGN", "CRASH", "BLACKHOLE", "DELETE", "RESTART", "OUTAGE"} {
		t.Run(at, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stdout := &exampletest.Interrupter{At: at, Times: 1, Press: cancel}
			if at == "starts" {
				cancel()
			}
			var stderr bytes.Buffer
			args := []string{"-lease", "400ms", "-pause", "0s"}
			code := run(ctx, args, env("WORKERS", "3", "NOSPLAY", "1"), stdout, &stderr)
			out := stdout.String()
			if at == "starts" && code == 0 && out == "" {
				return // there was nothing to report on
			}
			if code != 0 || !strings.Contains(out, "interrupted") || !strings.Contains(out, "all checks held") {
				t.Errorf("exit code %d\n%s%s", code, stderr.String(), out)
			}
		})
	}
}

func TestBadSettings_AreNamed(t *testing.T) {
	for _, c := range []struct {
		args []string
		env  func(string) string
		want string
	}{
		{nil, env("WORKERS", "many"), `WORKERS="many" is not a number`},
		{nil, env("WORKERS", "0"), `WORKERS="0" is not a number from 1 to`},
		{nil, env("NOSPLAY", "yes"), `NOSPLAY="yes"`},
		{nil, env("KEY", "no spaces"), `KEY="no spaces"`},
		{nil, env("CONTEXT", "does-not-exist"), `CONTEXT="does-not-exist"`},
		{[]string{"-duration", "soon"}, env(), "-duration"},
		{[]string{"-lease", "1ms"}, env(), "-lease 1ms is less than"},
		{[]string{"now"}, env(), `"now"`},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), c.args, c.env, &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("exit code %d, want 2 and %q:\n%s", code, c.want, stderr.String())
		}
	}
}
