package keys

import (
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/shard"
)

// A member publishes on which keys it works, and before that its program, if that has a name.
func TestConfig_Program(t *testing.T) {
	for main, want := range map[string]string{
		"": "on keys tenants t.*", "command-line-arguments": "on keys tenants t.*", "example.com/web": "example.com/web on keys tenants t.*",
	} {
		c := Config{Filter: "t.*"}
		check.Equal(t, c.program(main, "tenants"), want, "%q")
	}
	c := Config{Filter: "t.*", Guards: "g", Member: shard.Config{Program: "web"}}
	check.Equal(t, c.program("example.com/web", "tenants"), "web on keys tenants t.* with guards g", "%q")
}
