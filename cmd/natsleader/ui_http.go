package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/natsleader/natsleader/leader"
)

//go:embed ui
var uiFiles embed.FS

// uiPage answers the requests of browsers.
type uiPage struct {
	ctx      context.Context // of the command
	state    *uiState
	hosts    map[string]bool // names by which the page may be asked for
	anyIP    bool            // and every IP address
	actions  bool
	token    string // that requests for actions carry
	index    *template.Template
	handler  http.Handler
	observed chan struct{} // has room for each roster that is observed
}

// mostRosters is how many rosters are observed at once, each with a subscription.
const mostRosters = 32

func newUIPage(ctx context.Context, state *uiState, address net.Addr, hosts []string, actions bool) (*uiPage, error) {
	p := &uiPage{
		ctx: ctx, state: state, actions: actions, token: rand.Text(), hosts: map[string]bool{"localhost": true},
		observed: make(chan struct{}, mostRosters),
	}
	for _, h := range hosts {
		p.hosts[strings.ToLower(h)] = true
	}
	p.anyIP = !isLoopback(address)
	files, err := fs.Sub(uiFiles, "ui")
	if err != nil {
		return nil, err
	}
	if p.index, err = template.ParseFS(files, "index.html"); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.serveIndex)
	for _, name := range []string{"ui.js", "table.js", "detail.js", "ui.css", "icon.svg"} {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, name) })
	}
	mux.HandleFunc("GET /api/elections", p.serveElections)
	mux.HandleFunc("GET /api/record", p.serveRecord)
	mux.HandleFunc("GET /api/roster", p.serveRoster)
	if actions {
		mux.HandleFunc("POST /api/step-down", p.act(func(ctx context.Context, b *leader.Bucket, a uiAction) (leader.Holder, error) {
			return leader.StepDown(ctx, b, a.Election, requester("ui"))
		}))
		mux.HandleFunc("POST /api/transfer", p.act(func(ctx context.Context, b *leader.Bucket, a uiAction) (leader.Holder, error) {
			return leader.Transfer(ctx, b, a.Election, a.ID, requester("ui"))
		}))
	}
	p.handler = mux
	return p, nil
}

// ServeHTTP refuses requests that another page makes a browser send: those with a name that
// may have been bound to this address (DNS rebinding), and those with another origin.
func (p *uiPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if !p.knows(r.Host) {
		http.Error(w, fmt.Sprintf("the host %q is not known here: natsleader ui --allow-host NAME allows one", r.Host), http.StatusForbidden)
		return
	}
	if !sameOrigin(r) {
		http.Error(w, "a page of another origin may not ask for this", http.StatusForbidden)
		return
	}
	p.handler.ServeHTTP(w, r)
}

// knows reports whether the page may be asked for by the name of a host.
func (p *uiPage) knows(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if ip, err := netip.ParseAddr(name); err == nil {
		return p.anyIP || ip.IsLoopback()
	}
	return p.hosts[name]
}

// sameOrigin reports whether a request comes from this page, from the address bar, or from
// no browser. A link on another site may lead to the page itself.
func sameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin != "" && origin != "http://"+r.Host && origin != "https://"+r.Host {
		return false
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "same-origin", "none":
		return true
	default:
		return r.URL.Path == "/" && r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	}
}

func (p *uiPage) serveIndex(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	token := ""
	if p.actions {
		token = p.token
	}
	_ = p.index.Execute(w, struct{ Bucket, Token, Version string }{p.state.bucket, token, version().Version}) // the browser has gone
}

