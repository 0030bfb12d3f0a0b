package scaffold

import (
	"context"
	"errors"

	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/leader"
)

// Report writes the events of a candidate to the timeline until it has ended. It only looks
// on: the work is done in a loop over the candidate's terms.
func Report(tl *timeline.Timeline, name string, c *leader.Candidate) {
	for ev := range c.Events(context.Background()) {
		switch ev := ev.(type) {
		case leader.Elected:
			tl.Say(name, "elected", "token %d", ev.Term.Token())
		case leader.Fenced:
			// The context has ended, but the key is still the candidate's. Its work ends.
			tl.Say(name, "fenced", "token %d, %s", ev.Term.Token(), timeline.Reason(ev.Cause))
		case leader.Deposed:
			tl.Say(name, "deposed", "token %d, %s", ev.Term.Token(), timeline.Reason(ev.Cause))
		case leader.Faulted:
			verb := "faulted"
			if errors.Is(ev.Err, leader.ErrNotReleased) { // a zombie, which the example wants
				verb = "overdue"
			}
			tl.Say(name, verb, "%s", timeline.Reason(ev.Err))
		case leader.Pending, leader.Observed:
		}
	}
}
