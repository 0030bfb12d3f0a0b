package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// bootTime reads CLOCK_BOOTTIME, which all processes of the machine share and which
// goes on while the machine is suspended. /proc/uptime shows it.
func bootTime() instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return instant(time.Now().UnixNano()) // before Linux 2.6.39, the same for all processes
	}
	return instant(ts.Nano())
}

// uptime is the instant in the seconds of /proc/uptime.
func (i instant) uptime() float64 { return float64(i/1e6) / 1e3 }

// hostSync asks the kernel whether something keeps its clock synchronised.
func hostSync() (bool, error) {
	var t unix.Timex // without modes, it only reads
	if _, err := unix.Adjtimex(&t); err != nil {
		return false, fmt.Errorf("adjtimex: %w", err)
	}
	return t.Status&unix.STA_UNSYNC == 0, nil
}
