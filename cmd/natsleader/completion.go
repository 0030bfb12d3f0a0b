package main

import (
	"fmt"
	"io"
)

// completionScripts are the scripts for zsh and fish. fisk (v0.9.1) has none for fish, and its script for zsh
// completes no names of elections, buckets and candidates. These scripts ask the command itself.
var completionScripts = map[string]string{
	"--completion-script-zsh": `#compdef natsleader

_natsleader() {
    local -a words_now options
    words_now=("${(@)words[2,CURRENT]}")
    options=("${(@f)$("${words[1]}" --completion-bash "${(@)words_now}" 2>/dev/null)}")
    options=("${(@)options:#}")
    if (( ${#options} )); then
        compadd -a options
    else
        _files
    fi
}

if [ "${funcstack[1]}" = "_natsleader" ]; then
    _natsleader "$@"
else
    compdef _natsleader natsleader
fi
`,
	"--completion-script-fish": `function __natsleader_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l token (commandline --current-token --cut-at-cursor)
    set -l found (command $words[1] --completion-bash $words[2..] "$token" 2>/dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else
        __fish_complete_path "$token"
    end
end
complete --command natsleader --erase
complete --command natsleader --no-files --arguments '(__natsleader_complete)'
`,
}

// printCompletionScript prints the script that the only argument asks for, and reports
// whether there is one.
func printCompletionScript(w io.Writer, args []string) bool {
	if len(args) != 1 || completionScripts[args[0]] == "" {
		return false
	}
	_, _ = fmt.Fprint(w, completionScripts[args[0]])
	return true
}
