//go:build field

package health_test

import (
	"io"
	"net/http/httptest"
	"testing"

	"github.com/natsleader/natsleader/health"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

func TestHEAD_HasNoBody(t *testing.T) {
	k := newKit(t)
	server := httptest.NewServer(health.Leader(k.stand("a", leader.Config{})))
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	response, err := server.Client().Head(server.URL)
	check.OK(t, err)
	defer response.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(response.Body)
	if err != nil || len(body) > 0 || response.StatusCode != 200 {
		t.Errorf("%d, %q, %v", response.StatusCode, body, err)
	}
}
