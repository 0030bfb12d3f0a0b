package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// Each kind of failure has its exit code, which scripts rely on.
func TestCodeOf(t *testing.T) {
	for code, all := range map[int][]error{
		0:         {nil},
		exitUsage: {leader.ErrInvalidConfig, leader.ErrValueTooLarge, usagef("x")},
		exitUnreachable: {
			errUnreachable, leader.ErrUnreachable, leader.ErrConnectionClosed, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrConnectionClosed,
			jetstream.ErrJetStreamNotEnabled, jetstream.ErrJetStreamNotEnabledForAccount, context.DeadlineExceeded,
		},
		exitDenied: {leader.ErrPermission},
		exitBucket: {leader.ErrNoBucket, leader.ErrIncompatibleBucket, leader.ErrNoRoster},
		exitFailed: {errors.New("x"), leader.ErrNoLeader},
	} {
		for _, err := range all {
			expect.That(t, codeOf(err) == code && (err == nil || codeOf(fmt.Errorf("x: %w", err)) == code), "%v: %d, want %d", err, codeOf(err), code)
		}
	}
}
