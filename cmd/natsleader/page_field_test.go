//go:build field

package main

import (
	"io"
	"net/http"
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"
)

// pageOf reads a page of an HTTP server.
func pageOf(t *testing.T, address string) (status int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Get(address)
	if err != nil {
		return 0, err.Error() // the caller tries again, or prints it
	}
	defer response.Body.Close() //nolint:errcheck // nothing is written
	text := expect.Got(io.ReadAll(response.Body))(t)
	return response.StatusCode, string(text)
}
