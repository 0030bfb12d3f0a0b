//go:build field

package keys_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/keys"
	"github.com/natsleader/natsleader/shard"
)

// A panic of the work is one of the process, as that of the work on a shard is.
func TestWork_Panics(t *testing.T) {
	const inner = "NATSLEADER_KEYS_PANIC"
	if os.Getenv(inner) != "" {
		tenants := leadertest.NewStore(nil)
		tenants.Put("t.k", nil)
		s := check.Got(keys.Join(t.Context(), leadertest.NewStore(nil), "tenants", keys.Config{
			Bucket: tenants, Filter: "t.*", Member: shard.Config{ID: "a"},
		}))(t)
		_ = s.Serve(func(context.Context, *keys.Key) { panic("the work on a key") })
		return
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWork_Panics$")
	c.Env = append(os.Environ(), inner+"=1")
	out, err := c.CombinedOutput()
	exit := new(exec.ExitError)
	check.Must(t, errors.As(err, &exit), "%v", err)
	check.Equal(t, exit.ExitCode(), 2, "the process has ended with %d")
	check.That(t, strings.Contains(string(out), "panic: the work on a key"), "%s", out)
}
