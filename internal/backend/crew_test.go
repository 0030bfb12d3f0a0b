package backend_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// A function that does not return keeps no other from being called. The goroutines end with the last user: the bubble
// would not end otherwise.
func TestCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c backend.Crew
		for range 2 { // it can be used again
			c.Join()
			c.Join()
			held := make(chan struct{})
			var called sync.WaitGroup
			for range 40 {
				c.Do(func() { <-held })
				called.Add(1)
				c.Do(called.Done)
				called.Wait()
			}
			close(held)
			c.Leave()
			synctest.Wait()
			done := false
			c.Do(func() { done = true })
			synctest.Wait()
			check.That(t, done, "the function of the user that is left was not called")
			c.Leave()
		}
	})
}
