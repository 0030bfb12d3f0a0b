package leader_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// Few candidates of a Bucket do their steps themselves. More share the goroutines of a crew, which end with them: the bubble
// would not end otherwise.
func TestCrowd_SharesStacks(t *testing.T) {
	inSealed(t, func(w *world) {
		b := w.dial("a").bucket(t)
		for n := 1; n <= backend.Phases+4; n++ {
			check.Got(leader.Campaign(w.Context(), b, fmt.Sprint("e", n), leader.Config{ID: "a"}))(t)
			synctest.Wait()
			all := make([]byte, 1<<20)
			all = all[:runtime.Stack(all, true)]
			shares := strings.Contains(string(all), "backend.(*Crew).work(")
			check.That(t, shares == (n > backend.Phases), "%d candidates share goroutines: %v", n, shares)
		}
	})
}
