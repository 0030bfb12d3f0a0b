package record

import (
	"slices"
	"sync"

	"github.com/natsleader/natsleader/internal/backend"
)

// View collects the announcements of a roster for its reader.
type View struct {
	priority int    // of the reader: candidates above it may preempt it, and their announcements prove that they live
	changed  func() // called once after a change, until the view is read; never blocks

	mu       sync.Mutex
	stands   map[string]Announcement // by session
	complete bool
	rung     bool
	err      error // why it has ended
}

// NewView returns an empty view.
func NewView(priority int, changed func()) *View {
	return &View{priority: priority, changed: changed, stands: make(map[string]Announcement)}
}

// Take handles an announcement.
func (v *View) Take(a backend.Announcement) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was, stood := v.stands[a.Session]
	news := false
	switch s, stands := DecodeAnnouncement(a); {
	case a.Err != nil:
		v.err, news = a.Err, true
	case a.Complete:
		v.complete, news = true, true
	case !stands:
		delete(v.stands, a.Session)
		news = stood
	case !stood || was.Revision < s.Revision:
		v.stands[a.Session] = s
		was.Revision = s.Revision
		news = was != s || s.Preempt && s.Priority > v.priority
	}
	if news && (v.complete || v.err != nil) && !v.rung {
		v.rung = true
		v.changed()
	}
}

// Order returns the waiting candidates in order, without those that hold a key, and
// whether the view is complete; or the reason why the view has ended.
func (v *View) Order(holds func(session string) bool) (all []Announcement, complete bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rung = false
	if !v.complete || v.err != nil {
		return nil, false, v.err
	}
	for _, s := range v.stands {
		if !holds(s.Session) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Announcement) int { return a.Before(&b) })
	return all, true, nil
}
