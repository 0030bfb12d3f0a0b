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
	CodeResourcesExceeded    = 10002 // a batch on one replica: a part may be stored, the outcome is unknown
	CodeClusterNotAvailable  = 10008 // no leader at the moment: ErrUnreachable; a guarded write is tried again
	CodeClusterNotLeader     = 10009 // as before
	CodeNoResources          = 10023 // as CodeResourcesExceeded
	CodeNoMemory             = 10028 // ErrFull, as are 10002, 10023 and 10077 where no batch is sent
	CodeNoMessage            = 10037 // an empty key
	CodeNotEnabledForAccount = 10039
	CodeNoStorage            = 10047 // ErrFull
	CodeStreamInvalidConfig  = 10052 // ErrIncompatibleBucket
	CodeMessageTooLarge      = 10054 // ErrValueTooLarge
	CodeMirrorFixed          = 10055 // ErrIncompatibleBucket
	CodeStreamNotFound       = 10059 // ErrNoBucket
	CodeSubjectOverlap       = 10065 // ErrIncompatibleBucket
	CodeReplicasUnsupported  = 10074 // ErrInvalidConfig
	CodeNotEnabled           = 10076
	CodeStoreFailed          = 10077 // as CodeResourcesExceeded
	CodeStreamOffline        = 10118
	CodeIDInProcess          = 10158 // a guarded write: not now, tried again
	CodeMessageTTLDisabled   = 10166 // ErrNoRoster
	CodeTooManyRequests      = 10167 // as CodeIDInProcess
	CodeBatchDisabled        = 10174 // the stream takes no batches: writes go one by one, or fail if they need one
	CodeBatchIncomplete      = 10176 // a message of a guarded batch is missing: sent again
	CodeBatchDuplicate       = 10201 // the stream has stored a message with a Nats-Msg-Id of the batch
	CodeBatchesInflight      = 10210 // too many: as CodeIDInProcess
)

// explained is an error with a text of its own, which says once, and with advice, what the
// texts of the errors that it wraps say several times or not at all.
type explained struct {
	text string
	of   []error
}

// Error returns the text, which begins with "leader: ".
func (e *explained) Error() string { return "leader: " + e.text }

// Unwrap returns the errors.
func (e *explained) Unwrap() []error { return e.of }

// Permission returns the error of a permission that is missing. what is the rest of the text
// of nats.go: "Publish to" or "Subscription to", and the subject in quotes.
func Permission(what string, err error) error {
	return &explained{"permission denied: " + what, []error{backend.ErrPermission, err}}
}

// violation is the beginning of the server's text for a permission that is missing, as
// nats.go passes it on.
const violation = "Permissions Violation for "

// missing returns the error of a stream that does not exist.
func (a *Stream) missing(err error) error {
	what, advice := "stream "+a.Name, a.Make
	if bucket, ok := strings.CutPrefix(a.Name, "KV_"); ok {
		what = "bucket " + bucket
		if meant, prefixed := strings.CutPrefix(bucket, "KV_"); prefixed && meant != "" {
			advice = "KV_ is the prefix of its stream; the name of the bucket may be " + meant
		}
	}
	text := what + " does not exist"
	if a.Again != "" && a.Seen.Load() {
		text, advice = what+" does not exist any more", a.Again
	}
	if advice != "" {
		text += ": " + advice
	}
	return &explained{text, []error{backend.ErrNoBucket, err}}
}

// unanswered is the error of a request that may have been sent, and says nothing about what it
// was sent to.
type unanswered struct{ error }

// Unwrap returns the error.
func (u unanswered) Unwrap() error { return u.error }

// IsUnanswered reports whether an error means only that no reply has come in time.
func IsUnanswered(err error) bool {
	var u unanswered
	return errors.As(err, &u)
}

// failure returns the reason why a request was not answered. before is the connection's
// last error from before the request was sent.
func (a *Stream) failure(subject string, before, err error) error {
	switch {
	case errors.Is(err, nats.ErrConnectionClosed) && a.Conn.IsClosed():
		return backend.ErrConnectionClosed
	case errors.Is(err, nats.ErrConnectionClosed): // also what nats.go ends flushes with when it reconnects, and requests at ForceReconnect
		return unanswered{fmt.Errorf("%w: the connection was lost during a request on %s", backend.ErrUnreachable, subject)}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		if denied := a.denied(subject, before); denied != nil {
			return denied
		}
		if errors.Is(err, context.Canceled) { // the candidate gave the request up; the text of err would mislead
			return unanswered{fmt.Errorf("%w: no reply on %s in time", backend.ErrUnreachable, subject)}
		}
		return unanswered{fmt.Errorf("%w: no reply on %s: %w", backend.ErrUnreachable, subject, err)}
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", backend.ErrValueTooLarge, err)
	case errors.Is(err, nats.ErrNoResponders) && strings.HasPrefix(subject, a.Prefix+"STREAM."):
		return &explained{"JetStream does not answer on " + subject + ": it is not enabled on the server or for the account, or its domain or API prefix is wrong or out of reach", []error{backend.ErrUnreachable, err}}
	case errors.Is(err, nats.ErrDisconnected):
		return unanswered{fmt.Errorf("%w: %s: %w", backend.ErrUnreachable, subject, err)}
	default: // no responders, reconnect buffer full, draining
		return fmt.Errorf("%w: %s: %w", backend.ErrUnreachable, subject, err)
	}
}

// denied returns an error if the last error of the connection is about the subject, or
// about the replies to requests. The error is in one slot that keeps its value: an error
// that was there before the request is not about it.
func (a *Stream) denied(subject string, before error) error {
	return a.deniedBy(a.Conn.LastError(), subject, before)
}

// deniedBy is denied for a last error that was read before.
func (a *Stream) deniedBy(last error, subject string, before error) error {
	if !errors.Is(last, nats.ErrPermissionViolation) {
		return nil
	}
	fresh := last != before //nolint:errorlint // the same value, not the same kind
	if text := last.Error(); fresh && strings.Contains(text, `"`+subject+`"`) || a.deniesReplies(text, fresh) {
		_, what, ok := strings.Cut(text, violation)
		if !ok {
			what = text
		}
		return Permission(what, last)
	}
	return nil
}

// deniesReplies reports whether the text is that of a denied subscription to the replies
// to requests. The application may subscribe to inboxes of its own; a denial of those
// proves nothing.
//
// A [Connection] makes one subscription for the replies to all requests, and so does nats.go
// (createNewRequestAndSend), under a name that is chosen for the connection. The
// denial of these subscriptions holds, fresh or not, until the connection is
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
	if subject == a.conn.inbox+"*" {
		return true
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
		return a.missing(err)
	case CodeNotEnabled, CodeNotEnabledForAccount:
		where := "on the server"
		if int(err.ErrorCode) == CodeNotEnabledForAccount {
			where = "for the account of this connection"
		}
		return &explained{"JetStream is not enabled " + where, []error{backend.ErrUnreachable, err}}
	case CodeMessageTooLarge:
		return fmt.Errorf("%w: %w", backend.ErrValueTooLarge, err)
	case CodeResourcesExceeded, CodeNoResources, CodeNoMemory, CodeNoStorage, CodeStoreFailed:
		return &explained{fmt.Sprintf("there is no room for stream %s: %v: make room, or raise the limit of the account or the stream", a.Name, err), []error{backend.ErrFull, err}}
	case CodeClusterNotAvailable, CodeClusterNotLeader, CodeStreamOffline:
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
