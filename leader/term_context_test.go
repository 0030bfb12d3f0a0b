package leader_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// leads returns the term of a candidate in a bubble, the clock of which is moved by hand and
// has late timers.
func leads(ctx context.Context, t *testing.T) (*leader.Term, *handClock) {
	t.Helper()
	clock := &handClock{now: time.Now()}
	c := check.Got(leader.Campaign(ctx, newPlainStore(), "e", leader.Config{Clock: clock}))(t)
	synctest.Wait()
	term, ok := c.Term()
	check.Must(t, ok, "does not lead")
	return term, clock
}

// The context and all that derive from it end with the cause as soon as any of them that asks
// the clock is asked, although no timer has fired.
func TestContext_AsksTheClock(t *testing.T) {
	type key struct{}
	for name, ask := range map[string]func(context.Context) error{
		"Err":        context.Context.Err,
		"Done":       func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"leader.Err": func(ctx context.Context) error { _ = leader.Err(ctx); return ctx.Err() },
		"a child":    func(ctx context.Context) error { c, end := context.WithCancel(ctx); defer end(); return c.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				term, clock := leads(context.WithValue(ctx, key{}, 1), t)
				lead := term.Context()
				children := []context.Context{context.WithValue(lead, key{}, 2)}
				add := func(c context.Context, end func()) { children = append(children, c); t.Cleanup(end) }
				add(context.WithCancel(lead))
				add(context.WithTimeout(lead, time.Hour))
				c, end := context.WithCancelCause(lead)
				add(context.WithTimeout(c, time.Hour))
				t.Cleanup(func() { end(nil) })
				called := false
				context.AfterFunc(lead, func() { called = true })

				clock.move(plainDeadline - 1)
				if lead.Err() != nil || leader.Err(children[2]) != nil || lead.Value(key{}) != 1 {
					t.Fatalf("before the deadline: %v, %v", lead.Err(), leader.Err(children[2]))
				}
				clock.move(1)
				err := leader.Err(children[3])
				check.That(t, name != "Check" || errors.Is(err, leader.ErrLeaseExpired), "Check returned %v", err)
				check.Is(t, ask(lead), context.Canceled)
				synctest.Wait()
				for i, child := range children {
					if !errors.Is(context.Cause(child), leader.ErrLeaseExpired) || !errors.Is(leader.Err(child), leader.ErrLeaseExpired) {
						t.Errorf("child %d ended with %v, Err returns %v", i, context.Cause(child), leader.Err(child))
					}
				}
				check.That(t, called, "the AfterFunc was not called")
				clean := context.WithoutCancel(children[2])
				if got, ok := leader.FromContext(clean); !ok || got != term || clean.Err() != nil {
					t.Errorf("WithoutCancel: %v, %v", got, clean.Err())
				}
			})
		})
	}
}

// A context that derives from the term's costs no goroutine, has no deadline of its own from
// it, and can be printed while the term is renewed.
func TestContext_Children(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, clock := leads(t.Context(), t)
		lead := term.Context()
		before := runtime.NumGoroutine()
		for range 100 {
			c, end := context.WithTimeout(lead, 10*plainDeadline)
			defer end()
			c, end2 := context.WithCancelCause(context.WithValue(c, termOf{}, 1))
			defer end2(nil)
			defer context.AfterFunc(c, func() {})()
		}
		if got := runtime.NumGoroutine(); got >= before+100 { // the runtime has some of its own
			t.Errorf("%d goroutines more", got-before)
		}
		at, ok := lead.Deadline()
		check.That(t, !ok, "it has the deadline %v", at)
		timed, end := context.WithTimeout(lead, 2*plainDeadline) // longer than the lease
		defer end()
		for range 5 { // renewals prolong the lease meanwhile
			clock.move(plainDeadline / 2)
			clock.tick()
			text := fmt.Sprint(timed)
			check.That(t, strings.Contains(text, fmt.Sprintf("leader.Term(token %d).Context", term.Token())),
				"%s", text)
		}
		if lead.Err() != nil || timed.Err() != nil {
			t.Errorf("%v, %v", lead.Err(), timed.Err())
		}
		time.Sleep(2*plainDeadline + 1)
		if !errors.Is(timed.Err(), context.DeadlineExceeded) {
			t.Errorf("the timeout of a child gives %v", timed.Err())
		}
	})
}

