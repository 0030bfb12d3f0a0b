package page

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/webpage"
)

const serveHelp = `It serves a page that shows the elections of a bucket as they change, and each group of
shards as one row that opens, or metrics for Prometheus, or both from one connection and
one feed. Without --page and --metrics it serves the page at ` + usualPage + `. It goes on
while NATS or the bucket is away, and says so. It ends with exit code 0 at SIGINT or
SIGTERM.

The page needs the permissions of watch, and for the past of elections those of history. It
is read-only without --allow-actions. With that it prints a link with a secret, which is new
at each start. A user who opens the page by that link can ask leaders to hand over. For all
other users the page is read-only.

At an address that is not on this host alone, every client that can connect sees the
elections and what their leaders publish: put a proxy with a login before it, and name its
host with --allow-host. The link works with the address of the proxy as well. The page
answers only requests for localhost, for addresses of this host and for these names, and
refuses those of pages with another origin. A browser opens six connections to one
address: open no more than four pages in one browser, two of them in view.

The metrics are those of all elections of the bucket, also of those whose candidates are
all dead, at /metrics. Of a group of shards they have the election of the assigner, and
what is wrong with the group. They need the permissions of watch, and those to read the
settings of the streams of the history and the roster, for natsleader_bucket_stream_led.
/live answers 200 also without NATS, and is for a liveness probe. /connected answers 503,
with the error, while the metrics are not up to date: they are natsleader_bucket_up 0
then, without elections. Once for each bucket is enough, and
twice does no harm.

  natsleader serve
  natsleader serve --page 127.0.0.1:9900 --allow-actions
  natsleader serve --metrics :9847`

// usualPage is where the page is if no address is given.
const usualPage = "127.0.0.1:9848"

// serve is the command that serves the page, the metrics, or both.
type serve struct {
	*front.Globals
	page, metrics string // addresses
	hosts         []string
	actions       bool
	most          int // elections that have metrics
	bounded       bool
}

// RegisterServe adds the command serve.
func RegisterServe(app *fisk.Application, g *front.Globals) {
	s := &serve{Globals: g}
	cmd := app.Command("serve", "Serve a page of elections, or metrics").HelpLong(serveHelp)
	cmd.Flag("page", "Address to serve the page on (default: "+usualPage+")").PlaceHolder("ADDRESS").StringVar(&s.page)
	cmd.Flag("metrics", "Address to serve /metrics, /live and /connected on, for example :9847").PlaceHolder("ADDRESS").StringVar(&s.metrics)
	cmd.Flag("allow-actions", "Let the page ask leaders to hand over").UnNegatableBoolVar(&s.actions)
	cmd.Flag("allow-host", "Host name by which a proxy asks for the page; may be repeated").PlaceHolder("NAME").StringsVar(&s.hosts)
	cmd.Flag("max-elections", "Elections that get metrics at most; the others are counted").Default("10000").IsSetByUser(&s.bounded).IntVar(&s.most)
	g.RegisterLog(cmd)
	cmd.Action(func(*fisk.ParseContext) error { return s.run() })
}

// run serves until SIGINT or SIGTERM.
func (s *serve) run() error {
	if s.metrics == "" {
		s.page = cmp.Or(s.page, usualPage)
	}
	if err := s.check(); err != nil {
		return err
	}
	if _, err := s.Load(); err != nil {
		return err
	}
	log := s.NewLog()
	ctx, stop := s.UntilInterrupted()
	defer stop()
	var out renderers
	var states []func(*inspect.Inspector)
	for _, x := range []struct {
		flag, address string
		serve         func(context.Context, net.Listener, *front.LineLog) (view.Renderer, func(*inspect.Inspector), error)
	}{{"page", s.page, s.servePage}, {"metrics", s.metrics, s.serveMetrics}} {
		if x.address == "" {
			continue
		}
		listener, err := s.Listen(x.flag, x.address)
		if err != nil {
			return err
		}
		defer func() { _ = listener.Close() }()
		its := log
		if len(out.all) > 0 { // one says for both what is not up to date
			its = front.NewLineLog(io.Discard, "", s.LogFormat)
		}
		of, connected, err := x.serve(ctx, listener, its)
		if err != nil {
			return err
		}
		out.all, states = append(out.all, of), append(states, connected)
	}
	return view.FollowAlways(ctx, s.Globals, out, s.metrics != "", func(look *inspect.Inspector) {
		for _, connected := range states {
			connected(look)
		}
	})
}

