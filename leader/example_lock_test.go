package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// A migration that one process at a time may run. The others wait for a minute.
func ExampleAcquire() {
	var bucket leader.Store = leadertest.NewStore(leadertest.NewClock()) // in production a leader.Bucket
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lock, err := leader.Acquire(ctx, bucket, "migration", leader.Config{ID: "ann"})
	if err != nil {
		log.Fatal(err)
	}
	for _, step := range []string{"tables", "indexes"} {
		if err = lock.Err(); err != nil { // asks the clock
			break
		}
		fmt.Println("migrates", step)
	}
	if err = errors.Join(err, lock.Unlock(context.Background())); err != nil {
		log.Fatal(err)
	}
	// Output:
	// migrates tables
	// migrates indexes
}

// A job that is left out while another process runs it.
func ExampleTryAcquire() {
	var bucket leader.Store = leadertest.NewStore(leadertest.NewClock()) // in production a leader.Bucket
	report := func(id string, work func()) {
		lock, err := leader.TryAcquire(context.Background(), bucket, "report", leader.Config{ID: id})
		var held *leader.HeldError
		switch {
		case errors.As(err, &held):
			fmt.Println(err)
			return
		case err != nil:
			log.Fatal(err)
		}
		work()
		if err = lock.Unlock(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
	report("ann", func() {
		fmt.Println("ann writes the report")
		report("bob", func() { fmt.Println("bob writes the report") })
	})
	// Output:
	// ann writes the report
	// leader: the lock "report" is held: "ann" leads with token 1, renewed at 2000-01-01T00:00:00Z
}

// The interfaces of gocron (github.com/go-co-op/gocron/v2), for gocron.WithDistributedLocker and
// gocron.WithDistributedElector.
type (
	gocronLock interface {
		Unlock(ctx context.Context) error
	}
	gocronLocker interface {
		Lock(ctx context.Context, key string) (gocronLock, error)
	}
	gocronElector interface {
		IsLeader(ctx context.Context) error
	}
)

// locker lets one process run each job. The key is the name of the job, so that must be a
// valid name of an election.
type locker struct{ bucket leader.Store }

func (l locker) Lock(ctx context.Context, key string) (gocronLock, error) {
	lock, err := leader.TryAcquire(ctx, l.bucket, key, leader.Config{})
	if err != nil {
		return nil, err // and not a gocron.Lock that holds a nil *Lock
	}
	return lock, nil
}

// elector lets the leader run all jobs.
type elector struct{ candidate *leader.Candidate }

func (e elector) IsLeader(context.Context) error {
	if !e.candidate.IsLeader() {
		return leader.ErrNotLeader
	}
	return nil
}

// The Locker and the Elector of gocron. With a Locker, as with every one for gocron, a job that
// takes less time than the clocks of two hosts differ runs twice: hold the lock for longer.
// With an Elector a job goes on when the leadership ends: ask leader.Err in its steps.
func Example_gocron() {
	var _ gocronLocker = locker{}
	var _ gocronElector = elector{}
	jobs := locker{leadertest.NewStore(leadertest.NewClock())} // in production a leader.Bucket
	lock, err := jobs.Lock(context.Background(), "nightly")
	fmt.Println("the first:", err)
	_, err = jobs.Lock(context.Background(), "nightly")
	fmt.Println("the second is left out:", errors.As(err, new(*leader.HeldError)))
	fmt.Println("unlock:", lock.Unlock(context.Background()))
	// Output:
	// the first: <nil>
	// the second is left out: true
	// unlock: <nil>
}
