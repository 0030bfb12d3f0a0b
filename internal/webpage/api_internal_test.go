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

	"github.com/natsleader/natsleader/internal/check"
)

// An action is for this page alone, and needs the secret if there is one. Its answer is JSON, with the text
// of an error.
func TestAct_Refuses(t *testing.T) {
	for _, c := range []struct {
		what, secret string
		headers      map[string]string
		body         string
		failure      error // of the action
		want         int
		answer       string
	}{
		{what: "this page", headers: map[string]string{"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}, want: 200, answer: "7"},
		{what: "no browser", want: 200},
		{what: "a form of another site", headers: map[string]string{"Origin": "http://evil.example"}, want: 403},
		{what: "an origin that begins like this page's", headers: map[string]string{"Origin": "http://localhost.evil.example"}, want: 403},
		{what: "a secure origin that begins like this page's", headers: map[string]string{"Origin": "https://localhost1"}, want: 403},
		{what: "a page of another port", headers: map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}, want: 403},
		{what: "a name that was bound to this address", headers: map[string]string{"Host": "evil.example"}, want: 403},
		{what: "another address", headers: map[string]string{"Host": "10.0.0.1"}, want: 403},
		{what: "no secret", secret: "s", headers: map[string]string{"Origin": "http://localhost"}, want: 403, answer: `{"error":"open the link that ui printed when it was started last"}`},
		{what: "another secret", secret: "s", headers: map[string]string{"Natsleader-Secret": "t"}, want: 403},
		{what: "the secret", secret: "s", headers: map[string]string{"Natsleader-Secret": "s"}, want: 200},
		{what: "the secret in a page of another site", secret: "s", headers: map[string]string{"Natsleader-Secret": "s", "Origin": "http://evil.example"}, want: 403},
		{what: "as much as it may have", body: `"` + strings.Repeat("x", 4<<10-2) + `"`, want: 200},
		{what: "more", body: `"` + strings.Repeat("x", 4<<10-1) + `"`, want: 400, answer: `{"error":"http: request body too large"}`},
		{what: "a failure", failure: errors.New("no"), want: 409, answer: `{"error":"no"}`},
		{what: "a failure with a status", failure: fmt.Errorf("then: %w", &Error{503, "away"}), want: 503, answer: `{"error":"away"}`},
	} {
		acted, body := 0, cmp.Or(c.body, "{}")
		p, err := New(t.Context(), NewState(), Options{
			Address: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, Secret: c.secret, Program: "ui",
			Actions: map[string]Action{"do": func(context.Context, json.RawMessage) (any, error) { acted++; return 7, c.failure }},
		})
		check.OK(t, err)
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/do", strings.NewReader(body))
		for name, value := range c.headers {
			request.Header.Set(name, value)
		}
		if host := c.headers["Host"]; host != "" {
			request.Host = host
		}
		answer := httptest.NewRecorder()
		p.ServeHTTP(answer, request)
		must := 0
		if c.want == http.StatusOK || c.failure != nil {
			must = 1
		}
		if answer.Code != c.want || acted != must || c.answer != "" && answer.Body.String() != c.answer+"\n" {
			t.Errorf("%s: %d %s, acted %d times", c.what, answer.Code, answer.Body, acted)
		}
		sent := answer.Result().Header //nolint:bodyclose // a recorder's
		if c.answer != "" && sent.Get("Content-Type") != "application/json" || sent.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", c.what, sent)
		}
	}
}
