package leadertest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// everywhere runs a test in a bubble and outside of one.
func everywhere(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Run("bubble", func(t *testing.T) { synctest.Test(t, test) })
	t.Run("process", test)
}

// guard returns a guard in the process' time.
func guard() leadertest.Guard { return leadertest.NewStore(nil).Link("").Guard() }

// A term leads until the test ends it.
func TestNewTerm_Leads(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		term := leadertest.NewTerm(t, leader.Config{})
		if term.Token() != 1 || leader.Err(term.Context()) != nil || term.Context().Err() != nil || term.Remaining() != 12*time.Second {
			t.Errorf("token %d, %v, %v, %v", term.Token(), leader.Err(term.Context()), term.Context().Err(), term.Remaining())
		}
		for _, token := range []uint64{1, 2, 77, 1<<61 + 1} {
			check.Equal(t, leadertest.NewTerm(t, leader.Config{MinToken: token - 1}).Token(), token, "token %d")
		}
	})
}

// In a bubble, hours may pass, and the term leads.
func TestNewTerm_OutlastsTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := leadertest.NewTerm(t, leader.Config{})
		time.Sleep(24 * time.Hour)
		check.That(t, leader.Err(term.Context()) == nil && term.Remaining() == 12*time.Second, "%v, %v", leader.Err(term.Context()), term.Remaining())
	})
}

// End ends the term with each cause, also shortly before the end of its lease, with a drain
// and with a guard.
func TestTermEnd_EachCause(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		for _, cause := range []error{
			leader.ErrResigned, leader.ErrStopped, leader.ErrLeaseExpired, leader.ErrPreempted, leader.ErrDeleted,
			leader.ErrRegressed, leader.ErrConnectionClosed, leader.ErrFenced, leader.ErrStalled,
		} {
			for _, wait := range []time.Duration{0, 12*time.Second - 1} {
				term := leadertest.NewTerm(t, leader.Config{
					Guards: []leader.Guard{guard()}, GracePeriod: time.Minute, StallTimeout: time.Minute,
				})
				term.Advance(wait)
				check.Must(t, leader.Err(term.Context()) == nil, "after %v: %v", wait, leader.Err(term.Context()))
				term.End(cause)
				if !errors.Is(leader.Err(term.Context()), cause) || !errors.Is(context.Cause(term.Context()), cause) || term.Remaining() != 0 {
					t.Errorf("%v after %v: %v, %v", cause, wait, leader.Err(term.Context()), context.Cause(term.Context()))
				}
				term.End(leader.ErrDeleted) // has ended
			}
		}
	})
}

// End fails the test for what ends no term.
func TestTermEnd_NoSuchCause(t *testing.T) {
	for _, cause := range []error{nil, errOdd, leader.ErrNoBucket, leader.ErrFenced, leader.ErrStalled} {
		v := &failing{T: t}
		leadertest.NewTerm(v, leader.Config{}).End(cause)
		check.That(t, v.said != "", "it takes %v", cause)
	}
}

// failing is a test that may fail.
type failing struct {
	*testing.T
	verdict
	said string
}

func (v *failing) Helper()          {}
func (v *failing) Cleanup(f func()) { v.T.Cleanup(f) }
func (v *failing) Fatalf(format string, args ...any) {
	v.verdict.Fatalf(format, args...)
	v.said = string(v.verdict)
}

// NewTerm fails the test for settings that are wrong, or with which nobody leads at once.
func TestNewTerm_BadSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cfg := range []leader.Config{{LeaseDuration: -1}, {PendingPeriod: time.Hour}} {
			v := &failing{T: t}
			term := leadertest.NewTerm(v, cfg)
			check.That(t, v.said != "" && leader.Err(term.Context()) != nil, "said %q, and the term has %v", v.said, leader.Err(term.Context()))
		}
	})
}

// Advance shrinks the lease until the term ends.
func TestTermAdvance_ShrinksTheLease(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		term := leadertest.NewTerm(t, leader.Config{LeaseDuration: time.Minute})
		term.Advance(40 * time.Second)
		term.Advance(8*time.Second - 1)
		check.That(t, term.Remaining() == 1 && leader.Err(term.Context()) == nil, "%v remains, %v", term.Remaining(), leader.Err(term.Context()))
		term.Advance(1)
		check.Is(t, context.Cause(term.Context()), leader.ErrLeaseExpired)
		term.Advance(time.Hour)
	})
}

// A term writes through its guards until a later term has raised them.
func TestNewTerm_Guards(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		guard := guard()
		term := leadertest.NewTerm(t, leader.Config{Guards: []leader.Guard{guard}, MinToken: 6})
		var w fence.KVWriter = guard.Writer(term.Term)
		check.Is(t, check.Err(w.Put(t.Context(), "order", []byte("shipped"))), nil)
		term.End(leader.ErrFenced)
		check.Is(t, check.Err(w.Put(t.Context(), "order", nil)), leader.ErrFenced)
	})
}
