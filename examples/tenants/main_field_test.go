//go:build field

package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/examples/internal/exampletest"
	"github.com/natsleader/natsleader/examples/internal/scaffold"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Tenants begin, move and end.
func TestScript(t *testing.T) {
	exampletest.Run(t, scaffold.Example{Name: "tenants", Run: script}, "", 0, 0)
}
