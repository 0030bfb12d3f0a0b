package leadergocron_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/contrib/leadergocron"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// schedule starts a scheduler that runs a job of that duration every minute, until the end of the test.
func schedule(t *testing.T, job func(), option gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(option)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(job), gocron.WithName("report")); err != nil {
		t.Fatal(err)
	}
	s.Start()
	return s
}

func stop(t *testing.T, s gocron.Scheduler) {
	t.Helper()
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
}

// Jobs run in the process that leads, and after a handover in the next.
func TestElector_RunsJobsOfLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		var ran [2]atomic.Int32
		var all [2]*leader.Candidate
		for i, id := range []string{"a", "b"} {
			c, err := leader.Campaign(t.Context(), store.Link(id), "cron", leader.Config{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			all[i] = c
			synctest.Wait()
			defer stop(t, schedule(t, func() { ran[i].Add(1) }, gocron.WithDistributedElector(leadergocron.Elector{Candidate: c})))
		}
		if err := (leadergocron.Elector{Candidate: all[1]}).IsLeader(t.Context()); !errors.Is(err, leader.ErrNotLeader) {
			t.Errorf("b: %v", err)
		}
		time.Sleep(3*time.Minute + time.Second)
		if a, b := ran[0].Load(), ran[1].Load(); a != 3 || b != 0 {
			t.Errorf("a has run %d jobs, b %d", a, b)
		}
		if err := all[0].Stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if a, b := ran[0].Load(), ran[1].Load(); a != 3 || b != 2 {
			t.Errorf("a has run %d jobs, b %d", a, b)
		}
		if err := all[1].Stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// A run of a Task that goes on at a stop keeps the next leader from its own, and its panic and its error reach gocron.
func TestElector_Task(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		var mu sync.Mutex
		var at []time.Duration
		began, broken, failed := time.Now(), errors.New("broken"), make(map[string]error)
		note := func(how string) func(uuid.UUID, string, error) {
			return func(_ uuid.UUID, name string, err error) {
				mu.Lock()
				defer mu.Unlock()
				failed[how+" "+name] = err
			}
		}
		var all [2]*leader.Candidate
		for i, id := range []string{"a", "b"} {
			c, err := leader.Campaign(context.Background(), store.Link(id), "cron", leader.Config{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			all[i] = c
			synctest.Wait()
			e := leadergocron.Elector{Candidate: c}
			s, err := gocron.NewScheduler() // without the Elector: each run begins, and asks for the term itself
			if err != nil {
				t.Fatal(err)
			}
			defer stop(t, s)
			for name, f := range map[string]func(context.Context) error{
				"slow": func(lead context.Context) error {
					for range 2 {
						mu.Lock()
						at = append(at, time.Since(began))
						mu.Unlock()
						time.Sleep(2 * time.Second)
					}
					return lead.Err()
				},
				"fails":  func(context.Context) error { return broken },
				"panics": func(context.Context) error { panic(broken) },
			} {
				if _, err = s.NewJob(gocron.DurationJob(time.Minute), e.Task(f), gocron.WithName(id+" "+name), gocron.WithEventListeners(
					gocron.AfterJobRunsWithError(note("error")),
					gocron.AfterJobRunsWithPanic(func(id uuid.UUID, name string, data any) { note("panic")(id, name, data.(error)) }),
				)); err != nil {
					t.Fatal(err)
				}
			}
			s.Start()
		}
		time.Sleep(time.Minute + time.Second)
		if err := all[0].Stop(); err != nil { // in the middle of the run
			t.Error(err)
		}
		if d := time.Since(began); d != 64*time.Second {
			t.Errorf("a has stopped at %v", d)
		}
		synctest.Wait()
		if !all[1].IsLeader() {
			t.Error("b does not lead at the end of the run")
		}
		mu.Lock()
		for what, want := range map[string]error{
			"error a slow": context.Canceled, "error a fails": broken, "panic a panics": broken, "error b fails": leader.ErrNotLeader,
		} {
			if err := failed[what]; !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		mu.Unlock()
		time.Sleep(time.Minute + time.Second) // the run of b is over
		mu.Lock()
		defer mu.Unlock()
		if want := []time.Duration{60 * time.Second, 62 * time.Second, 120 * time.Second, 122 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("runs are at work at %v, want %v", at, want)
		}
		if err := all[1].Stop(); err != nil {
			t.Error(err)
		}
	})
}

// The first run is due when the candidates have just begun, and runs in one of the two processes.
// Without a wait both leave it out.
func TestElector_FirstRun(t *testing.T) {
	for wait, want := range map[time.Duration]int32{0: 1, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			store := leadertest.NewStore(nil)
			var ran atomic.Int32
			for _, id := range []string{"a", "b"} {
				store.Link(id).Delay(100 * time.Millisecond)
				c, err := leader.Campaign(t.Context(), store.Link(id), "cron", leader.Config{ID: id})
				if err != nil {
					t.Fatal(err)
				}
				s, err := gocron.NewScheduler(gocron.WithDistributedElector(leadergocron.Elector{Candidate: c, Wait: wait}))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(func() { ran.Add(1) }), gocron.WithStartAt(gocron.WithStartImmediately())); err != nil {
					t.Fatal(err)
				}
				s.Start()
				defer func() {
					stop(t, s)
					if err := c.Stop(); err != nil {
						t.Error(err)
					}
				}()
			}
			time.Sleep(time.Minute)
			if n := ran.Load(); n != want {
				t.Errorf("wait %v: %d runs, want %d", wait, n, want)
			}
		})
	}
}

