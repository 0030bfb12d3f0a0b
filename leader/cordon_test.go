package leader_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// lateCordon is a store whose cordon arrives after a time, or never.
type lateCordon struct {
	*plainStore
	after time.Duration // 0: never
	names []string
}

// Backend returns s.
func (s *lateCordon) Backend() backend.Store { return s }

func (s *lateCordon) FollowCordon(deliver func([]string)) (look, stop func()) {
	if s.after == 0 {
		return func() {}, func() {}
	}
	t := time.AfterFunc(s.after, func() { deliver(s.names) })
	return func() {}, func() { t.Stop() }
}

// A candidate that has just begun waits for the cordon, for one interval between renewals at most.
func TestCordon_Late(t *testing.T) {
	const never = time.Duration(-1)
	for name, s := range map[string]struct {
		after, leads time.Duration
		names        []string
	}{
		"never":     {0, plainInterval, nil},
		"empty":     {plainInterval / 2, plainInterval / 2, nil},
		"has it":    {plainInterval / 2, never, []string{"a"}},
		"too late":  {plainInterval + 1, plainInterval, []string{"a"}},
		"has other": {plainInterval / 2, plainInterval / 2, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), plainLease)
				defer cancel()
				store := &lateCordon{newPlainStore(), s.after, s.names}
				c := check.Got(leader.Campaign(ctx, store, "e", leader.Config{ID: "a"}))(t)
				led := never
				cordoned := false
				for e := range c.Events(context.Background()) {
					if _, ok := e.(leader.Elected); ok {
						led = time.Since(begun)
					}
					if e, ok := e.(leader.Faulted); ok {
						cordoned = cordoned || errors.Is(e.Err, leader.ErrCordoned)
					}
				}
				<-c.Done()
				check.Equal(t, led, s.leads, "it led after %v")
				check.Equal(t, cordoned, len(s.names) > 0 && s.names[0] == "a", "cordoned: %v")
			})
		})
	}
}

// A caller that is cordoned, or that cannot take a lock for another reason of its own, keeps no other caller of its process out.
func TestAcquire_CordonedCallerKeepsNoOtherOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lateCordon{newPlainStore(), time.Millisecond, []string{"a"}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- check.Err(leader.Acquire(ctx, store, "e", leader.Config{ID: "a"})) }()
		synctest.Wait()
		within, cancelB := context.WithTimeout(t.Context(), plainLease)
		defer cancelB()
		lock := check.Got(leader.Acquire(within, store, "e", leader.Config{ID: "b"}))(t)
		check.OK(t, lock.Unlock(t.Context()))
		cancel()
		check.Is(t, <-ended, context.Canceled)
	})
}
