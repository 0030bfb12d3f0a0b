package machine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// The small machines beside the candidate's own (listener, announcer and watcher) are
// explored to the end, each in a world of its own. A world is one plain value: the machine,
// what the candidate does, and what the server has. Every world's clock shows the epoch
// after each action, and goes by whole ticks.

// smallWorld is a world W with its rules.
type smallWorld[W comparable] struct {
	start W
	// actions adds what may happen in a world.
	actions func(w W, add func(may bool, action string))
	// apply lets an action happen. It returns the broken rule, or an empty string.
	apply func(w *W, action string) (broken string)
	least int // so many worlds must be found
}

// explore visits every world, those that take fewer actions first.
func (x smallWorld[W]) explore(t *testing.T) {
	t.Helper()
	type origin struct {
		from int
		via  string
	}
	seen := map[W]int{x.start: 0}
	order, origins, edges := []W{x.start}, []origin{{-1, ""}}, 0
	for i := 0; i < len(order); i++ {
		var actions []string
		x.actions(order[i], func(may bool, action string) {
			if may {
				actions = append(actions, action)
			}
		})
		for _, action := range actions {
			w := order[i]
			edges++
			broken := x.apply(&w, action)
			if broken != "" {
				trace := []string{action}
				for at := i; origins[at].from >= 0; at = origins[at].from {
					trace = append([]string{origins[at].via}, trace...)
				}
				t.Fatalf("%s; [%s]\n%+v", broken, strings.Join(trace, ", "), w)
			}
			if _, ok := seen[w]; !ok {
				seen[w] = len(order)
				order = append(order, w)
				origins = append(origins, origin{i, action})
			}
		}
	}
	check.That(t, len(order) >= x.least, "only %d worlds were found", len(order))
	proof.Ran(len(order), "situations of the roster and the listener")
	t.Logf("%d worlds, %d actions", len(order), edges)
}

// aged returns an instant as it looks a tick later, on a clock that shows whole ticks. An instant that has passed does not go back further.
func aged(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	at = at.Add(-1).Truncate(tick)
	return Later(at, epoch)
}

// wakes returns why an instant to wake at is wrong, or an empty string.
func wakes(wake time.Time) string {
	if !wake.IsZero() && !wake.After(epoch) {
		return fmt.Sprintf("it wakes %v ago", epoch.Sub(wake))
	}
	return ""
}
