package run

import (
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

// Uptime is the instant in the seconds of /proc/uptime.
func (i instant) Uptime() float64 { return float64(i/1e6) / 1e3 }
