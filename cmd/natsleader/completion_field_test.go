//go:build field

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// completions returns the completions that the shell offers for the last word.
func completions(t *testing.T, cmd *exec.Cmd) []string {
	t.Helper()
	out, errs, code := outcome(t, cmd)
	if code != 0 || errs != "" {
		t.Errorf("%q: exit code %d\n%s", cmd.Args[1:], code, errs)
	}
	return strings.Fields(out)
}

// awaitCompletions returns the completions when there are so many. Without an answer of NATS within
// a second the shell offers none.
func awaitCompletions(t *testing.T, cmd *exec.Cmd, n int) (got []string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%q has %d completions", cmd.Args[1:], n), func() bool {
		again := *cmd
		got = completions(t, &again)
		return len(got) >= n
	})
	return got
}

func TestCompletion(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	newBucket(t, url, "other", leader.BucketConfig{})
	campaigns(t, url, "elections", "billing", leader.Config{ID: "leads-billing"})
	campaigns(t, url, "elections", "mail", leader.Config{})
	campaigns(t, url, "elections", "reports", leader.Config{ID: "leads-billing"})
	campaigns(t, url, "other", "elsewhere", leader.Config{})
	line := []string{"web-2", "web-3", "two words", "-flag", "$HOME"}
	for i, id := range line {
		stands(t, url, "billing", leader.Config{ID: id, Roster: true})
		inLine(t, url, "billing", line[:i+1]...)
	}
	stands(t, url, "mail", leader.Config{ID: "web-4", Roster: true})
	inLine(t, url, "mail", "web-4")
	of := func(args ...string) []string {
		cmd := withEnv(natsleader(t, append([]string{"--completion-bash"}, args...)...), "NATS_URL="+url)
		withContext(t, cmd, "production", `{"url":"nats://127.0.0.1:1"}`)
		withContext(t, cmd, "staging", `{"url":"nats://127.0.0.1:1"}`)
		return completions(t, cmd)
	}
	for _, x := range []struct {
		args, has, hasNot []string
	}{
		{[]string{""}, []string{"run", "hold", "status", "watch", "roster", "step-down", "transfer", "history", "bucket", "doctor"}, []string{"billing"}},
		{[]string{"bucket", ""}, []string{"add", "info", "ls", "rm"}, []string{"status"}},
		{[]string{"status", ""}, []string{"billing", "mail"}, []string{"elsewhere"}},
		{[]string{"watch", ""}, []string{"billing", "mail"}, nil},
		{[]string{"step-down", ""}, []string{"billing", "mail"}, nil},
		{[]string{"roster", ""}, []string{"billing", "mail"}, []string{"elsewhere"}},
		{[]string{"transfer", ""}, []string{"billing", "mail"}, []string{"web-2"}},
		{[]string{"step-down", "--id", ""}, []string{"leads-billing"}, []string{"web-2"}},
		{[]string{"transfer", "billing", ""}, []string{"web-2", "web-3"}, []string{"billing", "mail", "two words", "-flag", "web-4"}},
		{[]string{"transfer", "billing", "we"}, []string{"web-2", "web-3"}, nil},
		{[]string{"transfer", "mail", ""}, []string{"web-4"}, []string{"web-2"}},
		{[]string{"transfer", "--bucket", "other", "elsewhere", ""}, nil, []string{"web-2", "web-4"}},
		{[]string{"run", "--succession", ""}, []string{"race", "queue", "priority"}, nil},
		{[]string{"status", "--bucket", "other", ""}, []string{"elsewhere"}, []string{"billing"}},
		{[]string{"history", ""}, []string{"billing", "mail"}, nil},
		{[]string{"bucket", "rm", ""}, []string{"elections", "other"}, nil},
		{[]string{"bucket", "info", ""}, []string{"elections", "other"}, nil},
		{[]string{"status", "--context", ""}, []string{"production", "staging"}, nil},
		{[]string{"status", "--bucket", ""}, []string{"elections", "other"}, []string{"billing"}},
		{[]string{"status", "--bucket", "oth"}, []string{"other"}, nil},
		{[]string{"run", "--log-format", ""}, []string{"text", "json"}, nil},
		{[]string{"hold", ""}, []string{"billing", "mail"}, nil},
		{[]string{"status", "--"}, []string{"--json", "--server", "--bucket"}, []string{"--force"}},
	} {
		var got []string
		eventually(t, strings.Join(x.args, " "), func() bool { // without an answer within a second there are none
			got = of(x.args...)
			return len(got) > 0 || len(x.has) == 0
		})
		for _, s := range x.has {
			if !slices.Contains(got, s) {
				t.Errorf("%q: not %q in %q", x.args, s, got)
			}
		}
		slices.Sort(got)
		if once := slices.Compact(slices.Clone(got)); len(once) != len(got) {
			t.Errorf("%q: twice in %q", x.args, got)
		}
		for _, s := range x.hasNot {
			if slices.Contains(got, s) {
				t.Errorf("%q: %q in %q", x.args, s, got)
			}
		}
	}
}

