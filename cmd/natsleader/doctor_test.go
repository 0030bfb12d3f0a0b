package main

import (
	"strings"
	"testing"
)

// printed fails the test unless all of the texts are in the output.
func printed(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains("\n"+out, text) {
			t.Errorf("no %q in:\n%s", text, out)
		}
	}
}
