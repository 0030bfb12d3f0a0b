package main

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
// Any other failure is exitFailed.
const (
	exitFailed      = 1
	exitCritical    = 2 // doctor
	exitUsage       = 64
	exitUnknown     = 66
	exitUnreachable = 69
	exitBusy        = 75 // another candidate leads
	exitDenied      = 77
	exitBucket      = 78
	exitLost        = 79 // the leadership; sysexits.h ends at 78
	exitWaited      = 124
	exitCannotRun   = 126
	exitNotFound    = 127
	exitSignal      = 128 // plus the number of the signal that ended it
)

// exitError ends the command with a code. With a nil err nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// exitf returns an error with an exit code.
func exitf(code int, format string, args ...any) error {
	return exitError{code, fmt.Errorf(format, args...)}
}

// usagef returns an error in the arguments or settings of the command.
func usagef(format string, args ...any) error { return exitf(exitUsage, format, args...) }

// exitIf returns err, and otherwise an exit code without a message if the condition holds.
func exitIf(holds bool, code int, err error) error {
	if err == nil && holds {
		return exitError{code: code}
	}
	return err
}

// codeOf returns the exit code for the error that a command returned.
func codeOf(err error) int {
	if exit, ok := errors.AsType[exitError](err); ok {
		return exit.code
	}
	for _, x := range []struct {
		target error
		code   int
	}{
		{leader.ErrInvalidConfig, exitUsage},
		{leader.ErrValueTooLarge, exitUsage},
		{leader.ErrPermission, exitDenied},
		{leader.ErrNoBucket, exitBucket},
		{leader.ErrIncompatibleBucket, exitBucket},
		{leader.ErrNoRoster, exitBucket},
		{errUnreachable, exitUnreachable},
		{leader.ErrUnreachable, exitUnreachable},
		{leader.ErrConnectionClosed, exitUnreachable},
		{nats.ErrTimeout, exitUnreachable},
		{nats.ErrNoResponders, exitUnreachable},
		{jetstream.ErrJetStreamNotEnabled, exitUnreachable},
		{jetstream.ErrJetStreamNotEnabledForAccount, exitUnreachable},
		{nats.ErrConnectionClosed, exitUnreachable},
		{context.DeadlineExceeded, exitUnreachable},
	} {
		if errors.Is(err, x.target) {
			return x.code
		}
	}
	if err != nil {
		return exitFailed
	}
	return 0
}

// explain adds to an error the advice on it, where there is any.
func (g *globals) explain(err error) error {
	if _, ok := errors.AsType[exitError](err); ok {
		return err // the command has explained it
	}
	switch {
	case errors.Is(err, leader.ErrNoBucket):
		if meant, ok := strings.CutPrefix(g.bucket, "KV_"); ok && meant != "" {
			return exitError{codeOf(err), fmt.Errorf("bucket %s does not exist: KV_ is the prefix of its stream; the name of the bucket may be %s", g.bucket, meant)}
		}
		return exitError{codeOf(err), fmt.Errorf("bucket %s does not exist; %s", g.bucket, neverSeen(g.bucket))}
	case errors.Is(err, leader.ErrNoRoster):
		return exitError{codeOf(err), fmt.Errorf("bucket %s keeps no roster: `natsleader bucket add %s --roster` makes one", g.bucket, g.bucket)}
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return exitError{codeOf(err), errors.New("JetStream is not enabled for the account of this connection")}
	case errors.Is(err, leader.ErrUnreachable): // package leader has explained it
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return exitError{codeOf(err), fmt.Errorf("JetStream does not answer: is it enabled on the server and for the account? (%w)", err)}
	}
	return err
}

// codeNoPeers is the server's code for a stream that not enough servers of the cluster can
// take.
const codeNoPeers = 10005

// codeNoCluster is the server's code for replicas where JetStream has no cluster, as behind a leaf node of one.
const codeNoCluster = 10074

// codeNoMetaLeader is the server's code for a request that needs the leader of the cluster's metadata.
const codeNoMetaLeader = facts.CodeNoMetaLeader

// codeOffline is the server's code for a request for a stream all of whose servers are away.
const codeOffline = facts.CodeOffline

// refusedWith reports whether JetStream has answered with a code.
func refusedWith(err error, code jetstream.ErrorCode) bool {
	if old, ok := errors.AsType[*nats.APIError](err); ok { // of a KV watch
		return jetstream.ErrorCode(old.ErrorCode) == code
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == code
}

// report prints the error of a command, if there is anything to print, and returns the
// exit code. It does not wait long for a reader.
func (g *globals) report(err error) int {
	if exit, ok := errors.AsType[exitError](err); err != nil && (!ok || exit.err != nil) {
		printed := make(chan struct{})
		go func() {
			defer close(printed)
			if g.log != nil {
				g.log.failed(err)
				return
			}
			_, _ = fmt.Fprintf(g.errs(), "natsleader: error: %s\n", errorText(err))
		}()
		waitBriefly(printed)
	}
	return codeOf(err)
}

// waitBriefly waits for an operation that may hang, on a full pipe or a disk.
func waitBriefly(done <-chan struct{}) {
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

// errorText returns an error as one line for a person.
func errorText(err error) string {
	text := sentinelPrefix.ReplaceAllString(err.Error(), "$1")
	text = apiErrorPrefix.ReplaceAllString(text, "JetStream error $1: ")
	return printable(violationPrefix.ReplaceAllString(text, "$1 to "))
}
