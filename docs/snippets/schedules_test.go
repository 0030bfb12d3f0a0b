package snippets_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/schedule"
)

func everyTenSeconds(ctx context.Context, store leader.Store, poll func(context.Context, time.Time) error) error {
	s, err := schedule.Campaign(ctx, store, "poll", schedule.Every(10*time.Second), leader.Config{})
	if err != nil {
		return err
	}
	for slot := range s.Slots() {
		if err := poll(slot.Term.Context(), slot.Time); err != nil {
			slog.Warn("poll", "slot", slot.Time, "err", err)
		}
	}
	return s.Candidate().Err()
}

func nightlyOnce(ctx context.Context, store leader.Store, calendar schedule.Calendar, report func(context.Context, time.Time)) error {
	s, err := schedule.Campaign(ctx, store, "nightly", calendar, leader.Config{})
	if err != nil {
		return err
	}
	for slot := range s.Slots() {
		if slot.Begun || len(slot.Missed) > 0 {
			slog.Error("nightly", "interrupted", slot.Begun, "slot", slot.Time, "missed", slot.Missed)
		}
		if !slot.Begun { // at most once; without this line at least once
			report(slot.Term.Context(), slot.Time)
		}
	}
	return s.Candidate().Err()
}

func nightlyAnywhere(ctx context.Context, s *schedule.Schedule, report func(context.Context, time.Time) error) error {
	for failed := true; failed && ctx.Err() == nil; {
		failed = false
		for slot := range s.Slots() {
			if err := report(slot.Term.Context(), slot.Time); err != nil {
				slog.Error("nightly", "slot", slot.Time, "err", err)
				failed = true
				break // another process tries
			}
		}
		select {
		case <-ctx.Done():
		case <-s.Candidate().Done():
		case <-time.After(10 * time.Second): // before this one stands again
		}
	}
	return s.Candidate().Err()
}

var _ = []any{everyTenSeconds, nightlyAnywhere}

// A report of each day is made once, although a clock is wrong and a host sleeps.
func TestNightlyOnce_Week(t *testing.T) {
	synctest.Test(t, weekOfReports)
}

func weekOfReports(t *testing.T) {
	store, runs := leadertest.NewStore(nil), make(chan time.Time, 100)
	report := func(context.Context, time.Time) { runs <- time.Now() }
	for _, host := range []string{"a", "b"} {
		go func() { _ = nightlyOnce(t.Context(), store.Link(host), schedule.Daily(3, 0, time.UTC), report) }()
		synctest.Wait()
	}
	store.Link("a").SetWall(5 * time.Hour) // it leads, and its clock is wrong
	time.Sleep(3 * 24 * time.Hour)
	store.Link("a").Freeze() // as if its host slept for an hour
	time.Sleep(time.Hour)
	store.Link("a").Restore()
	time.Sleep(4 * 24 * time.Hour)
	for day := range 7 { // each once
		if got, want := <-runs, time.Date(2000, 1, day+1, 3, 0, 0, 0, time.UTC); !got.Equal(want) {
			t.Errorf("it ran at %v, not at %v", got, want)
		}
	}
	check.Equal(t, len(runs), 0, "it ran %d times more")
}

// table has jobs that are data. They come and go.
type table struct {
	mu   sync.Mutex
	rows []task
}

// task is a job, and how it is to run.
type task struct {
	name string
	next time.Time
	each time.Duration
	run  func(lead context.Context) error
}

func (t *table) due(_ context.Context, now time.Time) []task {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(t.rows), func(r task) bool { return r.next.After(now) })
}

func (t *table) done(_ context.Context, name string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.rows {
		if t.rows[i].name == name {
			t.rows[i].next = now.Add(t.rows[i].each)
		}
	}
}

func (t *table) add(r task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, r)
}

func (t *table) drop(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = slices.DeleteFunc(t.rows, func(r task) bool { return r.name == name })
}

func jobsOfTable(ctx context.Context, store leader.Store, rows *table) error {
	s, err := schedule.Campaign(ctx, store, "jobs", schedule.Every(time.Minute), leader.Config{})
	if err != nil {
		return err
	}
	for slot := range s.Slots() {
		lead := slot.Term.Context()
		for _, job := range rows.due(lead, slot.Time) { // those whose next run is not after the slot
			if job.run(lead) == nil && lead.Err() == nil {
				rows.done(lead, job.name, slot.Time) // sets its next run
			}
		}
	}
	return s.Candidate().Err()
}

// Jobs that come and go run at their times, also over a handover and a crash. One that has failed runs again at the next tick.
func TestJobsOfTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rows table
		var mu sync.Mutex
		runs, begun := map[string][]string{}, time.Now()
		job := func(name string, each time.Duration, fails int) task {
			return task{name, begun, each, func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				runs[name] = append(runs[name], time.Since(begun).Round(time.Second).String())
				if len(runs[name]) <= fails {
					return errors.New("it fails")
				}
				return nil
			}}
		}
		store := leadertest.NewStore(nil)
		ctx, stop := context.WithCancel(t.Context())
		for _, c := range []struct {
			ctx  context.Context
			host string
		}{{ctx, "a"}, {t.Context(), "b"}, {t.Context(), "c"}} {
			go func() { _ = jobsOfTable(c.ctx, store.Link(c.host), &rows) }()
			synctest.Wait()
		}
		rows.add(job("mail", 2*time.Minute, 1))
		time.Sleep(150 * time.Second)
		stop() // b leads
		rows.add(job("bill", 10*time.Minute, 0))
		time.Sleep(2 * time.Minute)
		rows.drop("bill")
		store.Link("b").Close() // as in a crash: c leads when the lease is over
		time.Sleep(150 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		check.Deep(t, runs, map[string][]string{"mail": {"1m0s", "2m0s", "4m0s", "6m0s"}, "bill": {"3m0s"}})
	})
}
