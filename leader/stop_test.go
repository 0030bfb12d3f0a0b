package leader_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// Stop says what is the case when it returns: work that has ended meanwhile is no work that goes on, and then the key counts.
func TestStop_SaysWhatIsNow(t *testing.T) {
	inBubble(t, leader.Config{StopTimeout: time.Second}, func(b *bench) {
		b.at(time.Second)
		term, _ := b.Term()
		term.Go(func(context.Context) { time.Sleep(5 * time.Second) })
		b.store.tellAll(backend.FeedEvent{Err: leader.ErrConnectionClosed})
		synctest.Wait()
		check.Is(b, b.Stop(), leader.ErrNotReleased)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		check.Is(b, b.Stop(), leader.ErrConnectionClosed)
	})
}

// The write that takes the key is not answered, so the candidate may keep others out.
func TestStop_ReplyLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(map[string]answers{"Update": tooLate})
		c := l.stand(t.Context(), t, leader.Config{StopTimeout: time.Second})
		check.Equal(t, l.awaits("Update"), 1, "%d writes")
		check.Is(t, c.Stop(), leader.ErrUnreachable)
		l.release()
	})
}

// Unlock says that functions of Go run on although another may hold the lock.
func TestUnlock_WorkGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		lock := check.Got(leader.Acquire(t.Context(), store.Link("a"), "e", leader.Config{GracePeriod: 2 * time.Second}))(t)
		lock.Go(func(context.Context) { time.Sleep(10 * time.Second) })
		check.Is(t, lock.Unlock(t.Context()), leader.ErrNotReleased)
		check.OK(t, check.Got(leader.TryAcquire(t.Context(), store.Link("b"), "e", leader.Config{}))(t).Unlock(t.Context()))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		check.OK(t, lock.Unlock(t.Context()))
	})
}

// The silence of a function that has returned is not that of the next.
func TestStall_CountsFromTheNextGo(t *testing.T) {
	inBubble(t, leader.Config{StallTimeout: time.Minute}, func(b *bench) {
		b.at(time.Second)
		term, _ := b.Term()
		term.Go(func(context.Context) { time.Sleep(59 * time.Second) })
		b.at(10 * time.Minute)
		begun := time.Now()
		term.Go(func(lead context.Context) {
			time.Sleep(59 * time.Second)
			check.OK(b, lead.Err())
			time.Sleep(time.Minute)
		})
		<-term.Context().Done()
		check.Is(b, context.Cause(term.Context()), leader.ErrStalled)
		check.Equal(b, time.Since(begun), 119*time.Second, "stalled after %v")
	})
}
