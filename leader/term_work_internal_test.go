package leader

import "github.com/natsleader/natsleader/internal/machine"

// StopBesideGo stops a candidate. Before its goroutine has looked, a function of Go returns, which is the last, and another
// begins. The result ends that.
func StopBesideGo(c *Candidate, t *Term) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.toAll(machine.InStop)
	t.send(machine.InDrained)
	t.known.running++
	return t.returned
}
