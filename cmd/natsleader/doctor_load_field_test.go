//go:build field

package main

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// Doctor counts the elections that are led and their renewals, and not the others.
func TestDoctor_CountsRenewals(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{MaxLease: time.Hour})
	campaigns(t, s.ClientURL(), "elections", "billing", leader.Config{LeaseDuration: time.Minute})
	campaigns(t, s.ClientURL(), "elections", "mail", leader.Config{LeaseDuration: 30 * time.Second})
	gone := campaigns(t, s.ClientURL(), "elections", "audit", leader.Config{})
	if err := gone.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	diagnose(t, s.ClientURL()).says(t, "elections", "ok",
		"3 elections, all records are sound; 2 elections are led now, and their renewals are about 0.3 writes per second")
}
