package leader

import (
	"fmt"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// A fault of one kind and source is remembered once, however often it is found, until its source has shown its end.
func TestFound_Once(t *testing.T) {
	var c Candidate
	for i := range 1000 {
		c.found(fromKey, fmt.Errorf("%w: %d", ErrFull, i))
		c.found(fromFeed, ErrFull)
	}
	check.Equal(t, len(c.lastingFaults()), 2, "%d faults last")
	c.over(fromKey)
	check.Deep(t, c.lastingFaults(), []lastingFault{{fromFeed, ErrFull}})
}
