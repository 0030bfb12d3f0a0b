package keys_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/keys"
	"github.com/natsleader/natsleader/leader"
)

// Complete deletes the key. Its work does not begin again, also while the watch of the process is late.
func TestComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.work = func(_ *process, k *keys.Key) { check.OK(t, k.Complete()) }
		a := f.start("a")
		time.Sleep(coldStart)
		a.link.DelayFeed(time.Minute)
		f.tenants.Put("t.k", []byte("1"))
		time.Sleep(time.Hour)
		check.Equal(t, f.said(), "a begins t.k=1\na ends t.k: <nil>", "%s")
		check.That(t, f.tenants.Entry("t.k").Marker, "the key is there")
		f.tenants.Put("t.k", []byte("2"))
		time.Sleep(time.Hour)
		check.Equal(t, f.said(), "a begins t.k=2\na ends t.k: <nil>", "%s")
	})
}

// Complete has an answer although the deletion ends the context of the key first.
func TestComplete_OutlivesTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		done := make(chan error, 1)
		f.start("a")
		f.work = func(p *process, k *keys.Key) {
			p.link.Delay(time.Second) // of the answer, and of the watch
			p.link.DelayFeed(-time.Second)
			done <- k.Complete()
			check.That(t, isDeleted(k.Context()), "the context has ended with %v", context.Cause(k.Context()))
		}
		time.Sleep(time.Second)
		f.tenants.Put("t.k", nil)
		check.OK(t, check.Comes(t, "the end of Complete", done))
	})
}

// Complete is refused while there is a value that the work has not seen. The work goes on with that one.
func TestComplete_Changed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.start("a")
		time.Sleep(coldStart)
		f.tenants.Put("t.k", []byte("1"))
		synctest.Wait()
		k := f.owners["t.k"]
		f.tenants.Put("t.k", []byte("2"))
		synctest.Wait()
		check.Is(t, k.Complete(), keys.ErrChanged)
		check.OK(t, k.Context().Err())
		check.Is(t, k.Complete(), keys.ErrChanged)
		check.Equal(t, string(k.Entry().Value), "2", "the value is %s")
		check.OK(t, k.Complete())
		synctest.Wait()
		check.That(t, isDeleted(k.Context()), "the context has ended with %v", context.Cause(k.Context()))
		check.Is(t, k.Complete(), keys.ErrChanged)
	})
}

// Complete returns after 5 s if it has no answer.
func TestComplete_NoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a")
		time.Sleep(coldStart)
		f.tenants.Put("t.k", nil)
		synctest.Wait()
		a.link.Freeze()
		from := time.Now()
		check.Is(t, f.owners["t.k"].Complete(), leader.ErrUnreachable)
		check.Equal(t, time.Since(from), 5*time.Second, "Complete has returned after %v")
	})
}

// No job that was completed begins again, while members come and go and all watches are late by 500 ms, by reads or by
// guards. Without either, many do.
func TestComplete_LateWatch(t *testing.T) {
	for _, guards := range []string{"", "g"} {
		t.Run("guards="+guards, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				f.config = func(cfg *keys.Config) { cfg.Guards = guards }
				var mu sync.Mutex
				done, begun, again, jobs := map[string]bool{}, 0, 0, 0
				f.work = func(_ *process, k *keys.Key) {
					mu.Lock()
					begun++
					if done[k.Name()] {
						again++
					}
					mu.Unlock()
					select {
					case <-time.After(40 * time.Millisecond):
					case <-k.Context().Done():
						return
					}
					if err := k.Complete(); err != nil {
						check.Is(t, err, keys.ErrChanged)
						return
					}
					mu.Lock()
					done[k.Name()] = true
					mu.Unlock()
				}
				start := func(id string) *process {
					p := f.start(id)
					p.link.DelayFeed(500 * time.Millisecond)
					return p
				}
				start("a")
				start("b")
				for i := range 12 {
					p := start(fmt.Sprint("n", i))
					for range 100 {
						f.tenants.Put(fmt.Sprint("t.job", jobs), nil)
						jobs++
						time.Sleep(10 * time.Millisecond)
					}
					p.stop()
				}
				time.Sleep(20 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				t.Logf("%d jobs, %d begins", jobs, begun)
				check.Equal(t, len(done), jobs, "%d jobs are completed")
				check.Equal(t, again, 0, "%d jobs have begun again")
				check.That(t, begun > jobs, "no job was interrupted by a move: the test shows nothing")
			})
		})
	}
}

// What an owner has written through its writer, the next one knows when it begins. Later writes of the first are refused.
func TestGuards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.config = func(cfg *keys.Config) { cfg.Guards = "g" }
		begun := make(chan *keys.Key, 1)
		f.work = func(_ *process, k *keys.Key) {
			begun <- k
			<-k.Context().Done()
		}
		a := f.start("a")
		a.link.DelayFeed(time.Second)
		f.tenants.Put("t.k", []byte("1"))
		first := check.Comes(t, "the work on t.k", begun)
		_, err := first.Writer().Put(t.Context(), "t.k", []byte("2"))
		check.OK(t, err)
		a.link.Cut()
		a.group.Cut()
		b := f.start("b")
		b.link.DelayFeed(3 * time.Second)
		second := check.Comes(t, "the work on t.k", begun)
		check.Equal(t, string(second.Entry().Value), "2", "b has %s")
		a.link.Restore()
		_, err = first.Writer().Put(t.Context(), "t.k", []byte("late"))
		check.That(t, errors.Is(err, leader.ErrFenced), "%v", err)
		check.Equal(t, string(f.tenants.Entry("t.k").Value), "2", "the key has %s")
	})
}
