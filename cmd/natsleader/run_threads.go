//go:build unix

package main

import (
	"runtime"
	"sync"
)

// threadsAhead is how many threads natsleader and its supervisor make when they start.
// The Go runtime aborts when it needs another and the limit of processes is used up, by
// the command for instance. Both would die, and no process would be left to end the
// command.
const threadsAhead = 16

// makeThreads makes the runtime create threads, which it keeps.
func makeThreads() {
	var up, down sync.WaitGroup
	up.Add(threadsAhead)
	down.Add(threadsAhead)
	for range threadsAhead {
		go func() {
			defer down.Done()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			up.Done()
			up.Wait()
		}()
	}
	down.Wait()
}
