package front

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
		ExitUsage: {leader.ErrInvalidConfig, leader.ErrValueTooLarge, Usagef("x")},
		ExitUnreachable: {
			ErrUnreachable, leader.ErrUnreachable, leader.ErrConnectionClosed, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrConnectionClosed,
			jetstream.ErrJetStreamNotEnabled, jetstream.ErrJetStreamNotEnabledForAccount, context.DeadlineExceeded,
		},
		ExitDenied: {leader.ErrPermission},
		ExitBucket: {leader.ErrNoBucket, leader.ErrIncompatibleBucket, leader.ErrNoRoster},
		ExitFailed: {errors.New("x"), leader.ErrNoLeader},
	} {
		for _, err := range all {
			expect.That(t, CodeOf(err) == code && (err == nil || CodeOf(fmt.Errorf("x: %w", err)) == code), "%v: %d, want %d", err, CodeOf(err), code)
		}
	}
}
