package webpage

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// An action is for this page alone, and needs the secret if there is one.
func TestAct_Refuses(t *testing.T) {
	for _, c := range []struct {
		what, secret string
		headers      map[string]string
		want         int
	}{
		{"this page", "", map[string]string{"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}, 200},
		{"no browser", "", nil, 200},
		{"a form of another site", "", map[string]string{"Origin": "http://evil.example"}, 403},
		{"a page of another port", "", map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}, 403},
		{"no secret", "s", map[string]string{"Origin": "http://localhost"}, 403},
		{"another secret", "s", map[string]string{"Natsleader-Secret": "t"}, 403},
		{"the secret", "s", map[string]string{"Natsleader-Secret": "s"}, 200},
		{"the secret in a page of another site", "s", map[string]string{"Natsleader-Secret": "s", "Origin": "http://evil.example"}, 403},
	} {
		acted := false
		p, err := New(t.Context(), NewState(), Options{
			Address: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, Secret: c.secret,
			Actions: map[string]Action{"do": func(context.Context, json.RawMessage) (any, error) { acted = true; return nil, nil }},
		})
		if err != nil {
			t.Fatal(err)
		}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/do", strings.NewReader("{}"))
		for name, value := range c.headers {
			request.Header.Set(name, value)
		}
		answer := httptest.NewRecorder()
		p.ServeHTTP(answer, request)
		if answer.Code != c.want || acted != (c.want == http.StatusOK) {
			t.Errorf("%s: %d %s, acted: %v", c.what, answer.Code, answer.Body, acted)
		}
	}
}
