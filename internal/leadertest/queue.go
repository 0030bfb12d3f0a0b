package leadertest

import (
	"container/heap"
	"sync"
	"time"
)

// schedule is a time in which a Store lives: that of a Clock, or that of the process.
type schedule interface {
	Now() time.Time
	// after runs f when d has passed. Events of the same instant run in the
	// order in which they were scheduled, one at a time.
	after(d time.Duration, f func())
	// poke is called when a context may have ended.
	poke()
	// onRest adds a function that looks for ended contexts.
	onRest(poll func())
	// settle waits until all is at rest and nothing is due.
	settle(who string)
}

// event is a function that runs at its time.
type event struct {
	at    time.Time
	seq   uint64
	run   func()
	index int // in the queue; -1: not in it
}

// queue holds events in the order of (time, sequence).
type queue struct {
	events []*event
	seq    uint64
}

func (q *queue) add(at time.Time, run func()) *event {
	q.seq++
	e := &event{at: at, seq: q.seq, run: run}
	heap.Push(q, e)
	return e
}

// remove takes out an event that has not been run.
func (q *queue) remove(e *event) {
	if e.index >= 0 {
		heap.Remove(q, e.index)
	}
}

// next returns the time of the first event.
func (q *queue) next() (time.Time, bool) {
	if len(q.events) == 0 {
		return time.Time{}, false
	}
	return q.events[0].at, true
}

// due reports whether the first event's time has come.
func (q *queue) due(now time.Time) bool {
	at, ok := q.next()
	return ok && !at.After(now)
}

func (q *queue) take() *event { return heap.Pop(q).(*event) }

// Len, Less, Swap, Push and Pop are those of heap.Interface.
func (q *queue) Len() int { return len(q.events) }

func (q *queue) Less(i, j int) bool {
	a, b := q.events[i], q.events[j]
	if !a.at.Equal(b.at) {
		return a.at.Before(b.at)
	}
	return a.seq < b.seq
}

func (q *queue) Swap(i, j int) {
	q.events[i], q.events[j] = q.events[j], q.events[i]
	q.events[i].index, q.events[j].index = i, j
}

func (q *queue) Push(x any) {
	e := x.(*event)
	e.index = len(q.events)
	q.events = append(q.events, e)
}

func (q *queue) Pop() any {
	last := len(q.events) - 1
	e := q.events[last]
	q.events[last] = nil
	q.events = q.events[:last]
	e.index = -1
	return e
}

// process is the schedule of the process's own time, or of a bubble's.
type process struct {
	mu      sync.Mutex
	queue   queue
	running bool
	polls   []func()
}

// Now returns the time of the process.
func (p *process) Now() time.Time { return time.Now() }

func (p *process) after(d time.Duration, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.add(time.Now().Add(max(d, 0)), f)
	switch {
	case d > 0:
		time.AfterFunc(d, p.run)
	case !p.running:
		go p.run()
	}
}

// run runs due events, unless another goroutine does.
func (p *process) run() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running {
		return
	}
	p.running = true
	for p.queue.due(time.Now()) {
		e := p.queue.take()
		p.mu.Unlock()
		e.run()
		p.mu.Lock()
	}
	p.running = false
}

func (p *process) poke() {
	p.mu.Lock()
	polls := p.polls
	p.mu.Unlock()
	for _, poll := range polls {
		poll()
	}
}

func (p *process) onRest(poll func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polls = append(p.polls, poll)
}

func (p *process) settle(string) {}
