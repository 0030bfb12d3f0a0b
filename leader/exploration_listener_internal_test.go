package leader

import "testing"

// listenerWorld is a listener machine, its candidate and its server.
type listenerWorld struct {
	m        listenerMachine
	leads    bool
	replaced bool
	ended    bool
	pending  listenerPhase // listenerOpening or listenerClosing, or listenerShut for none
	open     bool          // at the server
	refused  bool          // the server has refused the subscription on this connection
	failed   bool          // the last opening has failed, and no step has followed
}

// In every situation the listener is open only for a leader or a while longer, opens and
// closes one at a time, and is closed at the end.
func TestListenerMachine_Explored(t *testing.T) {
	smallWorld[listenerWorld]{
		start: listenerWorld{m: listenerMachine{pause: tick}},
		least: 40,
		actions: func(w listenerWorld) []string {
			actions := []string{"time"}
			add := func(may bool, action string) {
				if may {
					actions = append(actions, action)
				}
			}
			add(!w.leads && !w.ended, "elected")
			add(w.leads, "lost")
			add(!w.leads && !w.ended, "replaced")
			add(!w.ended, "ended")
			add(!w.ended, "reconnected")
			add(w.pending == listenerOpening, "opened")
			add(w.pending == listenerOpening, "not opened")
			add(w.pending == listenerOpening, "refused")
			add(w.pending == listenerClosing, "closed")
			return actions
		},
		apply: (*listenerWorld).apply,
	}.explore(t)
}

func (w *listenerWorld) apply(action string) string {
	in := listenerInput{}
	answered := w.pending
	w.failed = false
	switch action {
	case "time":
		w.m.at = aged(w.m.at)
	case "elected":
		w.leads, w.replaced = true, false
		in.kind = listenerElected
	case "lost":
		w.leads = false
	case "replaced":
		w.replaced = true
	case "ended":
		w.ended, w.leads = true, false
	case "reconnected":
		in.kind, w.refused = listenerReconnected, false
	case "opened":
		in.kind, in.open, w.pending, w.open = listenerOpened, true, listenerShut, true
	case "not opened":
		in.kind, w.pending, w.failed = listenerOpened, listenerShut, true
	case "refused":
		in.kind, in.denied, w.pending, w.refused, w.failed = listenerOpened, true, listenerShut, true, true
	case "closed":
		in.kind, w.pending, w.open = listenerClosed, listenerShut, false
	}
	in.leads, in.replaced = w.leads, w.replaced || w.ended
	fx := w.m.step(epoch, in)
	switch {
	case fx.open && (w.pending != listenerShut || w.open):
		return "it opens what is open, or on its way"
	case fx.open && !w.leads:
		return "it opens the listener of a candidate that does not lead"
	case fx.open && w.refused:
		return "it opens again what the server has refused on this connection"
	case fx.close && (!w.open || w.pending != listenerShut):
		return "it closes what is not open, or is being closed"
	case fx.close && w.leads:
		return "it closes the listener of a leader"
	case fx.cancel && answered != listenerOpening:
		return "it cancels no opening"
	case fx.open:
		w.pending = listenerOpening
	case fx.close:
		w.pending = listenerClosing
	}
	switch {
	case w.ended && w.open && w.pending == listenerShut:
		return "it is open after the end"
	case w.replaced && !w.leads && w.open && w.pending == listenerShut:
		return "it is open although another session's term is under way"
	case w.pending == listenerOpening && !w.leads && !fx.cancel:
		return "it goes on opening for a candidate that does not lead"
	case w.leads && !w.open && w.pending == listenerShut && !w.refused && (!w.failed || w.m.at.After(epoch)) && fx.wake.IsZero():
		return "it never opens for a leader"
	}
	return wakes(fx.wake)
}
