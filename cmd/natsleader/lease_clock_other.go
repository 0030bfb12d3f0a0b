//go:build unix && !linux

package main

import "time"

// bootTime reads the wall clock, the only one here that processes share and that goes
// on while the machine is suspended.
func bootTime() instant { return instant(time.Now().UnixNano()) }

// uptime is not known here, so it is left out of the lease file.
func (instant) uptime() float64 { return 0 }
