package main

import (
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/slots"
)

// markAhead is by how much a mark may be ahead of the server's time, and a slot late: the tolerance of package schedule.
const markAhead = 10 * time.Second

// judgeSchedules returns findings about elections that publish the marks of package schedule: one in the future, and a slot
// that its leader should have begun a lease ago.
func judgeSchedules(all []electionStatus, now time.Time) (found []finding) {
	var ahead, late []string
	for _, x := range all {
		m, ok := slots.ParseMark(string(x.holder.Value))
		at := func(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339) }
		switch next := time.Unix(0, m.Next); {
		case !ok:
		case m.At > now.Add(markAhead).UnixNano():
			ahead = append(ahead, fmt.Sprintf("%s (%s)", x.election, at(m.At)))
		case m.Next != slots.None && x.at(now) == stateLeading && now.Sub(next) > markAhead+x.holder.Lease:
			late = append(late, fmt.Sprintf("%s (%s)", x.election, at(m.Next)))
		}
	}
	if len(ahead) > 0 {
		found = append(found, severityWarning.of("the last slot of these schedules is in the future: %s", some(ahead)).
			advise("set the clocks of the servers and of the replicas; the next leader goes on from now, and works these slots again at their time"))
	}
	if len(late) > 0 {
		found = append(found, severityWarning.of("the leader has not begun the slot that is due in these schedules: %s", some(late)).
			advise("its work takes longer than to the next slot, or hangs: set Config.StallTimeout; see its log"))
	}
	return found
}
