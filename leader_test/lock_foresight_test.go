package leader_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// foreseer returns a process that knows its bucket, and has freed the lock. It writes before it has read the next time.
func (w *world) foreseer(t *testing.T) *process {
	t.Helper()
	p := w.process("far")
	p.cfg.LeaseDuration = 0
	check.OK(t, p.takes(t).Unlock(w.Context()))
	synctest.Wait()
	return p
}

func (p *process) takes(t *testing.T) *leader.Lock {
	t.Helper()
	lock := check.Got(leader.Acquire(p.w.Context(), p.bucket, "e", p.cfg))(t)
	p.w.locked(lock)
	return lock
}

// A lock that was written before the settings were read is returned only if they are as they were. Otherwise the process gives the key
// up, and reads before it writes.
func TestForesight_OtherSettings(t *testing.T) {
	inSealed(t, func(w *world) {
		far := w.foreseer(t)
		conf := check.Got(w.ops.js.Stream(w.Context(), "KV_E"))(t).CachedInfo().Config
		conf.MaxMsgSize = 5000
		check.Got(w.ops.js.UpdateStream(w.Context(), conf))(t)
		writes := 0
		far.filter(func(f frame) treatment {
			if f.dir == up && f.subject == "$KV.E.e" {
				writes++
			}
			return pass
		})
		check.OK(t, far.takes(t).Err())
		check.Equal(t, writes, 3, "it has written %d times: the lock, its release, and the lock")
	})
}

// Nor is it returned before they have come.
func TestForesight_Unanswered(t *testing.T) {
	inSealed(t, func(w *world) {
		far := w.foreseer(t)
		asked := 0
		far.filter(func(f frame) treatment {
			if f.dir == up && f.subject == "$JS.API.STREAM.INFO.KV_E" {
				if asked++; asked == 1 {
					return drop
				}
			}
			return pass
		})
		lock := far.takes(t)
		check.That(t, w.now() >= time.Second && asked > 1, "it is held after %v, and %d questions", w.now(), asked)
		check.OK(t, lock.Err())
	})
}

// The store goes back, and another process has come to hold the lock by the revision of the release. The foreseen write replaces its
// record, and the caller gets no lock.
func TestForesight_RevisionIsUsedAgain(t *testing.T) {
	inSealed(t, func(w *world) {
		far := w.foreseer(t)
		kv := check.Got(w.ops.js.KeyValue(w.Context(), "E"))(t)
		freed := check.Got(kv.Get(w.Context(), "e"))(t).Revision()
		conf := check.Got(w.ops.js.Stream(w.Context(), "KV_E"))(t).CachedInfo().Config
		check.OK(t, w.ops.js.DeleteStream(w.Context(), "KV_E"))
		conf.FirstSeq = freed
		check.Got(w.ops.js.CreateStream(w.Context(), conf))(t)
		near := w.locker("near").acquire()
		err := check.Err(far.try())
		check.That(t, errors.Is(err, leader.ErrRegressed), "it gets %v", err)
		synctest.Wait()
		check.That(t, errors.Is(near.Err(), leader.ErrPreempted), "the other holds it on: %v", near.Err())
	})
}

// A caller that was cordoned meanwhile gets no lock either, and gives back what it has taken.
func TestForesight_Cordoned(t *testing.T) {
	inSealed(t, func(w *world) {
		far := w.foreseer(t)
		kv := check.Got(w.ops.js.KeyValue(w.Context(), "E"))(t)
		check.Got(kv.Create(w.Context(), wire.CordonKey, check.Got(record.EncodeCordon([]string{"far"}))(t)))(t)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		got := make(chan error, 1)
		far.detain(up)
		go func() {
			lock, err := leader.Acquire(ctx, far.bucket, "e", far.cfg)
			w.locked(lock)
			got <- err
		}()
		synctest.Wait()
		far.open()
		err := <-got
		check.Must(t, errors.Is(err, leader.ErrCordoned) && errors.Is(err, context.DeadlineExceeded), "it gets %v", err)
		check.OK(t, w.locker("near").acquire().Err())
	})
}

// A lock that is held as far as the process knows is read before it is written.
func TestForesight_HeldLock(t *testing.T) {
	inSealed(t, func(w *world) {
		far := w.foreseer(t)
		lock, writes := far.takes(t), 0
		far.filter(func(f frame) treatment {
			if f.dir == up && f.subject == "$KV.E.e" {
				writes++
			}
			return pass
		})
		for _, id := range []string{"b", "c"} {
			far.cfg.ID = id
			held := new(leader.HeldError)
			check.That(t, errors.As(check.Err(far.try()), &held), "%s is not refused", id)
		}
		check.Equal(t, writes, 0, "%d writes were sent for a lock that this process holds")
		check.OK(t, lock.Err())
	})
}

// A record that was seen before a lock is tried keeps its date: it is read before the key is written.
func TestForesight_CrashedHolder(t *testing.T) {
	inSealed(t, func(w *world) {
		far, near := w.process("far"), w.process("near")
		near.takes(t)
		w.at(time.Second / 2)
		near.cut()
		held := new(leader.HeldError)
		check.That(t, errors.As(check.Err(far.try()), &held), "it is not held")
		synctest.Wait()
		w.at(time.Second/2 + lease)
		check.OK(t, check.Got(far.try())(t).Err())
	})
}
