package webpage

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/natsleader/natsleader/internal/plain"
)

// stream sends messages in JSON until the browser or the program goes away, or next reports that there
// are no more.
func (p *Page) stream(w http.ResponseWriter, r *http.Request, begin func(ctx context.Context) (next func() (message []byte, more bool))) {
	to := p.memory.open(w, perPage)
	if to == nil {
		return
	}
	defer to.close()
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	defer context.AfterFunc(p.ctx, stop)()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // of nginx
	next := begin(ctx)
	for {
		message, more := next()
		if !more || ctx.Err() != nil {
			return
		}
		_, _ = io.WriteString(to, "data: ")
		_, _ = to.Write(message)
		_, _ = io.WriteString(to, "\n\n")
		if to.Flush() != nil { // also when a write has failed
			return
		}
	}
}

// Pulse is the longest time between two messages of a feed. A page that hears nothing for longer
// says so.
const Pulse = 2 * time.Second

// serveElections sends what has changed, to begin with everything.
func (p *Page) serveElections(w http.ResponseWriter, r *http.Request) {
	p.stream(w, r, func(ctx context.Context) func() ([]byte, bool) {
		reader := p.state.reader()
		var news <-chan struct{}
		return func() ([]byte, bool) {
			if news != nil {
				select {
				case <-news:
				case <-time.After(Pulse):
				case <-ctx.Done():
					return nil, false
				}
			}
			var m update
			m, news = p.state.take(reader)
			return inJSON(m)
		}
	})
}

// servePanel sends what the program has for the panel.
func (p *Page) servePanel(w http.ResponseWriter, r *http.Request) {
	p.stream(w, r, func(ctx context.Context) func() ([]byte, bool) {
		next := p.Feed(ctx)
		return func() ([]byte, bool) {
			message, more := next()
			if !more {
				return nil, false
			}
			return inJSON(message)
		}
	})
}

// inJSON returns a message in JSON, which is one line. Whatever the page gets but records goes through it: what others wrote is
// escaped and quoted here alone.
func inJSON(message any) ([]byte, bool) {
	data, err := json.Marshal(message)
	return plain.PageJSON(data), err == nil
}

// serveRecord sends the record of an election, in base64 if it is not UTF-8.
func (p *Page) serveRecord(w http.ResponseWriter, r *http.Request) {
	e, ok := p.state.election(r.FormValue("election"))
	if !ok {
		http.Error(w, "no such election", http.StatusNotFound)
		return
	}
	to := p.memory.open(w, perPage+len(e.record))
	if to == nil {
		return
	}
	defer to.close()
	h := w.Header()
	h.Set("Natsleader-Revision", strconv.FormatUint(e.row.Revision, 10))
	h.Set("Natsleader-Written", strconv.FormatInt(e.row.Written, 10))
	h.Set("Content-Type", "text/plain; charset=utf-8")
	shown := e.record[:min(len(e.record), mostRecord)]
	if utf8.Valid(e.record) {
		for len(shown) < len(e.record) && !utf8.RuneStart(e.record[len(shown)]) {
			shown = shown[:len(shown)-1]
		}
		_, _ = to.Write(plain.JSON(shown))
	} else {
		h.Set("Natsleader-Base64", "true")
		encoder := base64.NewEncoder(base64.StdEncoding, to)
		_, _ = encoder.Write(shown)
		_ = encoder.Close()
	}
	if len(shown) < len(e.record) {
		_, _ = io.WriteString(to, "…")
	}
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
		done, err := do(r.Context(), plain.FromPage(body))
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
	data, _ := inJSON(body)
	_, _ = w.Write(append(data, '\n')) // the browser has gone
}
