package main

import (
	"slices"
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"
)

// The command of run is taken as it is.
func TestRunArguments_AreVerbatim(t *testing.T) {
	for _, x := range []struct{ args, parsed, command []string }{
		{[]string{"run", "a", "--", "git", "log", "--", "", "@x", "-"}, []string{"run", "a"}, []string{"git", "log", "--", "", "@x", "-"}},
		{[]string{"-s", "run", "run", "--wait", "1s", "a", "--"}, []string{"-s", "run", "run", "--wait", "1s", "a"}, []string{}},
		{[]string{"status", "--", "-a"}, []string{"status", "--", "-a"}, nil},
		{[]string{"status", "a"}, []string{"status", "a"}, nil},
	} {
		g := &globals{}
		app, _ := newApp(g, false)
		got := g.withoutCommand(app, x.args)
		expect.That(t, slices.Equal(got, x.parsed) && slices.Equal(g.command, x.command),
			"%q: %q and %q", x.args, got, g.command)
	}
}

func TestSwitches_MayHaveAValue(t *testing.T) {
	app, _ := newApp(&globals{}, false)
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
