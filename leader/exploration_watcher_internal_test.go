package leader

import "testing"

// watcherWorld is a watcher machine, its candidate and its server.
type watcherWorld struct {
	m       watcherMachine
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
		actions: func(w watcherWorld) []string {
			actions := []string{"time", "changed"}
			add := func(may bool, action string) {
				if may {
					actions = append(actions, action)
				}
			}
			add(!w.holds && !w.ended, "won")
			add(w.holds, "released")
			add(w.holds, "taken")
			add(w.holds && !w.urgent, "resigns")
			add(!w.ended, "ended")
			add(w.opening, "opened")
			add(w.opening, "not opened")
			add(w.open, "broken")
			return actions
		},
		apply: (*watcherWorld).apply,
	}.explore(t)
}

func (w *watcherWorld) apply(action string) string {
	in := watcherInput{times: durations{lease: 2 * tick, renewInterval: tick}}
	switch action {
	case "time":
		w.m.at, w.m.anew, w.m.openBy = aged(w.m.at), aged(w.m.anew), aged(w.m.openBy)
	case "changed":
		in.changed = true
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
		in.kind, w.opening, w.open = watcherOpened, false, true
	case "not opened":
		in.kind, in.failed, w.opening = watcherOpened, true, false
		w.urgent = false // the machine keeps the last order, as no better is known
	case "broken":
		in.kind = watcherBroken
	}
	in.holds, in.ended, in.taken, in.urgent = w.holds, w.ended, w.taken, w.urgent
	fx := w.m.step(epoch, in)
	if broken := w.keep(in, fx); broken != "" || in.kind == watcherTick {
		return broken
	}
	in.kind, in.failed, in.changed = watcherTick, false, false
	return w.keep(in, w.m.step(epoch, in)) // as the actor does after mail
}

func (w *watcherWorld) keep(in watcherInput, fx watcherEffects) string {
	opening := w.opening
	switch {
	case fx.open && (w.opening || w.open):
		return "it opens a second view"
	case fx.open && !w.holds:
		return "it opens a view for a candidate that does not hold the key"
	case fx.close && !w.open:
		return "it closes no view"
	case fx.cancel && !opening:
		return "it cancels no opening"
	case fx.read && !w.open:
		return "it reads no view"
	case fx.turned != (in.kind == watcherTick && w.knew != w.holds):
		return "it does not see that the key was won or lost"
	case fx.open:
		w.opening = true
	case fx.close:
		w.open = false
	case fx.read:
		w.urgent = false // the view has reported
	}
	if in.kind != watcherTick {
		return ""
	}
	turned := w.knew != w.holds
	w.knew = w.holds
	switch {
	case w.holds && !w.open && !w.opening && fx.wake.IsZero():
		return "a holder never gets a view"
	case w.holds && w.urgent && !w.open && !w.opening && !fx.close:
		return "a holder that resigns waits to open the view"
	case w.holds && w.open && fx.wake.IsZero():
		return "a view is never opened anew"
	case !w.holds && (w.ended || w.taken) && w.open:
		return "a candidate keeps a view that it does not need"
	case !w.holds && w.open && fx.wake.IsZero():
		return "a candidate that has released the key keeps its view"
	case !w.holds && w.opening && !fx.cancel:
		return "a view goes on being opened for a candidate that does not hold the key"
	case w.holds && w.open && (turned || in.changed) && !fx.read && !fx.close:
		return "a view is not read when it must be"
	}
	if fx.close { // and opens the next one at once
		return ""
	}
	return wakes(fx.wake)
}
