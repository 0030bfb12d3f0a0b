// Package webpage serves a page on which elections are watched in a browser, as they change. natsleader serve
// and examples/playground use it. The caller fills a [State].
//
// Its files:
//
//	page.go    the page on which elections are watched, which natsleader serve and the playground serve: its files,
//	           and which requests it refuses
//	api.go     what the page asks for: elections as they change, records, actions
//	roster.go  rosters, which the pages that show the same election share
//	past.go    who led an election in the last hours, and how many pages read that at once
//	state.go   State: what the page shows, and how far each open page has read
//	memory.go  what all open pages together hold, and the end of those that read too slowly
package webpage

import (
	"context"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/natsleader/natsleader/roster"
)

//go:embed files
var files embed.FS

// Options are the settings of a page.
type Options struct {
	Title   string // before the name of the bucket
	Bucket  string
	Program string // that serves the page, as messages name it
	Version string
	Address net.Addr // that the page is served on
	Hosts   []string // names by which a proxy asks for the page
	// AllowHost is how the user adds a name to Hosts.
	AllowHost string
	// Roster observes the roster of an election until ctx ends. It may return ErrNoRoster of package
	// leader.
	Roster func(ctx context.Context, election string) (<-chan []roster.Entry, error)
	// Past reads who led an election, or what has changed in all, at most 20 s long; nil: there is none.
	Past func(ctx context.Context, asked Asked) (Past, error)
	// Actions are what the page may ask for, by name. Without them it is read-only.
	Actions map[string]Action
	// Secret is what a request for an action carries: see [Link]. Empty: every client that can connect may act.
	Secret string
	// Open is the election that is shown in detail when the page opens; empty: none.
	Open string
	// Panel has panel.js, tour.js and panel.css, which fill the element panel below the table; nil: there is none.
	Panel fs.FS
	// Feed sends to the panel; nil: nothing. It returns the next message, or false when there are no more.
	Feed func(ctx context.Context) (next func() (message any, more bool))
}

// Page answers the requests of browsers.
type Page struct {
	Options
	ctx     context.Context // of the program
	state   *State
	memory  *memory
	rosters rosters
	reads   chan struct{}   // has room for each read of the past that goes on
	hosts   map[string]bool // names by which the page may be asked for
	anyIP   bool            // and every IP address
	index   *template.Template
	handler http.Handler
}

// New returns a page, whose streams end with ctx.
func New(ctx context.Context, state *State, o Options) (*Page, error) {
	p := &Page{Options: o, ctx: ctx, state: state, memory: newMemory(), hosts: map[string]bool{"localhost": true}}
	p.rosters.all, p.reads = make(map[string]*sharedRoster), make(chan struct{}, mostReads)
	for _, h := range o.Hosts {
		p.hosts[strings.ToLower(h)] = true
	}
	p.anyIP = !IsLoopback(o.Address)
	own, err := fs.Sub(files, "files")
	if err != nil {
		return nil, err
	}
	if p.index, err = template.ParseFS(own, "index.html"); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.serveIndex)
	serve := func(from fs.FS, names ...string) {
		for _, name := range names {
			mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, from, name) })
		}
	}
	serve(own, "ui.js", "address.js", "table.js", "detail.js", "group.js", "head.js", "dom.js", "times.js", "feed.js", "past.js", "overview.js", "picture.js", "picture.css", "ui.css", "icon.svg")
	if o.Panel != nil {
		serve(o.Panel, "panel.js", "panel.css", "tour.js")
	}
	mux.HandleFunc("GET /api/elections", p.serveElections)
	mux.HandleFunc("GET /api/record", p.serveRecord)
	mux.HandleFunc("GET /api/roster", p.serveRoster)
	if o.Past != nil {
		mux.HandleFunc("GET /api/past", p.servePast)
	}
	if o.Feed != nil {
		mux.HandleFunc("GET /api/panel", p.servePanel)
	}
	for name, do := range o.Actions {
		mux.HandleFunc("POST /api/"+name, p.act(do))
	}
	p.handler = mux
	return p, nil
}

// Link returns the link to a page by which the page gets the secret. A browser sends this part of an address neither
// to the server, which may log it, nor to other sites. The page takes it out of the address.
func Link(address, secret string) string { return address + "/#secret=" + secret }

// IsLoopback reports whether only this host can connect to an address.
func IsLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// ServeHTTP refuses requests that another page makes a browser send: those with a name that
// may have been bound to this address (DNS rebinding), and those with another origin.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if !p.knows(r.Host) {
		http.Error(w, fmt.Sprintf("the host %q is not known here: %s", r.Host, p.AllowHost), http.StatusForbidden)
		return
	}
	if !sameOrigin(r) {
		http.Error(w, "a page of another origin may not ask for this", http.StatusForbidden)
		return
	}
	p.handler.ServeHTTP(w, r)
}

// knows reports whether the page may be asked for by the name of a host.
func (p *Page) knows(host string) bool {
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

func (p *Page) serveIndex(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	data := struct {
		Title, Bucket, Program, Version, Open string
		Names                                 string // of the actions
		NeedsSecret, HasPanel                 bool
	}{
		p.Title, p.Bucket, p.Program, p.Version, p.Open,
		strings.Join(slices.Sorted(maps.Keys(p.Actions)), " "), p.Secret != "", p.Panel != nil,
	}
	_ = p.index.Execute(w, data) // the browser has gone
}
