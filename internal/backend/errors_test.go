package backend_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// A refusal is known by its kind, and names the last revision if the server has named it.
func TestRefusedError_NamesRevision(t *testing.T) {
	for text, e := range map[string]*backend.RefusedError{
		"leader: compare-and-set refused":                         {Actual: 7},
		"leader: compare-and-set refused: the last revision is 7": {Actual: 7, Named: true},
		"leader: compare-and-set refused: the last revision is 0": {Named: true},
	} {
		if err := fmt.Errorf("it: %w", e); !errors.Is(err, backend.ErrRefused) || errors.Is(err, backend.ErrUnreachable) || e.Error() != text {
			t.Errorf("%q, not %q", e.Error(), text)
		}
	}
	check.Equal(t, backend.ErrNoBucket.Error(), "leader: the bucket does not exist", "an error is %q")
}
