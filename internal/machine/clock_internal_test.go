package machine

import (
	"math"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// Two clocks have gone apart if that is certain: by more than the margin, or in more than a lease by more than the margin in
// each. That is reported once, until they keep pace for a lease.
func TestComparison_Judges(t *testing.T) {
	const lease, margin = 15 * time.Second, 3 * time.Second
	type answer struct {
		server, sent, now time.Duration
		old               bool // when it was asked for says nothing
		slower            time.Duration
		news              bool
	}
	for name, answers := range map[string][]answer{
		"a jump by the margin, and by more": {{0, 0, 0, false, 0, false}, {4 * time.Second, time.Second, time.Second, false, 0, false}, {5*time.Second + 1, 2 * time.Second, 2 * time.Second, false, margin + 1, true}},
		"the other clock jumps back":        {{0, 0, 0, false, 0, false}, {-time.Second - 1, 2 * time.Second, 2 * time.Second, false, -margin - 1, true}},
		"it is uncertain by the way of the answers": {
			{0, 0, time.Second, false, 0, false},
			{6 * time.Second, time.Second, 3 * time.Second, false, 0, false},
			{6*time.Second + 1, time.Second, 3 * time.Second, false, margin + 1, true},
		},
		"a slow answer does not count":  {{0, 0, margin + 1, false, 0, false}, {time.Minute, margin + 2, margin + 2, false, 0, false}},
		"a rate, for two leases":        {{0, 0, 0, false, 0, false}, {36 * time.Second, 30 * time.Second, 30 * time.Second, false, 0, false}},
		"a rate, for two leases, great": {{0, 0, 0, false, 0, false}, {36*time.Second + 1, 30 * time.Second, 30 * time.Second, false, 2*margin + 1, true}},
		"a rate within a lease adds up": {{0, 0, 0, false, 0, false}, {12 * time.Second, 10 * time.Second, 10 * time.Second, false, 0, false}, {18*time.Second + 1, lease, lease, false, margin + 1, true}},
		"once, until it is over": {
			{0, 0, 0, false, 0, false},
			{20 * time.Second, lease, lease, false, 5 * time.Second, true},
			{40 * time.Second, 2 * lease, 2 * lease, false, 5 * time.Second, false},
			{55 * time.Second, 3 * lease, 3 * lease, false, 0, false},
			{75 * time.Second, 4 * lease, 4 * lease, false, 5 * time.Second, true},
		},
		"an old answer shows that this clock is slow, and no more": {
			{0, 0, 0, false, 0, false},
			{0, 0, time.Minute, true, 0, false},
			{time.Minute + 20*time.Second, 0, time.Minute, true, 20 * time.Second, true},
			{time.Minute + 20*time.Second, time.Minute, time.Minute, false, 20 * time.Second, false},
			{time.Minute + 35*time.Second, time.Minute + lease, time.Minute + lease, false, 0, false},
		},
		"an old answer is none to begin with": {{time.Minute, 0, 0, true, 0, false}, {0, 0, 0, false, 0, false}},
		"junk":                                {{0, 0, 0, false, 0, false}, {math.MinInt64, 0, time.Second, false, 0, false}, {time.Duration(-epoch.UnixNano()), 0, time.Second, false, 0, false}},
	} {
		var c comparison
		for n, a := range answers {
			sent := epoch.Add(a.sent)
			if a.old {
				sent = time.Time{}
			}
			slower, news := c.judge(epoch.UnixNano()+int64(a.server), sent, epoch.Add(a.now), lease, margin)
			check.That(t, slower == a.slower && news == a.news, "%s, answer %d: slower by %v, news: %v", name, n, slower, news)
		}
	}
}
