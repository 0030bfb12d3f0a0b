package leader_test

import (
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// Each text has a name of its own, which is one part of a key. Others compute it with sha256sum.
func TestName(t *testing.T) {
	long := strings.Repeat("x", 200)
	of := make(map[string]string)
	for _, k := range []struct{ text, begins string }{
		{"billing", "billing"},
		{"a/b=-_9Z", "a/b=-_9Z"},
		{long, long},
		{"e3b0c44298fc1c14", "e3b0c44298fc1c14"},
		{"x-e3b0c44298fc1c1g", "x-e3b0c44298fc1c1g"},
		{"", "-e3b0c44298fc1c14"},
		{"*", "_-684888c0ebb17f37"},
		{"job:1", "job_1-d1e888ce6b7290a8"},
		{"ann@example.com", "ann_example_com-71d4f55f72fa128d"},
		{"日", "___-"},
		{"\xff", "_-"},
		{long + "x", long[:183] + "-"},
		{long + "y", long[:183] + "-"},
		{"example.com", "example_com-"},
		{"a..b", "a__b-"},
		{"seat.2", "seat_2-"},
		{wire.CordonKey, "natsleader_cordon-"},
		{"job_1-d1e888ce6b7290a8", "job_1-d1e888ce6b7290a8-"}, // takes no other's
		{"-e3b0c44298fc1c14", "-e3b0c44298fc1c14-"},
	} {
		name := leader.Name(k.text)
		check.That(t, strings.HasPrefix(name, k.begins), "%q has the name %q, not %q", k.text, name, k.begins)
		check.That(t, len(name) <= 200 && !strings.Contains(name, "."), "%q has the name %q", k.text, name)
		check.OK(t, wire.CheckElection(name))
		other, double := of[name]
		check.That(t, !double, "%q and %q have the name %q", k.text, other, name)
		of[name] = k.text
	}
}
