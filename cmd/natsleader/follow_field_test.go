//go:build field

package main

import (
	"context"
	"errors"
	"testing"

	"github.com/natsleader/natsleader/leader"
)

// A command that goes on while the bucket is away leaves no connection behind, whether it could begin or
// not. Its own end is no loss of the connection.
func TestFollow_LeavesNoConnection(t *testing.T) {
	s := startServer(t)
	url := s.ClientURL()
	out := &aSource{}
	follow := func(ctx context.Context, begun func()) error {
		return globalsOf(url, "elections").followConnected(ctx, out, func(its *inspector) {
			out.add("connected %v", its != nil)
			if its != nil {
				begun()
			}
		})
	}
	closed := func() {
		t.Helper()
		eventually(t, "all connections are closed", func() bool { return s.NumClients() == 0 })
	}
	if err := follow(t.Context(), func() { t.Error("it has begun without a bucket") }); !errors.Is(err, leader.ErrNoBucket) {
		t.Error(err)
	}
	closed()
	newBucket(t, url, "elections", leader.BucketConfig{})
	closed()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := follow(ctx, cancel); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	closed()
	if got := out.text(); got != "connected false, connected false, connected true, connected false" {
		t.Error(got)
	}
}
