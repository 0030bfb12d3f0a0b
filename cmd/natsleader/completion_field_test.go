//go:build field

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// The scripts for the shells complete elections, buckets and flags, where the host has these shells.
func TestCompletion_Scripts(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	newBucket(t, url, "other", leader.BucketConfig{})
	campaigns(t, url, "elections", "billing", leader.Config{})
	for shell, script := range map[string]string{
		"bash": `source <($BINARY --completion-script-bash)
COMP_WORDS=($BINARY status bi) COMP_CWORD=2; _natsleader_bash_autocomplete; echo "${COMPREPLY[@]}"
COMP_WORDS=($BINARY bucket info "") COMP_CWORD=3; _natsleader_bash_autocomplete; echo "${COMPREPLY[@]}"
COMP_WORDS=($BINARY run --dra) COMP_CWORD=2; _natsleader_bash_autocomplete; echo "${COMPREPLY[@]}"`,
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
			if err != nil && shell == "bash" {
				t.Fatal(err) // CI needs it, too
			} else if err != nil {
				proof.Skip(t, err)
			}
			var got []string
			testworld.Eventually(t, "it offers four words", func() bool { // without an answer within a second there are none
				cmd := withEnv(natsleader(t), "NATS_URL="+url, "BINARY="+binary, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
				cmd.Path, cmd.Args = path, []string{shell, "-c", script}
				out, errs, code := outcome(t, cmd)
				expect.That(t, code == 0 && errs == "", "exit code %d\n%s", code, errs)
				got = strings.Fields(out)
				return len(got) >= 4
			})
			expect.That(t, slices.Equal(got, []string{"billing", "elections", "other", "--drain"}), "%q", got)
		})
	}
	for flag, beginning := range map[string]string{"--completion-script-zsh": "#compdef natsleader", "--completion-script-fish": "function __natsleader"} {
		out := succeeds(t, flag)
		expect.That(t, strings.HasPrefix(out, beginning), "%s: %.100q", flag, out)
	}
}
