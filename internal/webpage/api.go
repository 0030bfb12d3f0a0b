package webpage

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// stream sends messages of one kind until the browser or the program goes away, or next
// reports that there are no more.
func (p *Page) stream(w http.ResponseWriter, r *http.Request, begin func(ctx context.Context) (next func() (message any, more bool))) {
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	defer context.AfterFunc(p.ctx, stop)()
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // of nginx
	next := begin(ctx)
	for {
		message, more := next()
		if !more || ctx.Err() != nil {
			return
		}
		data, err := json.Marshal(message)
		if err != nil {
			return
		}
		if out.SetWriteDeadline(time.Now().Add(10*time.Second)) != nil {
			return
		}
		if _, err = fmt.Fprintf(w, "data: %s\n\n", data); err != nil || out.Flush() != nil {
			return
		}
	}
}

// Pulse is the longest time between two messages of a feed. A page that hears nothing for longer
// says so.
const Pulse = 2 * time.Second

// serveElections sends what has changed, to begin with everything.
func (p *Page) serveElections(w http.ResponseWriter, r *http.Request) {
	reader := p.state.subscribe()
	if reader == nil {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer p.state.unsubscribe(reader)
	p.stream(w, r, func(ctx context.Context) func() (any, bool) {
		return func() (any, bool) {
			select {
			case <-reader.news:
			case <-time.After(Pulse):
			case <-ctx.Done():
				return nil, false
			}
			return p.state.take(reader), true
		}
	})
}

func (p *Page) servePanel(w http.ResponseWriter, r *http.Request) { p.stream(w, r, p.Feed) }

// stored is the record of an election as it is stored.
type stored struct {
	Revision uint64 `json:"revision,string"`
	Written  int64  `json:"written"`
	Text     string `json:"text"`
	Base64   bool   `json:"base64"`
}

func (p *Page) serveRecord(w http.ResponseWriter, r *http.Request) {
	row, record, ok := p.state.record(r.FormValue("election"))
	if !ok {
		http.Error(w, "no such election", http.StatusNotFound)
		return
	}
	its := stored{Revision: row.Revision, Written: row.Written}
	its.Text, its.Base64 = text(record)
	its.Text = cut(its.Text, mostRecord)
	answer(w, http.StatusOK, its)
}

// candidate is a candidate in the roster.
type candidate struct {
	ID       string `json:"id"`
	Priority int    `json:"priority"`
	Preempt  bool   `json:"preempt"`
	Since    int64  `json:"since"`
	Value    string `json:"value,omitempty"`
}

// roster is the roster in its order.
type roster struct {
	Kept       bool        `json:"kept"` // the bucket keeps one
	Error      string      `json:"error,omitempty"`
	Candidates []candidate `json:"candidates"`
}

// serveRoster sends the roster of an election whenever it has changed.
func (p *Page) serveRoster(w http.ResponseWriter, r *http.Request) {
	select {
	case p.observed <- struct{}{}:
		defer func() { <-p.observed }()
	default:
		http.Error(w, "too many rosters are open", http.StatusServiceUnavailable)
		return
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	defer context.AfterFunc(p.ctx, stop)()
	rosters, err := p.Roster(ctx, r.FormValue("election"))
	var known *Error
	if errors.As(err, &known) {
		http.Error(w, known.Text, known.Status)
		return
	}
	p.stream(w, r, func(context.Context) func() (any, bool) {
		return func() (any, bool) {
			if err != nil {
				is := roster{Kept: !errors.Is(err, leader.ErrNoRoster), Error: err.Error(), Candidates: []candidate{}}
				rosters, err = nil, nil // a bucket without a roster stays so, and the page does not ask again
				if is.Kept {
					over := make(chan []leader.RosterEntry)
					close(over) // the page asks again
					rosters = over
				}
				return is, true
			}
			select {
			case all, open := <-rosters:
				is := roster{Kept: true, Candidates: make([]candidate, len(all))}
				for i, c := range all {
					is.Candidates[i] = candidate{ID: cut(c.ID, mostID), Priority: c.Priority, Preempt: c.Preempt, Since: Milliseconds(c.Since)}
					value, _ := text(c.Value)
					is.Candidates[i].Value = cut(value, mostValue)
				}
				return is, open
			case <-ctx.Done():
				return nil, false
			}
		}
	})
}

// Action answers a request of the page, which has at most 4 KiB. The page shows the text of its
// error, with the status 409 unless it is an [Error].
type Action func(ctx context.Context, request json.RawMessage) (answer any, err error)

// Error is an error with a status of HTTP.
type Error struct {
	Status int
	Text   string
}

func (e *Error) Error() string { return e.Text }

// act answers requests that change something. They carry the secret, if there is one.
func (p *Page) act(do Action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		fail := func(status int, text string) { answer(w, status, map[string]string{"error": text}) }
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Natsleader-Secret")), []byte(p.Secret)) != 1 {
			fail(http.StatusForbidden, "open the link that "+p.Program+" printed when it was started last")
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<10))
		if err != nil {
			fail(http.StatusBadRequest, err.Error())
			return
		}
		done, err := do(r.Context(), body)
		var known *Error
		switch {
		case errors.As(err, &known):
			fail(known.Status, known.Text)
		case err != nil:
			fail(http.StatusConflict, err.Error())
		default:
			answer(w, http.StatusOK, done)
		}
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the browser has gone
}
