package jsapi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/wire"
)

// Error codes of the JetStream API that matter here, beside those in package wire (nats-server,
// server/errors.json).
const (
	CodeResourcesExceeded   = 10002
	CodeClusterNotAvailable = 10008
	CodeClusterNotLeader    = 10009
	CodeNoResources         = 10023
	CodeNoMessage           = 10037
	CodeStreamInvalidConfig = 10052
	CodeMessageTooLarge     = 10054
	CodeMirrorFixed         = 10055
	CodeStreamNotFound      = 10059
	CodeSubjectOverlap      = 10065
	CodeReplicasUnsupported = 10074
	CodeStoreFailed         = 10077
	CodeIDInProcess         = 10158
	CodeMessageTTLDisabled  = 10166
	CodeTooManyRequests     = 10167
	CodeBatchDisabled       = 10174
	CodeBatchIncomplete     = 10176
	CodeBatchDuplicate      = 10201
	CodeBatchesInflight     = 10210 // too many
)

// failure returns the reason why a request was not answered. before is the connection's
// last error from before the request was sent.
func (a *Stream) failure(subject string, before, err error) error {
	switch {
	case errors.Is(err, nats.ErrConnectionClosed) && a.Conn.IsClosed():
		return backend.ErrConnectionClosed
	case errors.Is(err, nats.ErrConnectionClosed): // also what nats.go ends flushes with when it reconnects, and requests at ForceReconnect
		return fmt.Errorf("%w: the connection was lost during a request on %s", backend.ErrUnreachable, subject)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		if denied := a.denied(subject, before); denied != nil {
			return denied
		}
		if errors.Is(err, context.Canceled) { // the candidate gave the request up; the text of err would mislead
			return fmt.Errorf("%w: no reply on %s in time", backend.ErrUnreachable, subject)
		}
		return fmt.Errorf("%w: no reply on %s: %w", backend.ErrUnreachable, subject, err)
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", backend.ErrValueTooLarge, err)
	default: // no responders, disconnected, reconnect buffer full, draining
		return fmt.Errorf("%w: %s: %w", backend.ErrUnreachable, subject, err)
	}
}

// denied returns an error if the last error of the connection is about the subject, or
// about the replies to requests. The error is in one slot that keeps its value: an error
// that was there before the request is not about it.
func (a *Stream) denied(subject string, before error) error {
	last := a.Conn.LastError()
	if !errors.Is(last, nats.ErrPermissionViolation) {
		return nil
	}
	fresh := last != before //nolint:errorlint // the same value, not the same kind
	if text := last.Error(); fresh && strings.Contains(text, `"`+subject+`"`) || a.deniesReplies(text, fresh) {
		return fmt.Errorf("%w: %w", backend.ErrPermission, last)
	}
	return nil
}

// deniesReplies reports whether the text is that of a denied subscription to the replies
// to requests. The application may subscribe to inboxes of its own; a denial of those
// proves nothing.
//
// nats.go makes one subscription for the replies to all requests of a connection
// (createNewRequestAndSend), under a name that it has chosen for the connection. The
// denial of that subscription holds, fresh or not, until the connection is
// re-established, which clears the slot. With nats.UseOldRequestStyle each request
// subscribes to an inbox of its own.
func (a *Stream) deniesReplies(text string, fresh bool) bool {
	_, subject, _ := strings.Cut(text, `Subscription to "`)
	subject, _, _ = strings.Cut(subject, `"`)
	if a.Conn.Opts.UseOldRequestStyle {
		inbox := a.Conn.NewInbox()
		at := strings.LastIndexByte(inbox, '.') + 1
		return fresh && len(subject) == len(inbox) && subject[:at] == inbox[:at] && !strings.Contains(subject[at:], ".")
	}
	inbox := a.Conn.NewRespInbox()
	return subject == inbox[:strings.LastIndexByte(inbox, '.')+1]+"*"
}

// refusal returns the meaning of an error of the JetStream API.
func (a *Stream) refusal(err *jetstream.APIError) error {
	switch int(err.ErrorCode) {
	case wire.CodeWrongLastSequence: // 10071
		return wrongSequence(err.Description)
	case wire.CodeWrongLastConstant: // 10164
		return &backend.RefusedError{}
	case CodeStreamNotFound:
		return fmt.Errorf("%w: %w", backend.ErrNoBucket, err)
	case CodeMessageTooLarge:
		return fmt.Errorf("%w: %w", backend.ErrValueTooLarge, err)
	case CodeClusterNotAvailable, CodeClusterNotLeader:
		return fmt.Errorf("%w: %w", backend.ErrUnreachable, err)
	default:
		return fmt.Errorf("leader: stream %s: %w", a.Name, err)
	}
}

// wrongSequence decodes "wrong last sequence: 12" (nats-server, errors.json).
func wrongSequence(description string) *backend.RefusedError {
	_, digits, ok := strings.Cut(description, ": ")
	if !ok {
		return &backend.RefusedError{}
	}
	actual, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 64)
	if err != nil {
		return &backend.RefusedError{}
	}
	return &backend.RefusedError{Actual: actual, Named: true}
}
