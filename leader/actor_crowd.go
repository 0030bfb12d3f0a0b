package leader

import "github.com/natsleader/natsleader/internal/backend"

// crowd is what a candidate of many has to let a crew do its steps, so that its own stack stays small.
type crowd struct {
	*backend.Crew
	step func(*actor)
	run  func() // calls step
	done chan struct{}
}

func (a *actor) join(c *backend.Crew) {
	c.Join()
	w := &crowd{Crew: c, done: make(chan struct{})}
	w.run = func() {
		w.step(a)
		w.done <- struct{}{}
	}
	a.crowd = w
}

func (w *crowd) leave() {
	if w != nil {
		w.Leave()
	}
}

// do returns when the step is done.
func (a *actor) do(step func(*actor)) {
	w := a.crowd
	if w == nil {
		step(a)
		return
	}
	w.step = step
	w.Do(w.run)
	<-w.done
}
