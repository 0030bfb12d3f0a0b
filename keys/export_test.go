package keys

import "time"

// SetLookEach sets how often a bucket is looked at, and returns the value before.
func SetLookEach(d time.Duration) (before time.Duration) {
	before, lookEach = lookEach, d
	return before
}