// Without a server, completion is silent and returns soon.
func TestCompletion_WithoutServer(t *testing.T) {
	start := time.Now()
	cmd := withEnv(natsleader(t, "--completion-bash", "status", ""), "NATS_URL=nats://127.0.0.1:1")
	if got := completions(t, cmd); len(got) > 0 {
		t.Errorf("%q", got)
	}
	if d := time.Since(start); d > patience {
		t.Errorf("took %v", d)
	}
}

// The completion script works in bash.
func TestCompletion_ScriptInBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err) // CI needs it, too
	}
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	campaigns(t, url, "elections", "billing", leader.Config{ID: "leads-billing"})
	campaigns(t, url, "elections", "mail", leader.Config{})
	const script = `
source <("$0" --completion-script-bash)
COMP_WORDS=("$0" status bi) COMP_CWORD=2
_natsleader_bash_autocomplete
echo "${COMPREPLY[@]}"`
	cmd := withEnv(natsleader(t), "NATS_URL="+url)
	cmd.Path, cmd.Args = bash, []string{bash, "-c", script, binary}
	if got := awaitCompletions(t, cmd, 1); !slices.Equal(got, []string{"billing"}) {
		t.Errorf("%q", got)
	}
}

// The scripts for zsh and fish complete elections, buckets and flags, where the host has
// these shells.
func TestCompletion_OtherShells(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	newBucket(t, url, "other", leader.BucketConfig{})
	campaigns(t, url, "elections", "billing", leader.Config{})
	for shell, script := range map[string]string{
		"zsh": `compdef() { : }; compadd() { print -l -r -- "${(@M)${(@P)2}:#${words[CURRENT]}*}" }
eval "$("$BINARY" --completion-script-zsh)"
words=($BINARY status bi) CURRENT=3 _natsleader
words=($BINARY bucket info "") CURRENT=4 _natsleader
words=($BINARY run --dra) CURRENT=3 _natsleader`,
		"fish": `$BINARY --completion-script-fish | source
complete -C "natsleader status bi"
complete -C "natsleader bucket info "
complete -C "natsleader run --dra"`,
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				proof.Skip(t, err)
			}
			cmd := withEnv(natsleader(t), "NATS_URL="+url, "BINARY="+binary, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
			cmd.Path, cmd.Args = path, []string{shell, "-c", script}
			if got := awaitCompletions(t, cmd, 4); !slices.Equal(got, []string{"billing", "elections", "other", "--drain"}) {
				t.Errorf("%q", got)
			}
		})
	}
	for flag, beginning := range map[string]string{"--completion-script-zsh": "#compdef natsleader", "--completion-script-fish": "function __natsleader"} {
		if out := succeeds(t, flag); !strings.HasPrefix(out, beginning) {
			t.Errorf("%s: %.100q", flag, out)
		}
	}
}
