package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// pipes is a listener of connections in memory, at 127.0.0.1:80.
type pipes struct {
	conns chan net.Conn
	ended context.Context
	end   context.CancelFunc
}

func newPipes() pipes {
	ctx, cancel := context.WithCancel(context.Background())
	return pipes{make(chan net.Conn), ctx, cancel}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended.Done():
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error {
	p.end()
	return nil
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours, nil
}

// An address of --http that cannot be is wrong usage. One that another process uses may become free.
func TestListen_ExitCodes(t *testing.T) {
	used := expect.Got(stdio{}.listen("http", "127.0.0.1:0"))(t)
	defer func() { _ = used.Close() }()
	for address, code := range map[string]int{used.Addr().String(): exitUnreachable, "127.0.0.1:99999": exitUsage, "192.0.2.1:1": exitUsage} {
		_, err := stdio{}.listen("http", address)
		expect.That(t, codeOf(err) == code, "%s: %v", address, err)
	}
}

// response sends a request to the command that serves. Each header is "Name: value".
func (w *world) response(method, path, body string, headers ...string) *http.Response {
	w.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: w.served.dial}}
	request, err := http.NewRequestWithContext(w.Context(), method, "http://127.0.0.1"+path, strings.NewReader(body))
	expect.OK(w.T, err)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if request.Header.Set(name, value); name == "Host" {
			request.Host = value
		}
	}
	response, err := client.Do(request)
	expect.OK(w.T, err)
	return response
}

// ask sends a request, and reads the answer.
func (w *world) ask(method, path, body string, headers ...string) (response *http.Response, text string) {
	w.Helper()
	response = w.response(method, path, body, headers...)
	defer response.Body.Close() //nolint:errcheck // nothing is written
	all, err := io.ReadAll(response.Body)
	expect.OK(w.T, err)
	return response, string(all)
}

// get reads a page of the command that serves.
func (w *world) get(path string) (status int, body string) {
	w.Helper()
	response, text := w.ask(http.MethodGet, path, "")
	return response.StatusCode, text
}

// closing is a connection that reports when it is closed.
type closing struct {
	net.Conn
	closed chan time.Time
}

func (c closing) Close() error {
	select {
	case c.closed <- time.Now():
	default: // it was closed before
	}
	return c.Conn.Close()
}

// A client that sends or reads slowly loses its connection after a bounded time, and one that sends a huge
// header at once.
func TestServeHTTP_SlowClients(t *testing.T) {
	const begin, get = "GET / HTTP/1.1\r\nHost: x\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, x := range map[string]struct {
		sends string
		reads bool
		after time.Duration
		says  string // the answer
	}{
		"sends no header":     {sends: begin, reads: true, after: 10 * time.Second},
		"sends no body":       {sends: "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", reads: true, after: 30 * time.Second},
		"reads nothing":       {sends: get, after: 30 * time.Second},
		"asks nothing more":   {sends: get, reads: true, after: 5 * time.Minute, says: "200"},
		"sends a huge header": {sends: begin + "X: " + strings.Repeat("x", 68<<10), reads: true, after: 500 * time.Millisecond, says: "431"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes()
				defer p.end()
				serveHTTP(p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = w.Write([]byte("hello"))
				}))
				ours, theirs := net.Pipe()
				closed := make(chan time.Time, 1)
				p.conns <- closing{theirs, closed}
				began := time.Now()
				var answer bytes.Buffer
				if x.reads {
					go func() { _, _ = io.Copy(&answer, ours) }()
				}
				_, _ = io.WriteString(ours, x.sends)
				got := (<-closed).Sub(began)
				synctest.Wait()
				expect.That(t, got == x.after && strings.Contains(answer.String(), x.says), "closed after %v: %s", got, &answer)
			})
		})
	}
}

// hanging is a collector that hangs until it is released.
type hanging struct {
	prometheus.Collector
	until chan struct{}
}

func (h hanging) Collect(ch chan<- prometheus.Metric) {
	<-h.until
	h.Collector.Collect(ch)
}

// Scrapes that hang are answered after 25 s, before the limit of the connection, and there are at most four.
// A page whose scrapes have ended serves again.
func TestMetricsPage_HangingScrapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hanging{prometheus.NewGauge(prometheus.GaugeOpts{Name: "x"}), make(chan struct{})}
		page := expect.Got(metricsPage(h))(t)
		began := time.Now()
		scrape := func() string {
			w := httptest.NewRecorder()
			page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
			return fmt.Sprint(w.Code, " after ", time.Since(began))
		}
		answers := make(chan string, 5)
		for range 4 {
			go func() { answers <- scrape() }()
		}
		synctest.Wait()
		go func() { answers <- scrape() }()
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		var got []string
		for len(answers) > 0 {
			got = append(got, <-answers)
		}
		want := []string{"503 after 0s", "503 after 25s", "503 after 25s", "503 after 25s", "503 after 25s"}
		expect.That(t, slices.Equal(got, want), "%q", got)
		close(h.until)
		synctest.Wait()
		expect.Equal(t, scrape(), "200 after 1m0s", "released: %s")
	})
}

// The health checks of the exporter: it is connected while its watcher has read all keys, hears of changes
// and works, and it lives while anything works. Without a connection it shows no election.
func TestExporter_Health(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElectionMetrics("elections", 9, newLineLog(io.Discard, "", logText))
		check := func(what string, live, connected bool, why string) {
			t.Helper()
			status := map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}
			const page = `%d {"bucket":"elections",`
			want := fmt.Sprintf(page+`"live":%v}`+"\n"+page+`"connected":%v%s}`+"\n",
				status[live], live, status[connected], connected, why)
			got := ""
			for _, answers := range []http.HandlerFunc{e.live, e.connected} {
				w := httptest.NewRecorder()
				answers(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
				sent := w.Result().Header //nolint:bodyclose // a recorder's
				expect.Equal(t, sent.Get("Content-Type")+" "+sent.Get("Cache-Control"), "application/json no-store", "%s")
				got += fmt.Sprintln(w.Code, strings.TrimSpace(w.Body.String()))
			}
			expect.Equal(t, got, want, what+": %s")
		}
		shown := func(w *watcher) {
			t.Helper()
			expect.OK(t, e.shown(time.Time{}, w))
		}
		up := func() *watcher { return &watcher{complete: true, feed: &aFeed{}} }
		check("at first", true, false, "")
		shown(up())
		check("up", true, true, "")
		for what, w := range map[string]*watcher{
			"not all keys": {feed: &aFeed{}}, "no feed": {complete: true}, "trouble": {complete: true, feed: &aFeed{}, troubled: true},
		} {
			shown(w)
			check(what, true, false, "")
			shown(up())
		}
		e.trouble(leader.ErrUnreachable)
		check("trouble", true, false, `,"error":"`+errorText(leader.ErrUnreachable)+`"`)
		e.trouble(nil) // the watcher reads the keys first
		check("no more trouble", true, false, "")
		e.trouble(leader.ErrUnreachable)
		shown(up())
		e.ticked()
		check("no connection", true, false, "")
		shown(up())
		time.Sleep(stuck - 1)
		check("for long", true, true, "")
		time.Sleep(time.Nanosecond)
		check("stuck", false, false, "")
		e.ticked()
		check("it works again", true, false, "")
	})
}
