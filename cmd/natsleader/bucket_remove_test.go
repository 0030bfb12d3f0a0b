package main

import (
	"strings"
	"testing"
)

// The history of a bucket with a long name has a name of its own.
func TestHistoryStream_Names(t *testing.T) {
	a, b := historyStream(strings.Repeat("a", 252)), historyStream(strings.Repeat("a", 251)+"b")
	if a == b || len(a) > 255 || len(b) > 255 || historyStream("e") != "natsleader_history_e" {
		t.Errorf("%q, %q", a, b)
	}
}
