package machine

import "time"

// raceState spreads the tries for a key that changes hands often, as the stations on a shared channel spread theirs. A
// candidate whose tries are refused leaves a free key to others for a random part of a span. The span grows with each refusal
// in a row, and what is left of the wait is kept from one release to the next: so those that have waited longest try first.
//
// left is 0 before the second refusal in a row.
type raceState struct {
	lost uint8  // tries in a row that were refused
	trip uint32 // the shortest time that one has taken so far, in us
	left uint32 // of the wait, in us from when the key was seen to be free
}

const (
	// raceTrips is by how many round trips the span grows with each refusal but the first: two or three candidates
	// hand over without a wait.
	raceTrips = 4
	// raceRefusals is after how many refusals the span grows no more.
	raceRefusals = 4
)

// lose records a try that was refused after so long, for a key that was seen to be free for so long. The candidate waits no
// longer than most, and than longPause, from now on.
func (r *raceState) lose(took, free, most time.Duration, jitter uint32) {
	if trip := micros(took); r.trip == 0 || trip < r.trip {
		r.trip = trip
	}
	span := min(uint64(r.trip)*raceTrips*uint64(r.lost), uint64(micros(min(most, longPause))))
	r.left = 0
	if span > 0 {
		r.left = micros(free) + uint32(span*uint64(jitter)>>32)
	}
	r.lost = min(r.lost+1, raceRefusals)
}

// waited records that the key was free for so long.
func (r *raceState) waited(d time.Duration) { r.left -= min(r.left, micros(d)) }

// micros returns how many microseconds a duration has, of half an hour at most. The clock may have been set back meanwhile.
func micros(d time.Duration) uint32 { return uint32(max(0, min(d, 30*time.Minute)) / time.Microsecond) }

// over forgets the refusals: the candidate has won, or the holder keeps the key.
func (r *raceState) over() { r.lost, r.left = 0, 0 }

// wait returns how long the candidate leaves a free key to others.
func (r *raceState) wait() time.Duration { return time.Duration(r.left) * time.Microsecond }
