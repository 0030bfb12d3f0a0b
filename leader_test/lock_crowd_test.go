package leader_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// Many processes take a lock and give it back at once. It is never left idle behind a lost race: only the ways of the messages take
// time, and here they take none.
func TestLock_Crowd(t *testing.T) {
	inSealed(t, func(w *world) {
		var all sync.WaitGroup
		for i := range 50 {
			b := w.dial(fmt.Sprint(i)).bucket(t)
			all.Go(func() {
				lock := check.Got(leader.Acquire(w.Context(), b, "e", leader.Config{ID: fmt.Sprint(i)}))(t)
				check.OK(t, lock.Unlock(w.Context()))
			})
		}
		all.Wait()
		w.isAt(0, "all had it")
	})
}
