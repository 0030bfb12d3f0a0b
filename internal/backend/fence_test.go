package backend_test

import (
	"testing"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// A guard that a term does not have stands at no revision.
func TestGuardRevision_NoGuard(t *testing.T) {
	defer func(of func(term, guard any) backend.Fence) { backend.FenceOf = of }(backend.FenceOf)
	backend.FenceOf = func(any, any) backend.Fence { return nil }
	revision, ok := backend.GuardRevision(nil, nil)
	check.That(t, revision == 0 && !ok, "%d, %v", revision, ok)
}
