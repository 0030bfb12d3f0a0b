//go:build field

package main

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

func TestVersion_JSON(t *testing.T) {
	var v versionSummary
	if err := json.Unmarshal([]byte(succeeds(t, "version", "--json")), &v); err != nil || v.Go != runtime.Version() || !strings.HasPrefix(v.Client, "v1.") {
		t.Errorf("%+v, %v", v, err)
	}
	printed(t, succeeds(t, "version"), "\nnats.go:")
}
