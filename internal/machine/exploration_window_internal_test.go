package machine

// The window of requests in the exploration. A candidate waits for a slot for any time, and
// its time alone is lost by that: it may be fenced, and another candidate may lead after it.

var windowScenarios = []*scenario{
	{name: "window", window: true, settings: tight, times: equal, limits: upTo(1, promised...), total: 1},
	{name: "window, leads", window: true, settings: tight, times: equal, limits: upTo(1, promised...), total: 1, from: aLeads},
	{name: "window, drain", window: true, settings: tight, times: []Durations{ticks(3, 2, 0, 2), ticks(3, 2, 2, 0)}, limits: upTo(1, promised...), total: 1},
	{name: "window, ordinary", window: true, settings: expiring, times: equal, limits: upTo(1, append(promised, purge)...), total: 1},
	{name: "window, loops", window: true, loops: true, settings: tight, times: equal, limits: upTo(1, breaking...), total: 1},
	{name: "window, gated", window: true, gated: true, settings: tight, times: equal, limits: upTo(1, promised...), total: 1},
	{name: "window, guarded", window: true, guarded: true, settings: tight, times: equal, limits: upTo(1, troubled...), total: 1},
	{
		name: "window, queue", window: true, listed: true, orders: lined, settings: tight, times: inTurn(1, short, short),
		limits: upTo(1, append(promised, transfer)...), total: 1,
	},
}

var windowEndless = []*scenario{
	{name: "window", window: true, settings: tight, times: equal, limits: upTo(unlimited, promised...)},
	{name: "window, ordinary", window: true, settings: expiring, times: []Durations{ticks(3, 2, 2, 4), ticks(3, 2, 0, 2)}, limits: upTo(unlimited, append(promised, purge)...)},
	{name: "window, guarded", window: true, guarded: true, settings: tight, times: equal, limits: upTo(unlimited, troubled...)},
}
