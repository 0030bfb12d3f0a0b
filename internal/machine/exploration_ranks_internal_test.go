package machine

import "slices"

// above is where tokens begin that no revision ever reaches. Where there is a MinToken,
// it is greater. For these tokens it also matters which one follows which at once.
const above = 1 << 40

// extreme is where numbers begin that are not renumbered, because machines compare them
// with bounds.
const extreme = 1 << 60

// ranks maps numbers to their ranks. 0 stays 0.
type ranks struct {
	n   int
	gap uint64 // numbers stay apart up to this; 0: by one
	was [64]uint64
	is  [64]uint64
}

func (r *ranks) add(v uint64) {
	if v == 0 || slices.Contains(r.was[:r.n], v) {
		return
	}
	r.was[r.n] = v
	r.n++
}

func (r *ranks) sort() {
	slices.Sort(r.was[:r.n])
	for i, v := range r.was[:r.n] {
		switch {
		case v >= extreme:
			r.is[i] = v
		case v < above && i == 0:
			r.is[i] = min(v, max(r.gap, 1))
		case v < above:
			r.is[i] = r.is[i-1] + min(v-r.was[i-1], max(r.gap, 1))
		case i == 0 || r.was[i-1] < above:
			r.is[i] = above
		default:
			r.is[i] = r.is[i-1] + min(v-r.was[i-1], 2)
		}
	}
}

func (r *ranks) of(v uint64) uint64 {
	if v == 0 {
		return 0
	}
	i, _ := slices.BinarySearch(r.was[:r.n], v)
	return r.is[i]
}
