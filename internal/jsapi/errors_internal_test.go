package jsapi

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

func TestRefusal_NamesRevision(t *testing.T) {
	a := &Stream{Name: "KV_E"}
	for _, c := range []struct {
		code jetstream.ErrorCode
		text string
		want backend.RefusedError
	}{
		{10164, "wrong last sequence", backend.RefusedError{}},
		{10071, "wrong last sequence: 12", backend.RefusedError{Actual: 12, Named: true}},
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

// A store that is full is an error of its own, with the server's reason and the remedy.
func TestRefusal_Full(t *testing.T) {
	for _, code := range []jetstream.ErrorCode{10002, 10023, 10028, 10047, 10077} {
		err := (&Stream{Name: "KV_E"}).refusal(&jetstream.APIError{ErrorCode: code, Description: "the reason"})
		check.Says(t, err, backend.ErrFull, "there is no room for stream KV_E: nats: API error: code=0 err_code="+fmt.Sprint(int(code))+" description=the reason: make room")
	}
}

// The error says where JetStream is not enabled.
func TestRefusal_NotEnabled(t *testing.T) {
	for code, says := range map[jetstream.ErrorCode]string{
		CodeNotEnabled:           "not enabled on the server",
		CodeNotEnabledForAccount: "not enabled for the account of this connection",
	} {
		check.Says(t, new(Stream).refusal(&jetstream.APIError{ErrorCode: code}), backend.ErrUnreachable, says)
	}
}
