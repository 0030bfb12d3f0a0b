package webpage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/natsleader/natsleader/internal/check"
)

// The page is for this host, the names of Hosts and this origin alone, and loads nothing from elsewhere. An action
// needs the secret if there is one. Its answer is JSON, with the text of an error.
func TestPage_Refuses(t *testing.T) {
	const evil, navigates = "Origin: http://evil.example", "Sec-Fetch-Mode: navigate"
	for _, c := range []struct {
		what    string
		get     string // the path; empty: an action
		ip      string // of the page; empty: of this host alone
		headers []string
		secret  string
		body    string // of an action
		failure error  // of the action
		want    int
		answer  string
	}{
		{what: "the page", get: "/", want: 200},
		{what: "by IPv6", get: "/", headers: []string{"Host: [::1]:80"}, want: 200},
		{what: "by IPv6 without a port", get: "/", headers: []string{"Host: [::1]"}, want: 200},
		{what: "by a proxy", get: "/", headers: []string{"Host: OPS.example:80"}, want: 200},
		{what: "by a proxy with TLS", get: "/ui.js", headers: []string{"Origin: https://localhost"}, want: 200},
		{what: "from the address bar", get: "/ui.js", headers: []string{"Sec-Fetch-Site: none", navigates}, want: 200},
		{what: "an address of a page for other hosts", get: "/", ip: "10.0.0.2", headers: []string{"Host: 10.0.0.2:80"}, want: 200},
		{what: "a name of a page for other hosts", get: "/", ip: "10.0.0.2", headers: []string{"Host: evil.example"}, want: 403},
		{what: "another origin", get: "/api/elections", headers: []string{evil}, want: 403},
		{what: "another port", get: "/api/elections", headers: []string{"Origin: http://localhost:1"}, want: 403},
		{what: "a sandboxed frame", get: "/api/elections", headers: []string{"Origin: null"}, want: 403},
		{what: "this origin", get: "/ui.js", headers: []string{"Origin: http://localhost", "Sec-Fetch-Site: same-origin"}, want: 200},
		{what: "an image on another site", get: "/ui.js", headers: []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"}, want: 403},
		{what: "a link on another site", get: "/", headers: []string{"Sec-Fetch-Site: cross-site", navigates}, want: 200},
		{what: "the page fetched by another site", get: "/", headers: []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors"}, want: 403},
		{what: "a frame on another site", get: "/ui.js", headers: []string{"Sec-Fetch-Site: cross-site", navigates}, want: 403},
		{what: "another file", get: "/ui", want: 404},
		{what: "the template", get: "/index.html", want: 404},
		{what: "a file of the panel", get: "/panel.js", want: 200, answer: "panel"},
		{what: "the past of no hours", get: "/api/past?hours=0", want: 400},
		{what: "the past of an hour", get: "/api/past?hours=1", want: 200},
		{what: "the past of a week", get: "/api/past?hours=168", want: 200},
		{what: "the past of more than a week", get: "/api/past?hours=169", want: 400},
		{what: "the past of some hours", get: "/api/past?hours=some", want: 400},
		{what: "the past since some day", get: "/api/past?hours=1&since=today", want: 400},
		{what: "a name in the address of the page", get: "/?election=%3Cscript%3E", want: 200},
		{what: "the record of no election", get: "/api/record?election=e", want: 404},

		{what: "this page", headers: []string{"Origin: http://localhost", "Sec-Fetch-Site: same-origin"}, want: 200, answer: "7"},
		{what: "no browser", want: 200},
		{what: "a name that was bound to this address", headers: []string{"Host: evil.example:80"}, want: 403},
		{what: "another address", headers: []string{"Host: 10.0.0.1:80"}, want: 403},
		{what: "a form of another site", headers: []string{evil}, want: 403},
		{what: "an origin that begins like this page's", headers: []string{"Origin: http://localhost.evil.example"}, want: 403},
		{what: "a secure origin that begins like this page's", headers: []string{"Origin: https://localhost1"}, want: 403},
		{what: "a page of another port", headers: []string{"Sec-Fetch-Site: same-site", navigates}, want: 403},
		{what: "no secret", secret: "s", headers: []string{"Origin: http://localhost"}, want: 403, answer: `{"error":"open the link that ui printed when it was started last"}`},
		{what: "another secret", secret: "s", headers: []string{"Natsleader-Secret: t"}, want: 403},
		{what: "part of the secret", secret: "st", headers: []string{"Natsleader-Secret: s"}, want: 403},
		{what: "the secret in a cookie", secret: "s", headers: []string{"Cookie: secret=s"}, want: 403},
		{what: "the secret", secret: "s", headers: []string{"Natsleader-Secret: s"}, want: 200},
		{what: "the secret in a page of another site", secret: "s", headers: []string{"Natsleader-Secret: s", evil}, want: 403},
		{what: "as much as it may have", body: `"` + strings.Repeat("x", 4<<10-2) + `"`, want: 200},
		{what: "more", body: `"` + strings.Repeat("x", 4<<10-1) + `"`, want: 400, answer: `{"error":"http: request body too large"}`},
		{what: "a failure", failure: errors.New("no"), want: 409, answer: `{"error":"no"}`},
		{what: "a failure with a status", failure: fmt.Errorf("then: %w", &Error{503, "away"}), want: 503, answer: `{"error":"away"}`},
	} {
		acted, must := 0, 0
		p, err := New(t.Context(), NewState(), Options{
			Address: &net.TCPAddr{IP: net.ParseIP(cmp.Or(c.ip, "127.0.0.1"))}, Hosts: []string{"Ops.example"}, Secret: c.secret, Program: "ui",
			Panel:   fstest.MapFS{"panel.js": {Data: []byte("panel\n")}},
			Past:    func(context.Context, Asked) (Past, error) { return Past{}, nil },
			Actions: map[string]Action{"do": func(context.Context, json.RawMessage) (any, error) { acted++; return 7, c.failure }},
		})
		check.OK(t, err)
		method, path := http.MethodPost, "/api/do"
		if c.get != "" {
			method, path = http.MethodGet, c.get
		} else if c.want == http.StatusOK || c.failure != nil {
			must = 1
		}
		request := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(cmp.Or(c.body, "{}")))
		for _, header := range c.headers {
			name, value, _ := strings.Cut(header, ": ")
			if request.Header.Set(name, value); name == "Host" {
				request.Host = value
			}
		}
		answer := httptest.NewRecorder()
		p.ServeHTTP(answer, request)
		body, sent := answer.Body.String(), answer.Result().Header //nolint:bodyclose // a recorder's
		check.That(t, answer.Code == c.want && acted == must && (c.answer == "" || body == c.answer+"\n"),
			"%s: %d %s, acted %d times", c.what, answer.Code, body, acted)
		check.That(t, c.answer == "" || c.get != "" || sent.Get("Content-Type") == "application/json", "%s: %v", c.what, sent)
		check.That(t, c.get != "/" || c.want != 200 || sent.Get("Content-Type") == "text/html; charset=utf-8", "%s: %v", c.what, sent)
		check.That(t, sent.Get("X-Content-Type-Options") == "nosniff" && sent.Get("Referrer-Policy") == "no-referrer" &&
			sent.Get("Cross-Origin-Opener-Policy") == "same-origin" && sent.Get("Cross-Origin-Resource-Policy") == "same-origin", "%s: %v", c.what, sent)
		csp := sent.Get("Content-Security-Policy")
		check.That(t, strings.Contains(csp, "default-src 'none'") && !strings.Contains(csp, "unsafe") &&
			strings.Contains(csp, "frame-ancestors 'none'") && sent.Get("Cache-Control") == "no-store", "%s: %v", c.what, sent)
		for _, bad := range []string{"<script>", "style=", "onclick", "://"} {
			check.That(t, c.get != "/" || !strings.Contains(body, bad), "%s has %s", c.what, bad)
		}
	}
}

// A page shows what cannot be seen as an escape. What it sends back, as the ID of a candidate to transfer to, is the text again.
func TestPage_ShowsEscapes(t *testing.T) {
	const id = "a\u202eb"
	got := ""
	p, err := New(t.Context(), NewState(), Options{
		Address: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)},
		Actions: map[string]Action{"do": func(_ context.Context, body json.RawMessage) (any, error) {
			check.OK(t, json.Unmarshal(body, &got))
			return got, nil
		}},
	})
	check.OK(t, err)
	answer := httptest.NewRecorder()
	p.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/do", strings.NewReader(`"a\\u202eb"`)))
	check.Equal(t, answer.Body.String(), `"a\\u202eb"`+"\n", "the page gets %q")
	check.Equal(t, got, id, "the action gets %q")
}
