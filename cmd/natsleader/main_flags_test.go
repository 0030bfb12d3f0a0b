package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The command of run is taken as it is.
func TestRunArguments_AreVerbatim(t *testing.T) {
	for _, x := range []struct{ args, parsed, command []string }{
		{[]string{"run", "a", "--", "git", "log", "--", "", "@x", "-"}, []string{"run", "a"}, []string{"git", "log", "--", "", "@x", "-"}},
		{[]string{"-s", "run", "run", "--wait", "1s", "a", "--"}, []string{"-s", "run", "run", "--wait", "1s", "a"}, []string{}},
		{[]string{"status", "--", "-a"}, []string{"status", "--", "-a"}, nil},
		{[]string{"status", "a"}, []string{"status", "a"}, nil},
	} {
		g := &front.Globals{}
		app, _ := newApp(g, false)
		got := withoutCommand(g, app, x.args)
		expect.That(t, slices.Equal(got, x.parsed) && slices.Equal(g.Command, x.command),
			"%q: %q and %q", x.args, got, g.Command)
	}
}

func TestSwitches_MayHaveAValue(t *testing.T) {
	app, _ := newApp(&front.Globals{}, false)
	for _, x := range []struct{ args, want []string }{
		{[]string{"status", "--json=true", "a"}, []string{"status", "--json", "a"}},
		{[]string{"status", "--tlsfirst=false", "--no-context=true"}, []string{"status", "--no-context"}},
		{[]string{"status", "--bucket=true"}, []string{"status", "--bucket=true"}},
		{[]string{"status", "--json=perhaps"}, []string{"status", "--json=perhaps"}},
		{[]string{"--json=true", "status", "--", "--json=true"}, []string{"--json", "status", "--", "--json=true"}},
	} {
		got := withoutValues(app, x.args)
		expect.That(t, slices.Equal(got, x.want), "%q: %q", x.args, got)
	}
}

// A mistake in the command line is named, with what may have been meant. None of them is
// taken for an outage.
func TestUsageErrors_NameTheMistake(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("staus", "step-dwon", "bucket ad", "xyzzy", "--nonsense", "status --jsn", "--sever x status", "run --dran 5s a -- true")
		w.Prompt("run a ./report --fast", "run a sh -c true", "run a grep -q x", "run a", "bucket", "run", "run a --drain", "run a --drain -- true")
		w.Prompt("run --wait 0s a -- true", "run --try --wait 1s a -- true", "run --try --retry-connect a -- true", "run --hold=-1s a -- true")
		w.Prompt("run --restart 1001 a -- true", "run --log-format xml a -- true", "status --timeout abc", "status --timeout 0s")
		w.Prompt("status ''", "bucket add ''", "bucket add --history-size 5q", "bucket info ''")
		w.Prompt("serve --metrics 80", "serve --metrics :80 --max-elections 0", "serve --page 80", "serve --page :80 --metrics :80", "serve --max-elections 1", "serve --metrics :80 --allow-actions", "serve --metrics :80 --allow-host x", "watch a.>")
		w.Notef("# names that commands had\n")
		for _, name := range slices.Sorted(maps.Keys(renamed)) {
			w.Prompt(name + " x --json")
		}
		w.Notef("# NATS_TIMEOUT is soon\n")
		w.Setenv("NATS_TIMEOUT", "soon")
		w.Prompt("status")
	})
}
