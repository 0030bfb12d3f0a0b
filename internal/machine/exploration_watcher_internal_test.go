package machine

import "testing"

// watcherWorld is a watcher machine, its candidate and its server.
type watcherWorld struct {
	m       WatcherMachine
	holds   bool
	taken   bool
	urgent  bool
	ended   bool
	opening bool
	open    bool // there is a view
	knew    bool // the candidate held the key at the last step
}

// In every situation one view is opened at a time, for a holder alone. A holder gets one in
// the end, and another candidate keeps none.
func TestWatcherMachine_Explored(t *testing.T) {
	smallWorld[watcherWorld]{
		start: watcherWorld{},
		least: 50,
		actions: func(w watcherWorld, add func(may bool, action string)) {
			add(true, "time")
			add(true, "changed")
			add(!w.holds && !w.ended, "won")
			add(w.holds, "released")
			add(w.holds, "taken")
			add(w.holds && !w.urgent, "resigns")
			add(!w.ended, "ended")
			add(w.opening, "opened")
			add(w.opening, "not opened")
			add(w.open, "broken")
		},
		apply: (*watcherWorld).apply,
	}.explore(t)
}

func (w *watcherWorld) apply(action string) string {
	in := WatcherInput{Times: Durations{Lease: 2 * tick, RenewInterval: tick}}
	switch action {
	case "time":
		w.m.at, w.m.anew, w.m.openBy = aged(w.m.at), aged(w.m.anew), aged(w.m.openBy)
	case "changed":
		in.Changed = true
	case "won":
		w.holds, w.taken, w.urgent = true, true, false
	case "released":
		w.holds, w.taken, w.urgent = false, false, false
	case "taken":
		w.holds, w.taken, w.urgent = false, true, false
	case "resigns":
		w.urgent = true
	case "ended":
		w.ended, w.holds = true, false
	case "opened":
		in.Kind, w.opening, w.open = WatcherOpened, false, true
	case "not opened":
		in.Kind, in.Failed, w.opening = WatcherOpened, true, false
		w.urgent = false // the machine keeps the last order, as no better is known
	case "broken":
		in.Kind = WatcherBroken
	}
	in.Holds, in.Ended, in.Taken, in.Urgent = w.holds, w.ended, w.taken, w.urgent
	fx := w.m.Step(epoch, in)
	if broken := w.keep(in, fx); broken != "" || in.Kind == watcherTick {
		return broken
	}
	in.Kind, in.Failed, in.Changed = watcherTick, false, false
	return w.keep(in, w.m.Step(epoch, in)) // as the actor does after mail
}

func (w *watcherWorld) keep(in WatcherInput, fx watcherEffects) string {
	opening := w.opening
	switch {
	case fx.Open && (w.opening || w.open):
		return "it opens a second view"
	case fx.Open && !w.holds:
		return "it opens a view for a candidate that does not hold the key"
	case fx.Close && !w.open:
		return "it closes no view"
	case fx.Cancel && !opening:
		return "it cancels no opening"
	case fx.Read && !w.open:
		return "it reads no view"
	case fx.Turned != (in.Kind == watcherTick && w.knew != w.holds):
		return "it does not see that the key was won or lost"
	case fx.Open:
		w.opening = true
	case fx.Close:
		w.open = false
	case fx.Read:
		w.urgent = false // the view has reported
	}
	if in.Kind != watcherTick {
		return ""
	}
	turned := w.knew != w.holds
	w.knew = w.holds
	switch {
	case w.holds && !w.open && !w.opening && fx.Wake.IsZero():
		return "a holder never gets a view"
	case w.holds && w.urgent && !w.open && !w.opening && !fx.Close:
		return "a holder that resigns waits to open the view"
	case w.holds && w.open && fx.Wake.IsZero():
		return "a view is never opened anew"
	case !w.holds && (w.ended || w.taken) && w.open:
		return "a candidate keeps a view that it does not need"
	case !w.holds && w.open && fx.Wake.IsZero():
		return "a candidate that has released the key keeps its view"
	case !w.holds && w.opening && !fx.Cancel:
		return "a view goes on being opened for a candidate that does not hold the key"
	case w.holds && w.open && (turned || in.Changed) && !fx.Read && !fx.Close:
		return "a view is not read when it must be"
	}
	if fx.Close { // and opens the next one at once
		return ""
	}
	return wakes(fx.Wake)
}
