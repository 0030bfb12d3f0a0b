package mutation_test

// partMutants break the rules of the small machines beside the candidate's own: the
// listener for step-down requests, the roster announcer and the roster watcher.
var partMutants = []mutant{
	{
		name:   "a listener opens for a candidate that does not lead",
		edits:  []string{"case l.phase == listenerShut && in.leads && !l.denied:", "case l.phase == listenerShut && !l.denied:"},
		caught: "parts",
	},
	{
		name:   "a denied subscription is tried again on the same connection",
		edits:  []string{"if l.denied = in.denied; !in.open {", "if !in.open {"},
		caught: "parts",
	},
	{
		name:   "an opening for a former leader goes on",
		edits:  []string{"		fx.cancel = !in.leads\n", ""},
		caught: "parts",
	},
	{
		name:   "a listener stays open after the end",
		edits:  []string{"	case l.phase == listenerOpen && !in.leads && in.replaced:\n		l.phase, fx.close = listenerClosing, true\n", ""},
		caught: "parts",
	},
	{
		name:   "a listener waits for the pause for ever",
		edits:  []string{"		fx.wake = l.at\n", ""},
		caught: "parts",
	},
	{
		name:   "a leader that was elected while an opening failed waits for the next step",
		edits:  []string{"				fx.wake = l.at // or the next step tries again\n", ""},
		caught: "parts",
	},
	{
		name:   "a holder is announced",
		edits:  []string{"	case !h.held && in.eligible && !now.Before(later(h.due, in.from)):", "	case in.eligible && !now.Before(later(h.due, in.from)):"},
		caught: "parts",
	},
	{
		name:   "a candidate is announced before it may take a lease",
		edits:  []string{"!h.held && in.eligible && !now.Before(later(h.due, in.from))", "!h.held && in.eligible && !now.Before(h.due)"},
		caught: "parts",
	},
	{
		name:   "a former holder keeps its place",
		edits:  []string{"	h.ticket, h.since, h.due = 0, time.Time{}, now\n", "	h.due = now\n"},
		caught: "parts",
	},
	{
		name:   "a denial is announced with the next repetition",
		edits:  []string{"h.denied, h.due = denied, now //", "h.denied = denied //"},
		caught: "parts",
	},
	{
		name:   "the end of a denial is announced with the next repetition",
		edits:  []string{"		return earlier(later(h.due, in.from), in.denied)\n", "		return later(h.due, in.from)\n"},
		caught: "parts",
	},
	{
		name:   "an announcement is repeated when it has lapsed",
		edits:  []string{"	h.due, h.until = now.Add(times.lease), now.Add(lives*times.lease)\n", "	h.due, h.until = now.Add(times.lease), now\n"},
		caught: "parts",
	},
	{
		name:   "a candidate that ends is not withdrawn",
		edits:  []string{"	case in.leaves:\n", "	case in.leaves && in.held:\n"},
		caught: "parts",
	},
	{
		name:   "an announcement that is not answered is waited for",
		edits:  []string{"	if h.sending && !h.sendBy.IsZero() && !now.Before(h.sendBy) {", "	if false {"},
		caught: "parts",
	},
	{
		name:   "a view is opened twice",
		edits:  []string{"l.phase, l.openBy, fx.open = watcherOpening, now.Add(rosterWait(in.times)), true", "l.openBy, fx.open = now.Add(rosterWait(in.times)), true"},
		caught: "parts",
	},
	{
		name:   "a view is opened without the key",
		edits:  []string{"	case in.holds && l.phase == watcherShut:\n", "	case l.phase == watcherShut:\n"},
		caught: "parts",
	},
	{
		name:   "a candidate keeps the view after another has taken the key",
		edits:  []string{"return in.ended || in.taken || !now.Before(l.at)", "return in.ended || !now.Before(l.at)"},
		caught: "parts",
	},
	{
		name:   "a holder that resigns waits for its view",
		edits:  []string{"if !now.Before(l.at) || in.urgent {", "if !now.Before(l.at) {"},
		caught: "parts",
	},
	{
		name:   "a view that failed is never opened again",
		edits:  []string{"	case in.holds && l.phase == watcherShut, !in.holds && l.phase == watcherOpen:\n", "	case !in.holds && l.phase == watcherOpen:\n"},
		caught: "parts",
	},
	{
		name:   "the view of the term before is not read",
		edits:  []string{"	case in.holds && (fx.turned || in.changed):\n", "	case in.holds && in.changed:\n"},
		caught: "parts",
	},
}
