//go:build field

package leaderasynq_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/contrib/leaderasynq"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scheduler returns a function for Run, whose schedulers call enqueued after each task.
func scheduler(address string, enqueued func()) func() (*asynq.Scheduler, error) {
	return func() (*asynq.Scheduler, error) {
		s := asynq.NewScheduler(asynq.RedisClientOpt{Addr: address}, &asynq.SchedulerOpts{
			LogLevel: asynq.FatalLevel,
			PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) {
				if err == nil {
					enqueued()
				}
			},
		})
		_, err := s.Register("@every 1s", asynq.NewTask("report", nil))
		return s, err
	}
}

// reaches waits until a number is greater than it was.
func reaches(t *testing.T, n *atomic.Int32, than int32) {
	t.Helper()
	for range 6000 {
		if n.Load() > than {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d tasks after a minute", n.Load())
}

// The process that leads enqueues tasks, and after a handover the next.
func TestRun_OneEnqueues(t *testing.T) {
	redis := miniredis.RunT(t)
	store := leadertest.NewStore(nil)
	var enqueued [2]atomic.Int32
	var all [2]*leader.Candidate
	var loops [2]chan error
	for i, id := range []string{"a", "b"} {
		c, err := leader.Campaign(t.Context(), store.Link(id), "periodic", leader.Config{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		all[i], loops[i] = c, make(chan error, 1)
		go func() {
			var failed error
			for term := range c.Terms() {
				failed = errors.Join(failed, leaderasynq.Run(term.Context(), scheduler(redis.Addr(), func() { enqueued[i].Add(1) })))
			}
			loops[i] <- failed
		}()
		if i == 0 {
			reaches(t, &enqueued[0], 0)
		}
	}
	reaches(t, &enqueued[0], enqueued[0].Load())
	if n := enqueued[1].Load(); n != 0 {
		t.Errorf("b has enqueued %d tasks and never led", n)
	}
	for i := range all {
		if err := all[i].Stop(); err != nil {
			t.Fatal(err)
		}
		if err := <-loops[i]; err != nil {
			t.Error(err)
		}
		if i == 0 {
			before := enqueued[0].Load()
			reaches(t, &enqueued[1], 1)
			if n := enqueued[0].Load(); n != before {
				t.Errorf("a has enqueued %d tasks after its end", n-before)
			}
		}
	}
}

// The error of the function is that of Run, and after the end of a term nothing is made.
func TestRun_Errors(t *testing.T) {
	broken := errors.New("no such schedule")
	fails := func() (*asynq.Scheduler, error) { return nil, broken }
	ctx, cancel := context.WithCancel(t.Context())
	if err := leaderasynq.Run(ctx, fails); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	cancel()
	if err := leaderasynq.Run(ctx, fails); err != nil {
		t.Errorf("after the end: %v", err)
	}
}
