package leader

import "testing"

// Work is awaited from the first loop on, and a candidate that has left its last loop is idle.
func TestWorkState_LoopsComeAndGo(t *testing.T) {
	var w workState
	w.begin(false)
	if w.leave(); w != (workState{}) {
		t.Errorf("an application without loops: %+v", w)
	}
	if w.take(true); w != (workState{loops: true, going: true}) {
		t.Errorf("a loop that finds a leader: %+v", w)
	}
	if w.leave(); w != (workState{loops: true, idle: true, going: true}) || w.broken() != "" {
		t.Errorf("after the loop: %+v, %q", w, w.broken())
	}
	w.end()
	if w.take(false); w != (workState{loops: true}) || w.broken() != "" {
		t.Errorf("the next loop: %+v, %q", w, w.broken())
	}
}

func (w *workState) broken() string {
	if w.idle && !w.loops {
		return "it is idle and never looped"
	}
	return ""
}
