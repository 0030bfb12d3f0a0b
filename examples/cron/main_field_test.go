//go:build field

package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/examples/internal/exampletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The leader hands over.
func TestLeader_HandsOver(t *testing.T) { exampletest.Run(t, example, " elected ", 2, 2) }
