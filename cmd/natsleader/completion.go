package main

import (
	_ "embed"
	"fmt"
	"io"
)

//go:embed completion.zsh
var zshScript string

//go:embed completion.fish
var fishScript string

// completionScripts are the scripts for zsh and fish. fisk (v0.9.1) has none for fish, and its script for zsh
// completes no names of elections, buckets and candidates. These scripts ask the command itself.
var completionScripts = map[string]string{
	"--completion-script-zsh":  zshScript,
	"--completion-script-fish": fishScript,
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
