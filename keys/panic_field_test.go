//go:build field

package keys_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/keys"
	"github.com/natsleader/natsleader/shard"
)

// A panic of the work is one of the process, as that of the work on a shard is. So is a panic of Wants or Ready, and a call of
// runtime.Goexit in them, without which Serve would wait for ever.
func TestWork_Panics(t *testing.T) {
	const inner = "NATSLEADER_KEYS_PANIC"
	cfg := keys.Config{Filter: "t.*", Member: shard.Config{ID: "a"}}
	work := func(context.Context, *keys.Key) {}
	for _, c := range []struct{ name, want string }{
		{"work", "panic: the work on a key"},
		{"Wants", "panic: Wants"},
		{"Ready", "panic: keys: Wants or Ready"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if os.Getenv(inner) == "" {
				out, code := run(t, inner)
				check.Equal(t, code, 2, "the process has ended with %d")
				check.That(t, strings.Contains(out, c.want), "%s", out)
				return
			}
			switch c.name {
			case "work":
				work = func(context.Context, *keys.Key) { panic("the work on a key") }
			case "Wants":
				cfg.Wants = func(keys.Entry) bool { panic("Wants") }
			case "Ready":
				cfg.Ready = func(keys.Entry, func(string) (keys.Entry, bool)) bool { runtime.Goexit(); return true }
			}
			tenants := leadertest.NewStore(nil)
			tenants.Put("t.k", nil)
			cfg.Bucket = tenants
			_ = check.Got(keys.Join(t.Context(), leadertest.NewStore(nil), "tenants", cfg))(t).Serve(work)
		})
	}
}

// run runs the test in another process, and returns its output and exit code.
func run(t *testing.T, inner string) (out string, code int) {
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$")
	c.Env = append(os.Environ(), inner+"=1")
	text, err := c.CombinedOutput()
	exit := new(exec.ExitError)
	check.Must(t, errors.As(err, &exit), "%v", err)
	return string(text), exit.ExitCode()
}
