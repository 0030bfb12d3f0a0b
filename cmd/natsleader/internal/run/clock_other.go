//go:build unix && !linux

package run

import "time"

// bootTime reads the wall clock, the only one here that processes share and that goes
// on while the machine is suspended.
func bootTime() instant { return instant(time.Now().UnixNano()) }

// Uptime is not known here, so it is left out of the lease file.
func (instant) Uptime() float64 { return 0 }