// check rejects what is wrong before anything is served.
func (s *serve) check() error {
	switch {
	case s.page == s.metrics:
		return front.Usagef("--page and --metrics need different addresses")
	case s.page == "" && (s.actions || len(s.hosts) > 0):
		return front.Usagef("--allow-actions and --allow-host are for the page: give --page, too")
	case s.metrics == "" && s.bounded:
		return front.Usagef("--max-elections is for the metrics: give --metrics, too")
	case s.most < 1:
		return front.Usagef("--max-elections %d is less than 1", s.most)
	}
	for flag, address := range map[string]string{"page": s.page, "metrics": s.metrics} {
		if address != "" {
			if err := front.CheckAddress(flag, address); err != nil {
				return err
			}
		}
	}
	return jsapi.CheckBucketName(s.Bucket)
}

// servePage serves the page.
func (s *serve) servePage(ctx context.Context, listener net.Listener, log *front.LineLog) (view.Renderer, func(*inspect.Inspector), error) {
	state := NewUIState(log)
	o := webpage.Options{
		Title: "Elections in bucket", Bucket: s.Bucket, Program: "natsleader serve", Version: s.Version,
		Address: listener.Addr(), Hosts: s.hosts, AllowHost: "natsleader serve --allow-host NAME allows one", Roster: state.roster, Past: state.past,
	}
	if s.actions {
		o.Actions, o.Secret = state.actions(), rand.Text()
	}
	handler, err := webpage.New(ctx, state.State, o)
	if err != nil {
		return nil, nil, err
	}
	front.ServeHTTP(listener, handler)
	address := "http://" + shownAddress(listener.Addr())
	s.Log.Say("serves the page at %s", address)
	if !webpage.IsLoopback(listener.Addr()) {
		s.Log.Warn("%s is not on this host alone: every client that can connect sees these elections and what their leaders publish", s.page)
	}
	if s.actions {
		s.Log.Say("%s is the link for users who may ask leaders to hand over", webpage.Link(address, o.Secret))
	}
	return state, state.connected, nil
}

// serveMetrics serves the metrics, and health checks.
func (s *serve) serveMetrics(_ context.Context, listener net.Listener, log *front.LineLog) (view.Renderer, func(*inspect.Inspector), error) {
	e := newElectionMetrics(s.Bucket, s.most, log)
	registry, err := front.MetricsRegistry(e)
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) { e.serve(w, r, registry) })
	mux.HandleFunc("/live", e.live)
	mux.HandleFunc("/connected", e.connected)
	front.ServeHTTP(listener, mux)
	s.Log.Say("serves metrics at http://%s", shownAddress(listener.Addr()))
	return e, func(look *inspect.Inspector) {
		if look == nil {
			e.ticked()
		}
	}, nil
}

// shownAddress returns an address that a browser on this host can open.
func shownAddress(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", fmt.Sprint(tcp.Port))
	}
	return a.String()
}

// renderers get the same from one source.
type renderers struct {
	view.OffScreen
	all []view.Renderer
}

func (r renderers) Changed(changes ...view.Change) (err error) {
	for _, each := range r.all {
		err = errors.Join(err, each.Changed(changes...))
	}
	return err
}

func (r renderers) Shown(now time.Time, of view.Viewer) (err error) {
	for _, each := range r.all {
		err = errors.Join(err, each.Shown(now, of))
	}
	return err
}

func (r renderers) NoteTrouble(err error) {
	for _, each := range r.all {
		each.NoteTrouble(err)
	}
}
