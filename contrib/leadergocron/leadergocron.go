// Package leadergocron lets one of several processes run the jobs of a gocron scheduler
// (github.com/go-co-op/gocron/v2).
//
// With [Elector] the process that leads runs all jobs. With [Locker] each run of a job goes to the
// process that is first.
package leadergocron

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/natsleader/natsleader/leader"
)

// Elector is a gocron.Elector. Jobs run while its candidate leads:
//
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(leadergocron.Elector{Candidate: c}))
//
// gocron asks when a run begins, and at no other time. Make its jobs by [Elector.Task], which lets the next leader
// wait for a run at an orderly end. Other runs may overlap with a run of the next leader.
type Elector struct {
	Candidate *leader.Candidate

	// Wait is how long a run waits at most while the candidate knows of no leader, as after
	// its start, and when a leader is lost. A run that has waited as long is left out. Zero stands
	// for 5 s, and a negative Wait for none. A candidate that is Pending needs more, up to a lease.
	Wait time.Duration
}

// defaultWait is enough for the first requests of a candidate.
const defaultWait = 5 * time.Second

// IsLeader returns nil if the candidate leads. It first waits until the candidate knows whether it
// does ([leader.Candidate.Ready]), up to Wait or the end of ctx. Otherwise IsLeader returns an
// error that wraps [leader.ErrNotLeader], and that of Ready if there is one.
func (e Elector) IsLeader(ctx context.Context) error {
	wait := e.Wait
	if wait == 0 {
		wait = defaultWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := e.Candidate.Ready(ctx)
	switch {
	case e.Candidate.IsLeader():
		return nil
	case err != nil:
		return fmt.Errorf("%w: %s is %s: %w", leader.ErrNotLeader, e.Candidate.ID(), e.Candidate.State(), err)
	}
	return fmt.Errorf("%w: %s is %s", leader.ErrNotLeader, e.Candidate.ID(), e.Candidate.State())
}

// Task returns a task of gocron. A run is work of the term in which it begins ([leader.Term.Go]): at an orderly end the
// candidate keeps the key for it, up to Config.GracePeriod. A run that may go on for longer, or after a loss, asks lead
// or [leader.Err] before each effect, or writes through a guard. If the candidate does not lead, the run fails with
// [leader.ErrNotLeader], and does not call f.
func (e Elector) Task(f func(lead context.Context) error) gocron.Task {
	return gocron.NewTask(func() error {
		term, ok := e.Candidate.Term()
		ended := make(chan struct{})
		if !ok || !term.Go(func(context.Context) { <-ended }) {
			return fmt.Errorf("%w: %s is %s", leader.ErrNotLeader, e.Candidate.ID(), e.Candidate.State())
		}
		defer close(ended)
		return f(term.Context()) // on the goroutine of gocron, which expects a panic there
	})
}

// Locker is a gocron.Locker. Each run of a job has a lock, which is an election of the Store with
// the name Prefix and [leader.Name] of the job's:
//
//	locker := &leadergocron.Locker{Store: bucket, Prefix: "cron.", Hold: time.Minute}
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// Give each job a name (gocron.WithName). Other names are those of functions, which may change
// with the source.
type Locker struct {
	Store  leader.Store
	Prefix string        // "cron." for example
	Config leader.Config // of the candidate for each lock

	// Hold is the least time for which a lock is held, also if the job ends earlier. It must be
	// longer than the clocks of the processes differ, and shorter than the time between two
	// runs. Without it, a job that takes 10 ms runs again in a process whose clock is 20 ms behind.
	// When the process ends, the locks that it holds are free after their leases.
	Hold time.Duration
}

// Lock returns the lock for a run of the job. If another process holds it, the error is a
// *[leader.HeldError], and gocron leaves the run out. Other errors are those of
// [leader.TryAcquire].
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lock, err := leader.TryAcquire(ctx, l.Store, l.Prefix+leader.Name(job), l.Config)
	if err != nil {
		return nil, err
	}
	return &held{Lock: lock, until: time.Now().Add(l.Hold)}, nil
}

// held is a lock that is held for a least time.
type held struct {
	*leader.Lock
	until time.Time
}

// unlockLimit is how long a lock tries to be given back. It is free after its lease in any case.
const unlockLimit = 10 * time.Second

// Unlock gives the lock back, and does not wait until it has been held for the least time. The ctx of gocron has ended
// when its scheduler shuts down, and does not matter.
func (h *held) Unlock(ctx context.Context) error {
	unlock := func() error {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockLimit)
		defer cancel()
		return h.Lock.Unlock(limited)
	}
	if rest := time.Until(h.until); rest > 0 {
		time.AfterFunc(rest, func() { _ = unlock() }) // no caller is left for the error
		return nil
	}
	return unlock()
}
