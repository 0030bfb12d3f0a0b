//go:build !linux

package leader

import "time"

// sleptNow returns 0: this platform does not report how long the host was suspended, and
// Go's clock may stand still during that time.
func sleptNow() time.Duration { return 0 }
