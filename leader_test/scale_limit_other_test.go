//go:build unix && !linux

package leader_test

// scaleNewGroup returns nil: there are no control groups.
func scaleNewGroup() scaleGroup { return nil }
