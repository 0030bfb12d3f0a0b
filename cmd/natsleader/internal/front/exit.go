package front

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/leader"
)

// The exit codes are those of sysexits.h, timeout(1) and shells where they have one.
// Any other failure is ExitFailed.
const (
	ExitFailed      = 1
	ExitCritical    = 2 // doctor
	ExitUsage       = 64
	ExitUnknown     = 66
	ExitUnreachable = 69
	ExitBusy        = 75 // another candidate leads
	ExitDenied      = 77
	ExitBucket      = 78
	ExitLost        = 79 // the leadership; sysexits.h ends at 78
	ExitWaited      = 124
	ExitCannotRun   = 126
	ExitNotFound    = 127
	ExitSignal      = 128 // plus the number of the signal that ended it
)

// ExitError ends the command with a code. With a nil err nothing is printed.
type ExitError struct {
	Code int
	Err  error
}

func (e ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e ExitError) Unwrap() error { return e.Err }

// Exitf returns an error with an exit code.
func Exitf(code int, format string, args ...any) error {
	return ExitError{code, fmt.Errorf(format, args...)}
}

// Usagef returns an error in the arguments or settings of the command.
func Usagef(format string, args ...any) error { return Exitf(ExitUsage, format, args...) }

// ExitIf returns err, and otherwise an exit code without a message if the condition holds.
func ExitIf(holds bool, code int, err error) error {
	if err == nil && holds {
		return ExitError{Code: code}
	}
	return err
}

// CodeOf returns the exit code for the error that a command returned.
func CodeOf(err error) int {
	if exit, ok := errors.AsType[ExitError](err); ok {
		return exit.Code
	}
	for _, x := range []struct {
		target error
		code   int
	}{
		{leader.ErrInvalidConfig, ExitUsage},
		{leader.ErrValueTooLarge, ExitUsage},
		{leader.ErrPermission, ExitDenied},
		{leader.ErrNoBucket, ExitBucket},
		{leader.ErrIncompatibleBucket, ExitBucket},
		{leader.ErrNoRoster, ExitBucket},
		{ErrUnreachable, ExitUnreachable},
		{leader.ErrUnreachable, ExitUnreachable},
		{leader.ErrConnectionClosed, ExitUnreachable},
		{nats.ErrTimeout, ExitUnreachable},
		{nats.ErrNoResponders, ExitUnreachable},
		{jetstream.ErrJetStreamNotEnabled, ExitUnreachable},
		{jetstream.ErrJetStreamNotEnabledForAccount, ExitUnreachable},
		{nats.ErrConnectionClosed, ExitUnreachable},
		{context.DeadlineExceeded, ExitUnreachable},
	} {
		if errors.Is(err, x.target) {
			return x.code
		}
	}
	if err != nil {
		return ExitFailed
	}
	return 0
}

// Explain adds to an error the advice on it, where there is any.
func (g *Globals) Explain(err error) error {
	if _, ok := errors.AsType[ExitError](err); ok {
		return err // the command has explained it
	}
	switch {
	case errors.Is(err, leader.ErrNoBucket):
		if meant, ok := strings.CutPrefix(g.Bucket, "KV_"); ok && meant != "" {
			return ExitError{CodeOf(err), fmt.Errorf("bucket %s does not exist: KV_ is the prefix of its stream; the name of the bucket may be %s", g.Bucket, meant)}
		}
		return ExitError{CodeOf(err), fmt.Errorf("bucket %s does not exist; %s", g.Bucket, neverSeen(g.Bucket))}
	case errors.Is(err, leader.ErrNoRoster):
		return ExitError{CodeOf(err), fmt.Errorf("bucket %s keeps no roster: `natsleader bucket add %s --roster` makes one", g.Bucket, g.Bucket)}
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return ExitError{CodeOf(err), errors.New("JetStream is not enabled for the account of this connection")}
	case errors.Is(err, leader.ErrUnreachable): // package leader has explained it
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return ExitError{CodeOf(err), fmt.Errorf("JetStream does not answer: is it enabled on the server and for the account? (%w)", err)}
	}
	return err
}

// CodeNoPeers is the server's code for a stream that not enough servers of the cluster can
// take.
const CodeNoPeers = 10005

// CodeNoCluster is the server's code for replicas where JetStream has no cluster, as behind a leaf node of one.
const CodeNoCluster = 10074

// CodeNoMetaLeader is the server's code for a request that needs the leader of the cluster's metadata.
const CodeNoMetaLeader = facts.CodeNoMetaLeader

// CodeOffline is the server's code for a request for a stream all of whose servers are away.
const CodeOffline = facts.CodeOffline

// RefusedWith reports whether JetStream has answered with a code.
func RefusedWith(err error, code jetstream.ErrorCode) bool {
	if old, ok := errors.AsType[*nats.APIError](err); ok { // of a KV watch
		return jetstream.ErrorCode(old.ErrorCode) == code
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == code
}

// Report prints the error of a command, if there is anything to print, and returns the
// exit code. It does not wait long for a reader.
func (g *Globals) Report(err error) int {
	if exit, ok := errors.AsType[ExitError](err); err != nil && (!ok || exit.Err != nil) {
		printed := make(chan struct{})
		go func() {
			defer close(printed)
			if g.Log != nil {
				g.Log.Failed(err)
				return
			}
			_, _ = fmt.Fprintf(g.Errs(), "natsleader: error: %s\n", ErrorText(err))
		}()
		WaitBriefly(printed)
	}
	return CodeOf(err)
}

// WaitBriefly waits for an operation that may hang, on a full pipe or a disk.
func WaitBriefly(done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

// These prefixes of the libraries' errors mean nothing to a reader of the command's
// output.
var (
	sentinelPrefix  = regexp.MustCompile(`(^|: )(?:leader|shard): `)
	apiErrorPrefix  = regexp.MustCompile(`nats: API error: code=[0-9]+ err_code=([0-9]+) description=`)
	violationPrefix = regexp.MustCompile(`nats: permissions violation: Permissions Violation for (Publish|Subscription) to `)
)

// ErrorText returns an error as one line for a person.
func ErrorText(err error) string {
	text := sentinelPrefix.ReplaceAllString(err.Error(), "$1")
	text = apiErrorPrefix.ReplaceAllString(text, "JetStream error $1: ")
	return Printable(violationPrefix.ReplaceAllString(text, "$1 to "))
}
