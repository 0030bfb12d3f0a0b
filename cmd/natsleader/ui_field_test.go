//go:build field

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
)

// uiProcess is a natsleader ui.
type uiProcess struct {
	testing.TB
	address string // with http://
	link    string // with the secret, if there is one
	cmd     *exec.Cmd
}

func startUI(tb testing.TB, url string, args ...string) uiProcess {
	tb.Helper()
	return startUIAt(tb, url, "127.0.0.1:0", args...)
}

func startUIAt(tb testing.TB, url, at string, args ...string) uiProcess {
	tb.Helper()
	cmd := natsleader(tb, append([]string{"--server", url, "ui", "--http", at}, args...)...)
	last := "serves http://"
	if slices.Contains(args, "--allow-actions") {
		last = " is the link"
	}
	out := started(tb, cmd)
	tb.Cleanup(func() { _ = cmd.Wait() }) // the test's context has killed it, unless it was stopped
	eventually(tb, "it serves", func() bool { return strings.Contains(out.text(), last) })
	_, rest, _ := strings.Cut(out.text(), "serves ")
	address, rest, _ := strings.Cut(rest, "\n")
	link, _, _ := strings.Cut(strings.TrimPrefix(rest, "natsleader: "), " ")
	return uiProcess{tb, address, link, cmd}
}

// ask sends a request with headers, and returns the answer.
func (u uiProcess) ask(method, path, body string, headers ...string) (status int, answer string, h http.Header) {
	u.Helper()
	request, err := http.NewRequestWithContext(u.Context(), method, u.address+path, strings.NewReader(body))
	expect.OK(u, err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		} else {
			request.Header.Set(headers[i], headers[i+1])
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Do(request)
	expect.OK(u, err)
	defer response.Body.Close() //nolint:errcheck // nothing is written
	text, err := io.ReadAll(response.Body)
	expect.OK(u, err)
	return response.StatusCode, string(text), response.Header
}

// follow reads a stream of events until found returns true.
func (u uiProcess) follow(path string, found func(data []byte) bool) {
	u.Helper()
	request, err := http.NewRequestWithContext(u.Context(), http.MethodGet, u.address+path, nil)
	expect.OK(u, err)
	response, err := (&http.Client{Timeout: patience}).Do(request)
	expect.OK(u, err)
	defer response.Body.Close() //nolint:errcheck // nothing is written
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 16<<20)
	var last string
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			last = data
			if found([]byte(data)) {
				return
			}
		}
	}
	u.Fatalf("%s ended with %v after %s", path, lines.Err(), last)
}

// uiMessage is a message of the feed of elections.
type uiMessage struct {
	Now     int64
	Began   bool
	Error   string
	Rows    []webpage.Row
	Changes []webpage.Change
}

// rows follows the elections until found returns true for the rows as they are.
func (u uiProcess) rows(found func(map[string]webpage.Row, uiMessage) bool) {
	u.Helper()
	rows := make(map[string]webpage.Row)
	u.follow("/api/elections", func(data []byte) bool {
		var m uiMessage
		expect.OK(u, json.Unmarshal(data, &m))
		for _, r := range m.Rows {
			rows[r.Key] = r
		}
		return found(rows, m)
	})
}

