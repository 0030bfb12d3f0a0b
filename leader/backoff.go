package leader

import "time"

// backOff returns how long to wait after so many failures in a row: base, doubled with each
// further failure, up to most. The dice spread it over a quarter to either side.
func backOff(base, most time.Duration, failures int, dice uint32) time.Duration {
	d := min(base<<min(failures-1, 8), most)
	return d - d/4 + time.Duration(uint64(d/2)*uint64(dice>>16)>>16)
}
