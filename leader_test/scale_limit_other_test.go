//go:build unix && !linux

package leader_test

import "time"

// scaleNewGroup returns nil: there are no control groups.
func scaleNewGroup() scaleGroup { return nil }

// scaleMachine returns 0: it is not known.
func scaleMachine() time.Duration { return 0 }
