package backend

import (
	"sync"
	"sync/atomic"
)

// Crew runs functions for the many on the stacks of a few. A goroutine that only waits has a small stack, and a function
// that needs more doubles it until the next collection. So thousands of goroutines that do something now and then let a
// Crew do it. The zero value is ready for use.
type Crew struct {
	mu    sync.Mutex // held for moments only
	users int
	jobs  chan func() // of the users; nil: there were none yet
	idle  atomic.Int32
}

// mostIdle is how many goroutines of a Crew wait for work.
const mostIdle = 16

// Join counts a user, which calls Leave at its end.
func (c *Crew) Join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users++; c.users == 1 {
		c.jobs = make(chan func())
	}
}

// Leave counts a user no longer. The goroutines end with the last one.
func (c *Crew) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users == 0 {
		close(c.jobs)
	}
}

// Do has f called, for a user. It waits neither for that nor for other functions.
func (c *Crew) Do(f func()) {
	c.mu.Lock()
	jobs := c.jobs
	c.mu.Unlock()
	select {
	case jobs <- f:
	default:
		go c.work(jobs, f)
	}
}

func (c *Crew) work(jobs <-chan func(), f func()) {
	for ok := true; ok; {
		f()
		if c.idle.Add(1) <= mostIdle {
			f, ok = <-jobs
		} else {
			ok = false
		}
		c.idle.Add(-1)
	}
}