// While no leader is known, IsLeader waits as long as it may and no longer.
func TestElector_WaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := leadertest.NewStore(nil).Link("a")
		link.Cut()
		c, err := leader.Campaign(context.Background(), link, "cron", leader.Config{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		limited, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		for _, k := range []struct {
			ctx        context.Context
			wait, want time.Duration
		}{{t.Context(), 0, 5 * time.Second}, {t.Context(), -1, 0}, {t.Context(), time.Minute, time.Minute}, {limited, 0, 0}} {
			from := time.Now()
			err := leadergocron.Elector{Candidate: c, Wait: k.wait}.IsLeader(k.ctx)
			if !errors.Is(err, leader.ErrNotLeader) || !errors.Is(err, context.DeadlineExceeded) || time.Since(from) != k.want {
				t.Errorf("wait %v: %v after %v", k.wait, err, time.Since(from))
			}
		}
		link.Close()
		<-c.Done()
		if err := (leadergocron.Elector{Candidate: c}).IsLeader(t.Context()); !errors.Is(err, leader.ErrNotLeader) || !errors.Is(err, leader.ErrConnectionClosed) {
			t.Errorf("ended: %v", err)
		}
	})
}

// Of two schedulers whose clocks differ, one runs each job, although it takes no time. Without Hold both do.
func TestLocker_OneRunsEachJob(t *testing.T) {
	for hold, want := range map[time.Duration]int32{20 * time.Second: 3, 0: 6} {
		synctest.Test(t, func(t *testing.T) {
			store := leadertest.NewStore(nil)
			var ran atomic.Int32
			for _, id := range []string{"a", "b"} {
				locker := &leadergocron.Locker{Store: store.Link(id), Prefix: "cron.", Config: leader.Config{ID: id}, Hold: hold}
				defer stop(t, schedule(t, func() { ran.Add(1) }, gocron.WithDistributedLocker(locker)))
				time.Sleep(time.Second) // the difference of the clocks
			}
			time.Sleep(3*time.Minute + time.Second)
			if n := ran.Load(); n != want {
				t.Errorf("hold %v: %d runs, want %d", hold, n, want)
			}
			time.Sleep(time.Minute - 10*time.Second) // the locks are given back
		})
	}
}

// The lock of a run is held while the job runs, and the error names its holder.
func TestLocker_HeldWhileJobRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		a := &leadergocron.Locker{Store: store.Link("a"), Config: leader.Config{ID: "a"}}
		b := &leadergocron.Locker{Store: store.Link("b"), Config: leader.Config{ID: "b"}}
		lock, err := a.Lock(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Lock(t.Context(), "report")
		var by *leader.HeldError
		if !errors.As(err, &by) || by.Holder.ID != "a" {
			t.Errorf("%v", err)
		}
		if err = lock.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		lock, err = b.Lock(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		if err = lock.Unlock(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}

// The context of a scheduler that shuts down has ended. A job that ends then gives its lock back all the same, and waits for
// it. (The Shutdown of gocron spins until the job has ended, so time stands still in a bubble.)
func TestLocker_Shutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		link := store.Link("a")
		ctx, shutdown := context.WithCancel(t.Context())
		lock, err := (&leadergocron.Locker{Store: link}).Lock(ctx, "report")
		if err != nil {
			t.Fatal(err)
		}
		link.Delay(100 * time.Millisecond)
		shutdown()
		if err = lock.Unlock(ctx); err != nil {
			t.Error(err)
		}
		if h := store.Leader("report"); h.State == leader.HolderLeading {
			t.Errorf("the lock is held: %v", h)
		}
	})
}

// The names of jobs are those of functions, and of elections that differ.
func TestLocker_AnyName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leadergocron.Locker{Store: leadertest.NewStore(nil), Prefix: "cron.", Config: leader.Config{ID: "a"}}
		for _, name := range []string{"main.(*T).run-fm", "main.(*U).run-fm", ""} {
			lock, err := l.Lock(t.Context(), name)
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			defer func() {
				if err := lock.Unlock(context.Background()); err != nil {
					t.Error(err)
				}
			}()
		}
	})
}