// stream sends messages of one kind until the browser or the command goes away, or next
// reports that there are no more.
func (p *uiPage) stream(w http.ResponseWriter, r *http.Request, next func(ctx context.Context) (message any, ok bool)) {
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	defer context.AfterFunc(p.ctx, stop)()
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // of nginx
	for {
		message, ok := next(ctx)
		if !ok || ctx.Err() != nil {
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

// pulse is the longest time between two messages. A page that hears nothing for longer
// says so.
const pulse = 2 * time.Second

// serveElections sends what has changed, to begin with everything.
func (p *uiPage) serveElections(w http.ResponseWriter, r *http.Request) {
	reader := p.state.subscribe()
	if reader == nil {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer p.state.unsubscribe(reader)
	p.stream(w, r, func(ctx context.Context) (any, bool) {
		select {
		case <-reader.news:
		case <-time.After(pulse):
		case <-ctx.Done():
			return nil, false
		}
		return p.state.take(reader), true
	})
}

// uiRecord is the record of an election as it is stored.
type uiRecord struct {
	Revision uint64 `json:"revision,string"`
	Written  int64  `json:"written"`
	Text     string `json:"text"`
	Base64   bool   `json:"base64"`
}

func (p *uiPage) serveRecord(w http.ResponseWriter, r *http.Request) {
	row, stored, ok := p.state.record(r.FormValue("election"))
	if !ok {
		http.Error(w, "no such election", http.StatusNotFound)
		return
	}
	rec := uiRecord{Revision: row.Revision, Written: row.Written}
	if plain, base := text(stored); base != "" {
		rec.Text, rec.Base64 = cut(base, mostRecord), true
	} else {
		rec.Text = cut(plain, mostRecord)
	}
	answerUI(w, http.StatusOK, rec)
}

// uiCandidate is a candidate in the roster.
type uiCandidate struct {
	ID       string `json:"id"`
	Priority int    `json:"priority"`
	Preempt  bool   `json:"preempt"`
	Since    int64  `json:"since"`
	Value    string `json:"value,omitempty"`
}

// uiRoster is the roster in its order.
type uiRoster struct {
	Kept       bool          `json:"kept"` // the bucket keeps one
	Error      string        `json:"error,omitempty"`
	Candidates []uiCandidate `json:"candidates"`
}

// serveRoster sends the roster of an election whenever it has changed.
func (p *uiPage) serveRoster(w http.ResponseWriter, r *http.Request) {
	select {
	case p.observed <- struct{}{}:
		defer func() { <-p.observed }()
	default:
		http.Error(w, "too many rosters are open", http.StatusServiceUnavailable)
		return
	}
	s := p.state.inspector()
	election := r.FormValue("election")
	if s == nil || checkElection(election) != nil {
		http.Error(w, "no connection, or no such election", http.StatusServiceUnavailable)
		return
	}
	var rosters <-chan []leader.RosterEntry
	var last uiRoster
	begun := false
	p.stream(w, r, func(ctx context.Context) (any, bool) {
		if !begun {
			begun = true
			var err error
			if rosters, err = leader.ObserveRoster(ctx, s.bucket, election); err != nil {
				return uiRoster{Kept: !errors.Is(err, leader.ErrNoRoster), Error: errorText(err), Candidates: []uiCandidate{}}, true
			}
		}
		select {
		case all, open := <-rosters:
			if !open {
				return nil, false
			}
			last = uiRoster{Kept: true, Candidates: make([]uiCandidate, len(all))}
			for i, c := range all {
				last.Candidates[i] = uiCandidate{ID: cut(c.ID, mostID), Priority: c.Priority, Preempt: c.Preempt, Since: milliseconds(c.Since)}
				plain, base := text(c.Value)
				last.Candidates[i].Value = cut(plain+base, mostValue)
			}
			return last, true
		case <-ctx.Done():
			return nil, false
		}
	})
}

// uiAction is a request of the page.
type uiAction struct {
	Election string `json:"election"`
	ID       string `json:"id"` // of the candidate that is to lead; empty: the next
}

// act answers a request that changes the leader. It carries the token of this process,
// which only the page has.
func (p *uiPage) act(do func(context.Context, *leader.Bucket, uiAction) (leader.Holder, error)) http.HandlerFunc {
	const wait = 25 * time.Second // less than the limit of the response
	return func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("X-Natsleader-Token")), []byte(p.token)) != 1 {
			http.Error(w, "the page is from before natsleader ui was started again: load it anew", http.StatusForbidden)
			return
		}
		var a uiAction
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&a); err != nil || checkElection(a.Election) != nil {
			http.Error(w, "no such election", http.StatusBadRequest)
			return
		}
		fail := func(status int, err error) { answerUI(w, status, map[string]string{"error": errorText(err)}) }
		s := p.state.inspector()
		if s == nil {
			fail(http.StatusServiceUnavailable, errors.New("there is no connection to NATS"))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		was, err := do(ctx, s.bucket, a)
		if err != nil {
			fail(http.StatusConflict, explainFailure(err, a.Election, was, wait, ""))
			return
		}
		done, err := handedOver(ctx, s.bucket, a.Election, was)
		if err != nil {
			fail(http.StatusConflict, err)
			return
		}
		answerUI(w, http.StatusOK, done)
	}
}

func answerUI(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the browser has gone
}
