package machine

import "testing"

// listenerWorld is a listener machine, its candidate and its server.
type listenerWorld struct {
	m        ListenerMachine
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
		start: listenerWorld{m: ListenerMachine{Pause: tick}},
		least: 40,
		actions: func(w listenerWorld, add func(may bool, action string)) {
			add(true, "time")
			add(!w.leads && !w.ended, "elected")
			add(w.leads, "lost")
			add(!w.leads && !w.ended, "replaced")
			add(!w.ended, "ended")
			add(!w.ended, "reconnected")
			add(w.pending == listenerOpening, "opened")
			add(w.pending == listenerOpening, "not opened")
			add(w.pending == listenerOpening, "refused")
			add(w.pending == listenerClosing, "closed")
		},
		apply: (*listenerWorld).apply,
	}.explore(t)
}

func (w *listenerWorld) apply(action string) string {
	in := ListenerInput{}
	answered := w.pending
	w.failed = false
	switch action {
	case "time":
		w.m.at = aged(w.m.at)
	case "elected":
		w.leads, w.replaced = true, false
		in.Kind = listenerElected
	case "lost":
		w.leads = false
	case "replaced":
		w.replaced = true
	case "ended":
		w.ended, w.leads = true, false
	case "reconnected":
		in.Kind, w.refused = listenerReconnected, false
	case "opened":
		in.Kind, in.Open, w.pending, w.open = ListenerOpened, true, listenerShut, true
	case "not opened":
		in.Kind, w.pending, w.failed = ListenerOpened, listenerShut, true
	case "refused":
		in.Kind, in.Denied, w.pending, w.refused, w.failed = ListenerOpened, true, listenerShut, true, true
	case "closed":
		in.Kind, w.pending, w.open = ListenerClosed, listenerShut, false
	}
	in.Leads, in.Replaced = w.leads, w.replaced || w.ended
	fx := w.m.Step(epoch, in)
	switch {
	case fx.Open && (w.pending != listenerShut || w.open):
		return "it opens what is open, or on its way"
	case fx.Open && !w.leads:
		return "it opens the listener of a candidate that does not lead"
	case fx.Open && w.refused:
		return "it opens again what the server has refused on this connection"
	case fx.Close && (!w.open || w.pending != listenerShut):
		return "it closes what is not open, or is being closed"
	case fx.Close && w.leads:
		return "it closes the listener of a leader"
	case fx.Cancel && answered != listenerOpening:
		return "it cancels no opening"
	case fx.Open:
		w.pending = listenerOpening
	case fx.Close:
		w.pending = listenerClosing
	}
	switch {
	case w.ended && w.open && w.pending == listenerShut:
		return "it is open after the end"
	case w.replaced && !w.leads && w.open && w.pending == listenerShut:
		return "it is open although another session's term is under way"
	case w.pending == listenerOpening && !w.leads && !fx.Cancel:
		return "it goes on opening for a candidate that does not lead"
	case w.leads && !w.open && w.pending == listenerShut && !w.refused && (!w.failed || w.m.at.After(epoch)) && fx.Wake.IsZero():
		return "it never opens for a leader"
	}
	return wakes(fx.Wake)
}