// Exact makes a context ask the clock that package context has derived from a term's, at any depth.
func TestExact_AsksTheClock(t *testing.T) {
	type key struct{}
	for name, derive := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"the same":   func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
		"WithCancel": context.WithCancel,
		"WithTimeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		},
		"a timeout in another": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, end := context.WithTimeout(ctx, time.Hour)
			inner, cancel := context.WithTimeout(context.WithValue(leader.Exact(ctx), key{}, 1), time.Hour)
			return inner, func() { cancel(); end() }
		},
	} {
		for _, asked := range []string{"Err", "Done"} {
			t.Run(name+"/"+asked, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					term, clock := leads(t.Context(), t)
					derived, cancel := derive(term.Context())
					defer cancel()
					work := leader.Exact(derived)
					clock.move(plainDeadline - 1)
					check.OK(t, work.Err())
					clock.move(1)
					if asked == "Done" {
						<-work.Done()
					}
					check.Is(t, work.Err(), context.Canceled)
					check.Is(t, context.Cause(work), leader.ErrLeaseExpired)
					check.Is(t, derived.Err(), context.Canceled)
					check.That(t, strings.Contains(fmt.Sprint(work), "leader.Exact(leader.Term(token") ||
						strings.Contains(fmt.Sprint(work), "leader.Exact(context."), "its text is %v", work)
				})
			})
		}
	}
}

// The end of a context of its own does not end the term, and one that has been cut off from the term
// does not end with it.
func TestExact_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, clock := leads(t.Context(), t)
		timed, cancel := context.WithTimeout(term.Context(), time.Second)
		defer cancel()
		work, free := leader.Exact(timed), leader.Exact(context.WithoutCancel(timed))
		time.Sleep(time.Second)
		synctest.Wait()
		check.Is(t, work.Err(), context.DeadlineExceeded)
		check.OK(t, term.Context().Err())
		clock.move(plainDeadline)
		check.OK(t, free.Err())
		check.Is(t, leader.Err(term.Context()), leader.ErrLeaseExpired)
	})
}

// A context of no term has no leader.
func TestExact_WithoutTerm(t *testing.T) {
	work := leader.Exact(t.Context())
	<-work.Done()
	check.Is(t, context.Cause(work), leader.ErrNotLeader)
}

// A goroutine that asks while another ends the term finds the derived context ended.
func TestExact_TwoThatAskAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 {
			ctx, cancel := context.WithCancel(t.Context())
			term, clock := leads(ctx, t)
			work := make([]context.Context, 4)
			for i := range work {
				timed, end := context.WithTimeout(term.Context(), time.Hour)
				defer end()
				work[i] = leader.Exact(timed)
			}
			clock.move(plainDeadline)
			var all sync.WaitGroup
			for _, w := range work {
				all.Go(func() { check.Is(t, w.Err(), context.Canceled) })
			}
			all.Wait()
			cancel()
			synctest.Wait()
		}
	})
}

type termOf struct{}

// Err is for contexts of a term. In any other context there is no leader.
func TestErr_WithoutTerm(t *testing.T) {
	check.Is(t, leader.Err(t.Context()), leader.ErrNotLeader)
	_, ok := leader.FromContext(t.Context())
	check.That(t, !ok, "a term")
	err := leader.Err(new(leader.Term).Context())
	check.That(t, errors.Is(err, leader.ErrNotLeader) || errors.Is(err, leader.ErrStopped),
		"of a zero term: %v", err)
}

// Where both the term and the context have ended, Err returns the cause of the term.
func TestErr_TermBeforeContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		term, clock := leads(ctx, t)
		work, end := context.WithCancel(term.Context())
		end()
		check.Is(t, leader.Err(work), context.Canceled)
		clock.move(plainDeadline)
		check.Is(t, leader.Err(work), leader.ErrLeaseExpired)
	})
}

// A term of a candidate whose context belongs to another term is a term of its own.
func TestFromContext_Nested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, _ := leads(t.Context(), t)
		inner, _ := leads(outer.Context(), t)
		got, _ := leader.FromContext(inner.Context())
		check.That(t, got == inner, "%v", got)
	})
}
