package act

import (
	"context"
	"slices"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
)

// cordonedNames completes the name of a cordoned candidate.
func cordonedNames(g *front.Globals) []string {
	return inspect.Complete(g, "cordoned", func(ctx context.Context, s *inspect.Inspector) ([]string, error) {
		names, _, err := s.Cordon(ctx)
		return slices.DeleteFunc(names, func(name string) bool { return !unquoted(name) }), err
	})
}
