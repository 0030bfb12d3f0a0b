package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// reapAdopted reaps the processes that this one has adopted (for instance as the first
// process of a container), whenever one has ended. It leaves the supervisor to the
// goroutine that waits for it.
func reapAdopted(supervisor *atomic.Int64) {
	ended := make(chan os.Signal, 1)
	ended <- unix.SIGCHLD // one may have ended already
	signal.Notify(ended, unix.SIGCHLD)
	go func() {
		for range ended {
			reaping.Lock()
			all, _ := filepath.Glob("/proc/[0-9]*")
			for _, path := range all {
				pid, _ := strconv.Atoi(filepath.Base(path))
				state, parent, ok := statOf(filepath.Base(path))
				if ok && state == 'Z' && parent == os.Getpid() && int64(pid) != supervisor.Load() {
					reapChild(pid)
				}
			}
			reaping.Unlock()
		}
	}()
}
