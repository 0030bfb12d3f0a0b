//go:build field

package main

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"
)

func TestVersion_JSON(t *testing.T) {
	var v versionSummary
	err := json.Unmarshal([]byte(succeeds(t, "version", "--json")), &v)
	expect.That(t, err == nil && v.Go == runtime.Version() && strings.HasPrefix(v.Client, "v1."), "%+v, %v", v, err)
	printed(t, succeeds(t, "version"), "\nnats.go:")
}
