package leader

import (
	"syscall"
	"time"
	"unsafe"
)

// From linux/time.h; package syscall does not name them.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// sleptNow returns how long the host has been suspended since it was booted: the lead of
// CLOCK_BOOTTIME over CLOCK_MONOTONIC (clock_gettime(2)). Only this difference is used,
// because inside a testing/synctest bubble the clocks themselves are real.
func sleptNow() time.Duration {
	monotonic := clockGettime(clockMonotonic) // first: a delay between the two may only add
	return clockGettime(clockBoottime) - monotonic
}

func clockGettime(id uintptr) time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0 // Linux before 2.6.39
	}
	return time.Duration(ts.Nano())
}
