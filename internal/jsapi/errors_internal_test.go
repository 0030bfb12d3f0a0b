package jsapi

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
)

func TestRefusal_NamesRevision(t *testing.T) {
	a := &Stream{Name: "KV_E"}
	for _, c := range []struct {
		code jetstream.ErrorCode
		text string
		want backend.RefusedError
	}{
		{10164, "wrong last sequence", backend.RefusedError{}},
		{10071, "wrong last sequence: 7", backend.RefusedError{Actual: 7, Named: true}},
		{10071, "wrong last sequence: 0", backend.RefusedError{Named: true}},
		{10071, "wrong last sequence", backend.RefusedError{}},
		{10071, "wrong last sequence: many", backend.RefusedError{}},
	} {
		err := a.refusal(&jetstream.APIError{ErrorCode: c.code, Description: c.text})
		if r, ok := err.(*backend.RefusedError); !ok || *r != c.want { //nolint:errorlint // the port says so
			t.Errorf("%d %q: got %#v", c.code, c.text, err)
		}
	}
}