// The page gets each election, its changes with their causes, its record and its roster, also
// after the bucket or the connection was away.
func TestUI_Elections(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	url := server.ClientURL()
	u := startUI(t, url)
	u.rows(func(_ map[string]webpage.Row, m uiMessage) bool {
		return strings.Contains(m.Error, "bucket elections does not exist") && !m.Began
	})
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true, MaxLease: 10 * time.Second})
	u.rows(func(_ map[string]webpage.Row, m uiMessage) bool { return m.Began && m.Error == "" })

	a := campaigns(t, url, "elections", "billing", leader.Config{ID: "a", Roster: true, Value: []byte("10.0.0.1")})
	second := leader.Config{ID: "b", Roster: true, Value: []byte{0xff}}
	b := stands(t, url, "billing", second)
	inLine(t, url, "billing", "b")
	var first webpage.Row
	u.rows(func(rows map[string]webpage.Row, _ uiMessage) bool {
		first = rows["billing"]
		return first.State == string(stateLeading)
	})
	if term, leads := a.Term(); !leads || first.ID != "a" || first.Token != term.Token() || first.Value != "10.0.0.1" || first.Lease != 10_000 || first.Expires < first.Written || first.Trouble != int(troubleNone) {
		t.Errorf("%+v", first)
	}
	u.follow("/api/roster?election=billing", func(data []byte) bool {
		var r struct {
			Kept       bool
			Candidates []struct{ ID, Value string }
		}
		expect.OK(t, json.Unmarshal(data, &r))
		return r.Kept && len(r.Candidates) == 1 && r.Candidates[0].ID == "b" && r.Candidates[0].Value == "/w=="
	})
	_, body, h := u.ask(http.MethodGet, "/api/record?election=billing", "")
	expect.That(t, strings.Contains(body, `"id":"a"`) && h.Get("Natsleader-Revision") != "", "%s %v", body, h)
	status, _, _ := u.ask(http.MethodGet, "/api/record?election=other", "")
	expect.That(t, status == http.StatusNotFound, "%v", status)

	// The bucket keeps one record of the key. So b stands when the page has the one that a released.
	expect.OK(t, b.Stop(t.Context()))
	begun := make(chan struct{})
	go func() {
		<-begun
		_ = a.Stop(t.Context()) // also at the end of the test
	}()
	var texts []string
	u.rows(func(rows map[string]webpage.Row, m uiMessage) bool {
		if _, known := rows["billing"]; known && begun != nil {
			close(begun)
			begun = nil
		}
		for _, c := range m.Changes {
			if texts = append(texts, c.Text); strings.HasSuffix(c.Text, "nobody leads") {
				stands(t, url, "billing", second)
			}
		}
		return rows["billing"].ID == "b" && rows["billing"].Value64
	})
	got := strings.Join(texts, "|")
	expect.That(t, strings.HasPrefix(got, "a has handed over, nobody leads|b leads with token "), "%v", got)

	_, js := connectTo(t, url)
	expect.OK(t, js.DeleteKeyValue(t.Context(), "elections"))
	u.rows(func(rows map[string]webpage.Row, m uiMessage) bool {
		for _, c := range m.Changes {
			expect.That(t, !strings.Contains(c.Text, "the key is gone"), "%+v", c)
		}
		return strings.Contains(m.Error, "bucket elections is gone; b (billing) may lead until ") && rows["billing"].Trouble == int(troubleUnknown)
	})
	server.Shutdown()
	u.rows(func(_ map[string]webpage.Row, m uiMessage) bool { return strings.Contains(m.Error, "connection") })
	err := u.cmd.Process.Signal(os.Interrupt)
	expect.That(t, err == nil, "%v", err)
	expect.Equal(t, endOf(t, u.cmd), 0, "exit code %d")
}

// When the connection was lost and has come back, the page is up to date again.
func TestUI_ConnectionComesBack(t *testing.T) {
	t.Parallel()
	port, store := testserver.FreePort(t), testserver.StoreDir(t)
	start := func() *server.Server {
		return startServer(t, func(o *server.Options) { o.Port, o.StoreDir = port, store })
	}
	first := start()
	newBucket(t, first.ClientURL(), "elections", leader.BucketConfig{MaxLease: 5 * time.Second})
	campaigns(t, first.ClientURL(), "elections", "billing", leader.Config{ID: "a"})
	u := startUI(t, first.ClientURL())
	u.rows(func(rows map[string]webpage.Row, m uiMessage) bool {
		return m.Error == "" && rows["billing"].State == string(stateLeading)
	})
	first.Shutdown()
	first.WaitForShutdown()
	u.rows(func(_ map[string]webpage.Row, m uiMessage) bool { return m.Error == "the connection was lost" })
	start()
	u.rows(func(rows map[string]webpage.Row, m uiMessage) bool {
		return m.Error == "" && rows["billing"].State == string(stateLeading)
	})
}

