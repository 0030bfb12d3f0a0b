package leadertest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// A worker of the user's own stops when leadership is lost. In a test, t is the
// *testing.T.
func Example() {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock)
	link := store.Link("a")
	candidate, err := leader.Campaign(context.Background(), link, "jobs", leader.Config{ID: "a"})
	if err != nil {
		t.Fatalf("Campaign: %v", err)
	}
	w := leadertest.Watch(t, clock, candidate)
	w.Expect(leadertest.Elected())
	worker := startWorker(w.Term().Context())

	link.Cut()
	clock.Advance(15 * time.Second)
	fmt.Println("the worker ended:", <-worker)
	w.Ignore(leadertest.Faulted()).ExpectExactly(leadertest.Fenced(leader.ErrLeaseExpired))

	link.Close()
	<-candidate.Done()
	// Output: the worker ended: leader: lease not confirmed before the renew deadline
}

// startWorker starts what is tested.
func startWorker(ctx context.Context) <-chan error {
	ended := make(chan error)
	go func() {
		<-ctx.Done()
		ended <- context.Cause(ctx)
	}()
	return ended
}

var t printer

// printer stands in for a *testing.T, which examples do not have.
type printer struct{}

func (printer) Helper()                           {}
func (printer) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
