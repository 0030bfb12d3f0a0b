package view

import (
	"slices"
	"strings"
)

// rawIn reports whether a text contains a byte that a terminal may obey.
func rawIn(text string) bool {
	return slices.ContainsFunc([]string{"\x1b", "\a", "\r", "\u202e", "\u009b", "\U000e0001", "\xff"},
		func(s string) bool { return strings.Contains(text, s) })
}