// The page is for this host and this origin alone, and loads nothing from elsewhere.
func TestUI_RefusesStrangers(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	campaigns(t, url, "elections", "billing", leader.Config{ID: "a"})
	u := startUI(t, url, "--allow-actions", "--allow-host", "Ops.example")
	u.rows(func(rows map[string]webpage.Row, _ uiMessage) bool { return rows["billing"].ID == "a" })
	_, port, err := net.SplitHostPort(strings.TrimPrefix(u.address, "http://"))
	expect.OK(t, err)
	for _, k := range []struct {
		what, path string
		headers    []string
		want       int
	}{
		{"the page", "/", nil, 200},
		{"by localhost", "/", []string{"Host", "localhost:" + port}, 200},
		{"by IPv6", "/", []string{"Host", "[::1]:" + port}, 200},
		{"by a proxy", "/", []string{"Host", "ops.example"}, 200},
		{"a name that was bound to this address", "/", []string{"Host", "evil.example:" + port}, 403},
		{"another address", "/", []string{"Host", "10.0.0.1:" + port}, 403},
		{"no host", "/", []string{"Host", ""}, 200}, // Go puts that of the URL
		{"another origin", "/api/record?election=billing", []string{"Origin", "http://evil.example"}, 403},
		{"another port", "/api/record?election=billing", []string{"Origin", "http://127.0.0.1:1"}, 403},
		{"a sandboxed frame", "/api/elections", []string{"Origin", "null"}, 403},
		{"this origin", "/api/record?election=billing", []string{"Origin", u.address, "Sec-Fetch-Site", "same-origin"}, 200},
		{"an image on another site", "/api/record?election=billing", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 403},
		{"a link on another site", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 200},
		{"a frame on another site", "/ui.js", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 403},
		{"another file", "/ui", nil, 404},
		{"the template", "/index.html", nil, 404},
	} {
		status, body, h := u.ask(http.MethodGet, k.path, "", k.headers...)
		expect.That(t, status == k.want, "%s: %d, want %d\n%s", k.what, status, k.want, body)
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: %q", k.what, csp)
		}
	}
	_, index, _ := u.ask(http.MethodGet, "/", "")
	for _, bad := range []string{"<script>", "style=", "onclick", "://"} {
		expect.That(t, !strings.Contains(index, bad), "the page has %s", bad)
	}
	const path, body = "/api/step-down", `{"election":"billing"}`
	for what, headers := range map[string][]string{
		"no secret":       nil,
		"another secret":  {"Natsleader-Secret", "x"},
		"part of it":      {"Natsleader-Secret", u.secret()[1:]},
		"in a cookie":     {"Cookie", "secret=" + u.secret()},
		"another origin":  {"Natsleader-Secret", u.secret(), "Origin", "http://evil.example"},
		"another program": {"Natsleader-Secret", startUI(t, url, "--allow-actions").secret()},
	} {
		status, answer, _ := u.ask(http.MethodPost, path+"?secret="+u.secret(), body, headers...)
		expect.That(t, status == http.StatusForbidden, "%s: %d %s", what, status, answer)
	}
	status, answer, _ := u.ask(http.MethodPost, path, `{"election":"a.>"}`, "Natsleader-Secret", u.secret())
	expect.That(t, status == http.StatusBadRequest, "%d %s", status, answer)
	for _, path := range []string{"/", "/ui.js", "/detail.js", "/api/record?election=billing"} {
		_, answer, h := u.ask(http.MethodGet, path, "")
		expect.That(t, !strings.Contains(answer+fmt.Sprint(h), u.secret()), "%s tells the secret", path)
	}
}

// secret returns what requests for actions carry, out of the link that was printed.
func (u uiProcess) secret() string {
	u.Helper()
	secret, found := strings.CutPrefix(u.link, u.address+"/#secret=")
	expect.Must(u, found && len(secret) >= 26, "the link is %q", u.link)
	return secret
}

// With --allow-actions the page asks leaders to hand over. Without, there is no link with a secret, and nothing
// to ask.
func TestUI_Actions(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	a := campaigns(t, url, "elections", "billing", leader.Config{ID: "a", Roster: true})
	stands(t, url, "billing", leader.Config{ID: "b", Roster: true})
	inLine(t, url, "billing", "b")
	reader, u := startUI(t, url), startUI(t, url, "--allow-actions")
	expect.Equal(t, reader.link, "", "the link is %q")
	status, _, _ := reader.ask(http.MethodPost, "/api/step-down", `{"election":"billing"}`)
	expect.That(t, status == http.StatusNotFound, "%v", status)
	act := func(path, body string) (status int, answer string) {
		t.Helper()
		var h http.Header
		eventually(t, "it is connected", func() bool {
			status, answer, h = u.ask(http.MethodPost, path, body, "Natsleader-Secret", u.secret(), "Origin", u.address)
			return status != http.StatusServiceUnavailable
		})
		expect.That(t, h.Get("Content-Type") == "application/json", "%v", h)
		return status, answer
	}
	row := func(leader string) (token string) {
		t.Helper()
		u.rows(func(rows map[string]webpage.Row, _ uiMessage) bool {
			token = strconv.FormatUint(rows["billing"].Token, 10)
			return rows["billing"].ID == leader
		})
		return token
	}
	first := row("a")
	if status, answer := act("/api/transfer", `{"election":"billing","id":"b","token":"`+first+`"}`); status != http.StatusOK || !strings.Contains(answer, `"leader":{"id":"b"`) {
		t.Errorf("%d %s", status, answer)
	}
	second := row("b")
	if status, answer := act("/api/step-down", `{"election":"billing","token":"`+first+`"}`); status != http.StatusConflict || !strings.Contains(answer, "another term leads") {
		t.Errorf("%d %s", status, answer)
	}
	inLine(t, url, "billing", "a") // it has rested, and b will have to
	if status, answer := act("/api/step-down", `{"election":"billing","token":"`+second+`"}`); status != http.StatusOK || !strings.Contains(answer, `"leader":{"id":"a"`) {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := act("/api/step-down", `{"election":"other"}`); status != http.StatusConflict || !strings.Contains(answer, "nobody leads other") {
		t.Errorf("%d %s", status, answer)
	}
	expect.That(t, a.IsLeader(), "a does not lead")
}
