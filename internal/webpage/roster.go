package webpage

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/natsleader/natsleader/leader"
)

// mostRosters is how many rosters are observed at once, each with a subscription.
const mostRosters = 32

// rosters are those that pages show. All pages that show one share its observer and its messages.
type rosters struct {
	mu  sync.Mutex
	all map[string]*sharedRoster
}

// sharedRoster is the roster of an election.
type sharedRoster struct {
	pages int                // that show it
	stop  context.CancelFunc // ends its observer
	text  []byte             // the newest message
	told  int                // how many messages there were
	over  bool               // no other message follows
	news  chan struct{}      // closed when there is a message, or it is over
}

// candidate is a candidate in a roster.
type candidate struct {
	ID       string `json:"id"`
	Priority int    `json:"priority"`
	Preempt  bool   `json:"preempt"`
	Denied   bool   `json:"denied,omitempty"` // its last write of the key
	Since    int64  `json:"since"`
	Value    string `json:"value,omitempty"`
}

// standing is a message with a roster in its order.
type standing struct {
	Kept       bool        `json:"kept"` // the bucket keeps one
	Error      string      `json:"error,omitempty"`
	Candidates []candidate `json:"candidates"`
}

// serveRoster sends the roster of an election whenever it has changed.
func (p *Page) serveRoster(w http.ResponseWriter, r *http.Request) {
	election := r.FormValue("election")
	its := p.openRoster(election)
	if its == nil {
		http.Error(w, "too many rosters are open", http.StatusServiceUnavailable)
		return
	}
	defer p.closeRoster(election, its)
	p.stream(w, r, func(ctx context.Context) func() ([]byte, bool) {
		seen := 0
		return func() ([]byte, bool) {
			for {
				p.rosters.mu.Lock()
				text, told, over, news := its.text, its.told, its.over, its.news
				p.rosters.mu.Unlock()
				switch {
				case told > seen:
					seen = told
					return text, true
				case over:
					return nil, false
				}
				select {
				case <-news:
				case <-ctx.Done():
					return nil, false
				}
			}
		}
	})
}

// openRoster returns the roster of an election, which is observed from the first page on until the last
// one has closed it. It returns nil if there are too many.
func (p *Page) openRoster(election string) *sharedRoster {
	p.rosters.mu.Lock()
	defer p.rosters.mu.Unlock()
	its := p.rosters.all[election]
	if its == nil {
		if len(p.rosters.all) >= mostRosters {
			return nil
		}
		ctx, stop := context.WithCancel(p.ctx)
		its = &sharedRoster{stop: stop, news: make(chan struct{})}
		p.rosters.all[election] = its
		go p.observe(ctx, election, its)
	}
	its.pages++
	return its
}

func (p *Page) closeRoster(election string, its *sharedRoster) {
	p.rosters.mu.Lock()
	defer p.rosters.mu.Unlock()
	if its.pages--; its.pages == 0 {
		its.stop()
		p.forgetRoster(election, its)
	}
}

// forgetRoster lets the next page that shows an election observe its roster anew. The caller has the lock.
func (p *Page) forgetRoster(election string, its *sharedRoster) {
	if p.rosters.all[election] == its {
		delete(p.rosters.all, election)
	}
}

// observe hands a roster to the pages until ctx ends.
func (p *Page) observe(ctx context.Context, election string, its *sharedRoster) {
	lists, err := p.Roster(ctx, election)
	switch {
	case errors.Is(err, leader.ErrNoRoster): // it stays so, and a page does not ask again
		p.tell(its, standing{Candidates: []candidate{}, Error: err.Error()})
		<-ctx.Done()
	case err != nil: // the page asks again
		p.tell(its, standing{Kept: true, Candidates: []candidate{}, Error: err.Error()})
	default:
		for all := range lists {
			is := standing{Kept: true, Candidates: make([]candidate, len(all))}
			for i, c := range all {
				value, _ := text(c.Value)
				is.Candidates[i] = candidate{ID: cut(c.ID, mostID), Priority: c.Priority, Preempt: c.Preempt, Denied: c.Denied, Since: Milliseconds(c.Since), Value: cut(value, mostValue)}
			}
			p.tell(its, is)
		}
	}
	p.rosters.mu.Lock()
	defer p.rosters.mu.Unlock()
	its.over = true
	close(its.news)
	p.forgetRoster(election, its)
}

// tell hands a message to the pages that show a roster.
func (p *Page) tell(its *sharedRoster, is standing) {
	text, _ := inJSON(is) // it has only texts and numbers
	p.rosters.mu.Lock()
	defer p.rosters.mu.Unlock()
	its.text = text
	its.told++
	close(its.news)
	its.news = make(chan struct{})
}
