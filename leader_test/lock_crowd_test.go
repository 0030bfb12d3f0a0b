package leader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// Many processes take a lock and give it back at once. It hardly lies idle behind a lost race. (The ways of the messages take no time
// here. A candidate that has read for nothing reads again after a quarter of an interval.)
func TestLock_Crowd(t *testing.T) {
	inSealed(t, func(w *world) {
		var all sync.WaitGroup
		for i := range 50 {
			b := w.dial(fmt.Sprint(i)).bucket(t)
			all.Go(func() {
				lock := check.Got(leader.Acquire(w.Context(), b, "e", leader.Config{ID: fmt.Sprint(i)}))(t)
				check.OK(t, lock.Unlock(w.Context()))
			})
		}
		all.Wait()
		check.That(t, w.now() < time.Second, "all had it after %v", w.now())
	})
}

// Many callers in one process send little more writes than one after the other, and have the lock in the order in which they came.
func TestLock_CrowdInProcess(t *testing.T) {
	inSealed(t, func(w *world) {
		const callers = 100
		cl := w.dial("a")
		b := cl.bucket(t)
		writes := 0
		cl.filter(func(f frame) treatment {
			if f.dir == up && f.subject == "$KV.E.e" {
				writes++ // the link is locked
			}
			return pass
		})
		first := check.Got(leader.Acquire(w.Context(), b, "e", leader.Config{ID: "first"}))(t)
		var all sync.WaitGroup
		var order []int
		for i := range callers {
			all.Go(func() {
				lock := check.Got(leader.Acquire(w.Context(), b, "e", leader.Config{ID: fmt.Sprint(i)}))(t)
				order = append(order, i)
				check.OK(t, lock.Unlock(w.Context()))
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(w.Context())
		gone := w.begin(func() error { return check.Err(leader.Acquire(ctx, b, "e", leader.Config{ID: "gone"})) })
		synctest.Wait()
		cancel()
		gone.returned(0, context.Canceled)
		check.OK(t, first.Unlock(w.Context()))
		all.Wait()
		check.That(t, slices.IsSorted(order) && len(order) == callers, "in the order %v", order)
		cl.open()
		check.That(t, writes >= 2*(callers+1) && writes < 3*callers, "%d writes", writes)
	})
}

// A call that waits in line behind another has no candidate. Its error names the holder all the same.
func TestLock_InLine(t *testing.T) {
	inSealed(t, func(w *world) {
		cl := w.dial("a")
		b, other := cl.bucket(t), cl.bucket(t)
		lock := check.Got(leader.Acquire(w.Context(), other, "e", leader.Config{ID: "a"}))(t)
		first := w.begin(func() error {
			got, err := leader.Acquire(w.Context(), b, "e", leader.Config{ID: "first"})
			w.locked(got)
			return err
		})
		var errs [2]error
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		for i, id := range []string{"second", "a"} {
			all.Go(func() { errs[i] = check.Err(leader.Acquire(ctx, b, "e", leader.Config{ID: id})) })
		}
		synctest.Wait()
		late := check.Err(leader.Acquire(ctx, b, "e", leader.Config{ID: "a"})) // the holder is known already
		for _, err := range []error{errs[1], late} {
			check.That(t, strings.Contains(fmt.Sprint(err), "is held by this process"), "the owner of the lock gets %v", err)
		}
		w.isAt(0, "Acquire")
		all.Wait()
		held := new(leader.HeldError)
		check.That(t, errors.As(errs[0], &held) && held.Holder.ID == "a" && errors.Is(errs[0], context.DeadlineExceeded), "another gets %v", errs[0])
		w.isAt(time.Second, "Acquire")
		check.OK(t, lock.Unlock(w.Context()))
		synctest.Wait()
		first.returned(time.Second, nil)
	})
}
