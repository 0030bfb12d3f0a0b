package machine

import (
	"slices"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

const (
	// An old process campaigns, and A holds the key.
	oldRefused = "old-campaign old-arrive old-deliver old-arrive old-deliver"
	renewed    = " tick A.wake A.arrive A.deliver"
)

// Without one of the assumptions, the exploration finds two leaders, or a deposed one
// that may write. So each assumption is needed, and the exploration can find such errors.
func TestAssumptions_AreNeeded(t *testing.T) {
	t.Parallel()
	for _, sc := range []*scenario{
		{name: "clocks deviate by more than the margin", settings: tight, skew: 1, times: equal, limits: upTo(2, freeze)},
		{name: "the store goes back", settings: tight, times: equal, limits: upTo(1, rollBack), from: aLeads},
		{
			// A has freed the key, which the store forgets. B comes to lead by the revision of that release.
			name: "a revision is used again", foresees: true, settings: tight, times: equal, limits: upTo(1, restart),
			from: aFreed + " B.mute rollback tick tick B.wake B.arrive B.deliver tick B.wake B.arrive B.deliver",
		},
		{
			name: "a lease is longer than MaxLease", settings: tight, times: []Durations{ticks(5, 4, 0, 0), ticks(3, 2, 0, 0)},
			belief: [maxParties]backend.Settings{roomy}, limits: upTo(1, remove, freeze),
			from: "tick.1 A.arrive A.deliver A.arrive A.deliver B.mute remove A.freeze",
		},
		{name: "the key of a sealed bucket is purged", settings: tight, times: equal, limits: upTo(1, purge, freeze, crash, restart), from: aLeads},
		{
			// A raises the guard again over nothing, and is late.
			name: "the guard is purged twice", guarded: true, settings: tight, times: equal, limits: upTo(1, guardPurge, freeze),
			from: aRaised + " guard-purge A.guard-write A.guard-arrive A.guard-deliver",
		},
		{
			name: "an old process is slower than its TTL allows", settings: shared, skew: -1,
			times: equal[:1], old: oldWorld{processes: 1, interval: 3, slow: 1}, limits: upTo(1, remove),
		},
		{name: "clocks beside old processes deviate as much", settings: shared, times: equal[:1], old: oldWorld{processes: 1, interval: 3}, limits: upTo(1, remove)},
		{
			name: "a candidate shares its key and is not told so", settings: shared, skew: -1,
			times: equal[:1], old: oldWorld{processes: 1, interval: 3, slow: 3, alone: true}, limits: upTo(1, freeze),
		},
		{
			name: "a lease outlives the interval of old processes", settings: shared, skew: -1, belief: [maxParties]backend.Settings{{TTL: 8 * tick}},
			times: []Durations{ticks(5, 4, 0, 0)}, old: oldWorld{processes: 1, interval: 3}, limits: upTo(1, remove, freeze),
			from: "A.arrive A.deliver A.arrive A.deliver " + oldRefused + strings.Repeat(renewed+renewed+renewed+" "+oldRefused, 2) + renewed + renewed + renewed,
		},
		{
			name: "old processes announce themselves at once", settings: shared, skew: -1,
			times: equal[:1], old: oldWorld{processes: 1, interval: 3, hasty: true}, limits: upTo(1, remove),
		},
	} {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			e := sc.explore(300_000)
			t.Log(e)
			if !strings.Contains(e.broken, "leads") && !strings.Contains(e.broken, "two leaders") && !strings.Contains(e.broken, "may write") {
				t.Fatalf("neither two leaders nor a stale write were found: %q", e.broken)
			}
			w := sc.retell(e.trace, t.Logf)
			check.Equal(t, w.broken, e.broken, "its trace ends with %q instead of %q", e.broken)
		})
	}
}

// The errors that the exploration has found are mended. The promises hold on the way, and
// afterwards a candidate leads.
func TestFoundErrors_StayFixed(t *testing.T) {
	for _, found := range []struct{ what, scenario, trace string }{
		{
			"a forged release before the first read elected", "forged",
			"A.arrive A.deliver B.forge calm A.arrive B.hear A.hear B.arrive A.deliver B.deliver B.arrive",
		},
		{
			"a release that the store lost was sought for ever", "forgetful",
			"A.resign A.arrive B.hear B.hear B.stop B.arrive rollback.1",
		},
	} {
		t.Run(found.what, func(t *testing.T) {
			i := slices.IndexFunc(scenarios, func(sc *scenario) bool { return sc.name == found.scenario })
			trace := check.Got(parseTrace(found.trace))(t)
			w := scenarios[i].retell(trace, t.Logf)
			check.Must(t, w.broken == "", "%v", w.broken)
			e := newExploration(scenarios[i])
			check.Must(t, e.recovers(w, 0), "%v", e.broken)
		})
	}
}
