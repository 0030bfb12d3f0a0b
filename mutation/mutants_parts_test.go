package mutation_test

// partMutants break the rules of the small machines beside the candidate's own: the
// listener for step-down requests, the roster announcer and the roster watcher.
var partMutants = []mutant{
	{
		name:   "a listener opens for a candidate that does not lead",
		edits:  []string{"case l.phase == listenerShut && in.Leads && !l.denied:", "case l.phase == listenerShut && !l.denied:"},
		caught: "parts",
	},
	{
		name:   "a denied subscription is tried again on the same connection",
		edits:  []string{"if l.denied = in.Denied; !in.Open {", "if !in.Open {"},
		caught: "parts",
	},
	{
		name:   "an opening for a former leader goes on",
		edits:  []string{"		fx.Cancel = !in.Leads\n", ""},
		caught: "parts",
	},
	{
		name:   "a listener stays open after the end",
		edits:  []string{"	case l.phase == listenerOpen && !in.Leads && in.Replaced:\n		l.phase, fx.Close = listenerClosing, true\n", ""},
		caught: "parts",
	},
	{
		name:   "a listener waits for the pause for ever",
		edits:  []string{"		fx.Wake = l.at\n", ""},
		caught: "parts",
	},
	{
		name:   "a leader that was elected while an opening failed waits for the next step",
		edits:  []string{"				fx.Wake = l.at // or the next step tries again\n", ""},
		caught: "parts",
	},
	{
		name:   "a holder is announced",
		edits:  []string{"	case !h.held && in.Eligible && !now.Before(Later(h.due, in.From)):", "	case in.Eligible && !now.Before(Later(h.due, in.From)):"},
		caught: "parts",
	},
	{
		name:   "a candidate is announced before it may take a lease",
		edits:  []string{"!h.held && in.Eligible && !now.Before(Later(h.due, in.From))", "!h.held && in.Eligible && !now.Before(h.due)"},
		caught: "parts",
	},
	{
		name:   "a former holder keeps its place",
		edits:  []string{"	h.Ticket, h.Since, h.due = 0, time.Time{}, now\n", "	h.due = now\n"},
		caught: "parts",
	},
	{
		name:   "a denial is announced with the next repetition",
		edits:  []string{"h.Denied, h.due = denied, now //", "h.Denied = denied //"},
		caught: "parts",
	},
	{
		name:   "the end of a denial is announced with the next repetition",
		edits:  []string{"		return Earlier(Later(h.due, in.From), in.Denied)\n", "		return Later(h.due, in.From)\n"},
		caught: "parts",
	},
	{
		name:   "an announcement is repeated when it has lapsed",
		edits:  []string{"	h.due, h.Until = now.Add(times.Lease), now.Add(Lives*times.Lease)\n", "	h.due, h.Until = now.Add(times.Lease), now\n"},
		caught: "parts",
	},
	{
		name:   "a candidate that ends is not withdrawn",
		edits:  []string{"	case in.Leaves:\n", "	case in.Leaves && in.Held:\n"},
		caught: "parts",
	},
	{
		name:   "an announcement that is not answered is waited for",
		edits:  []string{"	if h.sending && !h.sendBy.IsZero() && !now.Before(h.sendBy) {", "	if false {"},
		caught: "parts",
	},
	{
		name:   "a view is opened twice",
		edits:  []string{"l.phase, l.openBy, fx.Open = watcherOpening, now.Add(rosterWait(in.Times)), true", "l.openBy, fx.Open = now.Add(rosterWait(in.Times)), true"},
		caught: "parts",
	},
	{
		name:   "a view is opened without the key",
		edits:  []string{"	case in.Holds && l.phase == watcherShut:\n", "	case l.phase == watcherShut:\n"},
		caught: "parts",
	},
	{
		name:   "a candidate keeps the view after another has taken the key",
		edits:  []string{"return in.Ended || in.Taken || !now.Before(l.at)", "return in.Ended || !now.Before(l.at)"},
		caught: "parts",
	},
	{
		name:   "a holder that resigns waits for its view",
		edits:  []string{"if !now.Before(l.at) || in.Urgent {", "if !now.Before(l.at) {"},
		caught: "parts",
	},
	{
		name:   "a view that failed is never opened again",
		edits:  []string{"	case in.Holds && l.phase == watcherShut, !in.Holds && l.phase == watcherOpen:\n", "	case !in.Holds && l.phase == watcherOpen:\n"},
		caught: "parts",
	},
	{
		name:   "the view of the term before is not read",
		edits:  []string{"	case in.Holds && (fx.Turned || in.Changed):\n", "	case in.Holds && in.Changed:\n"},
		caught: "parts",
	},
}
