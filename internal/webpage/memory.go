package webpage

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

// mostHeld is how many bytes all open pages together may hold.
const mostHeld = 96 << 20

// perPage is how many bytes an open page holds: a connection with its buffers and goroutines, and a message.
const perPage = 96 << 10

// A write to a page that waits for that long is slow, and one that waits for longer than most ends the page.
// Its browser connects again.
const (
	slowWrite = time.Second
	mostWrite = 10 * time.Second
)

// mostPart is how many bytes are written to a page at once.
const mostPart = 16 << 10

var errEnded = errors.New("the page has ended")

// memory is what the open pages hold together. One that is opened while they hold too much ends the page
// whose write has waited for longest.
type memory struct {
	mu    sync.Mutex
	held  int
	pages map[*page]bool
}

func newMemory() *memory { return &memory{pages: make(map[*page]bool)} }

// page is a request that is being answered.
type page struct {
	memory *memory
	w      http.ResponseWriter
	holds  int
	writes time.Time // since when a write waits; zero: none does
	ended  bool      // nothing can be written any more
}

// open returns a page that holds so many bytes, or answers that there is no room for it and returns nil.
// The caller closes it.
func (m *memory) open(w http.ResponseWriter, holds int) *page {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.held+holds > mostHeld {
		if !m.endSlowest() {
			http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
			return nil
		}
	}
	p := &page{memory: m, w: w, holds: holds}
	m.pages[p] = true
	m.held += holds
	return p
}

// endSlowest ends the page whose write has waited for longest, if one is slow. The caller has the lock.
func (m *memory) endSlowest() bool {
	var slowest *page
	for p := range m.pages {
		if !p.writes.IsZero() && (slowest == nil || p.writes.Before(slowest.writes)) {
			slowest = p
		}
	}
	if slowest == nil || time.Since(slowest.writes) < slowWrite {
		return false
	}
	slowest.ended = true
	_ = http.NewResponseController(slowest.w).SetWriteDeadline(time.Now()) // its write returns
	m.remove(slowest)
	return true
}

// remove forgets a page. The caller has the lock.
func (m *memory) remove(p *page) {
	if m.pages[p] {
		delete(m.pages, p)
		m.held -= p.holds
	}
}

func (p *page) close() {
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	p.memory.remove(p)
}

// Write writes parts to the browser. Each has a time limit of its own.
func (p *page) Write(data []byte) (n int, err error) {
	for part := range slices.Chunk(data, mostPart) {
		err = p.within(func() error {
			_, failed := p.w.Write(part)
			return failed
		})
		if err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// Flush writes what is left, and fails once a Write has failed.
func (p *page) Flush() error { return p.within(http.NewResponseController(p.w).Flush) }

// within lets a write to the browser wait for a bounded time.
func (p *page) within(write func() error) error {
	err := p.begin()
	if err != nil {
		return err
	}
	err = write()
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	p.writes = time.Time{}
	p.ended = p.ended || err != nil
	return err
}

func (p *page) begin() error {
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	if p.ended {
		return errEnded
	}
	p.writes = time.Now()
	return http.NewResponseController(p.w).SetWriteDeadline(p.writes.Add(mostWrite))
}
