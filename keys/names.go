package keys

import "strings"

// isKey applies the rule of jetstream/kv.go, keyValid.
func isKey(name string) bool {
	return name != "" && name[0] != '.' && name[len(name)-1] != '.' && strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || 'z' < r) && (r < 'A' || 'Z' < r) && (r < '0' || '9' < r) && !strings.ContainsRune("-/_=.", r)
	}) < 0
}

// slotOf returns the slot of a name: its 64-bit FNV-1a hash modulo the number of slots. It never changes.
func slotOf(name string, slots int) int {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return int(h % uint64(slots)) //nolint:gosec // slots is positive, and so the result is less than it
}

// isFilter reports whether a pattern can match a key.
func isFilter(filter string) bool {
	tokens := strings.Split(filter, ".")
	for i, token := range tokens {
		if token == "*" || token == ">" && i == len(tokens)-1 {
			continue
		}
		if !isKey(token) {
			return false
		}
	}
	return len(filter) <= maxName
}

// overlap reports whether a name can match two patterns. NATS takes no such patterns for one watch.
func overlap(one, other string) bool {
	a, b := strings.Split(one, "."), strings.Split(other, ".")
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == ">" || b[i] == ">":
			return true
		case a[i] != b[i] && a[i] != "*" && b[i] != "*":
			return false
		}
	}
	return len(a) == len(b)
}
