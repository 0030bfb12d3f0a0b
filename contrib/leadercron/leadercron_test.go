package leadercron_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/contrib/leadercron"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each job runs in the process that leads, and after a handover in the next.
func TestWhileLeading_OneRunsJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		var ran [2]int
		var all [2]atomic.Pointer[leader.Candidate]
		for i := range all {
			schedule := cron.New(cron.WithChain(leadercron.WhileLeading(all[i].Load)))
			if _, err := schedule.AddFunc("@every 1m", func() { ran[i]++ }); err != nil {
				t.Fatal(err)
			}
			schedule.Start()
			defer func() { <-schedule.Stop().Done() }()
		}
		time.Sleep(time.Minute + time.Second) // there are no candidates
		for i, id := range []string{"a", "b"} {
			c, err := leader.Campaign(t.Context(), store.Link(id), "cron", leader.Config{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			all[i].Store(c)
			synctest.Wait()
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if ran != [2]int{3, 0} {
			t.Errorf("a has run %d jobs, b %d", ran[0], ran[1])
		}
		if err := all[0].Load().Stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if ran != [2]int{3, 2} {
			t.Errorf("a has run %d jobs, b %d", ran[0], ran[1])
		}
		if err := all[1].Load().Stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// A run that goes on at a stop keeps the next leader from leading, and its panic reaches the wrappers around it.
func TestWhileLeading_RunIsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		c, err := leader.Campaign(context.Background(), store, "cron", leader.Config{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		wrap := leadercron.WhileLeading(func() *leader.Candidate { return c })
		go wrap(cron.FuncJob(func() { time.Sleep(5 * time.Second) })).Run()
		time.Sleep(time.Second)
		func() {
			defer func() {
				if p := recover(); p != "broken" {
					t.Errorf("the panic is %v", p)
				}
			}()
			wrap(cron.FuncJob(func() { panic("broken") })).Run()
		}()
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("the candidate has stopped after %v", d)
		}
		wrap(cron.FuncJob(func() { t.Error("runs after the end") })).Run()
	})
}
