package jsapi

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/deadline"
)

// queue is a stream whose server answers nothing. Its callers keep their turns.
type queue struct {
	*testing.T
	Stream
	began time.Time
}

// patron is a caller of Turn.
type patron struct {
	cancel context.CancelFunc
	done   func()
	err    error
	after  time.Duration // 0 and no done: it still waits
}

func withQueue(t *testing.T, f func(q *queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		held := deadline.Held()
		q := &queue{T: t, began: time.Now()}
		q.Name, q.window, q.conn = "S", backend.NewWindow(leastSlots, mostSlots), &Connection{}
		f(q)
		time.Sleep(2 * time.Hour) // all contexts have ended
		synctest.Wait()
		q.wantLeft(Left{})
		check.Equal(t, deadline.Held()-held, 0, "%d limits were not released")
	})
}

func (q *queue) wantLeft(want Left) {
	q.Helper()
	got := q.Left()
	check.That(q.T, got == want, "left: %+v, want %+v", got, want)
}

// turns has callers ask for turns, one after another, and give up after that time.
func (q *queue) turns(n int, patience time.Duration) (all []*patron) {
	for range n {
		p := &patron{}
		ctx, cancel := context.WithTimeout(q.Context(), patience)
		p.cancel = cancel
		go func() {
			done, err := q.Turn(ctx)
			p.done, p.err, p.after = done, err, time.Since(q.began)
		}()
		synctest.Wait()
		all = append(all, p)
	}
	return all
}

// wantTurn checks that callers have got turns after that time, and takes the turns back.
func (q *queue) wantTurn(after time.Duration, all ...*patron) {
	q.Helper()
	for i, p := range all {
		if p.done == nil || p.err != nil || p.after != after {
			q.Errorf("caller %d: turn: %v, %v after %v, want a turn after %v", i, p.done != nil, p.err, p.after, after)
			continue
		}
		p.done()
		p.cancel()
	}
	synctest.Wait()
}

// wantGivenUp checks that callers have given up after that time.
func (q *queue) wantGivenUp(after time.Duration, all ...*patron) {
	q.Helper()
	for i, p := range all {
		if p.cancel(); p.done != nil || !errors.Is(p.err, backend.ErrUnreachable) || !IsUnsent(p.err) || !errors.Is(p.err, context.DeadlineExceeded) || p.after != after {
			q.Errorf("caller %d: turn: %v, %v after %v, want it to give up after %v", i, p.done != nil, p.err, p.after, after)
		}
	}
}

// Half of the slots are for reads. Callers that wait get a turn in their order. Those that give
// up while they wait leave the line, so the turns go to others.
func TestTurn_GiveUpLeavesTheLine(t *testing.T) {
	withQueue(t, func(q *queue) {
		first := q.turns(leastSlots/2, time.Hour)
		impatient := q.turns(100, time.Second)
		second := q.turns(2, time.Minute)
		q.wantLeft(Left{Slots: leastSlots / 2, Turns: 102})
		_, oldest := q.window.Waiting(time.Now())
		check.That(q.T, oldest == 0, "the line is %v old, although no candidate waits", oldest)
		time.Sleep(time.Second)
		synctest.Wait()
		q.wantGivenUp(time.Second, impatient...)
		q.wantLeft(Left{Slots: leastSlots / 2, Turns: 2})
		time.Sleep(time.Second)
		q.wantTurn(0, first[0])
		check.That(q.T, second[0].done != nil && second[1].done == nil,
			"the second caller that waits has a turn before the first one")
		q.wantTurn(2*time.Second, second[0])
		q.wantTurn(2*time.Second, second[1])
		q.wantTurn(0, first[1:]...)
	})
}

// A caller that gives up as its turn comes either has the turn, or gives it back.
func TestTurn_GiveUpAsTheTurnComes(t *testing.T) {
	withQueue(t, func(q *queue) {
		first := q.turns(leastSlots/2, time.Hour)
		for range 100 { // select chooses at random
			p := q.turns(1, time.Hour)[0]
			q.wantLeft(Left{Slots: leastSlots / 2, Turns: 1})
			p.cancel()
			if first[0].done == nil {
				q.Error("a turn is lost")
				return
			}
			first[0].done()
			synctest.Wait()
			if p.err == nil {
				p.done()
			}
			q.wantLeft(Left{Slots: leastSlots/2 - 1})
			first[0] = q.turns(1, time.Hour)[0]
		}
		for _, p := range first {
			p.done()
			p.cancel()
		}
	})
}

// A caller that has waited for a while takes a slot that reads must not take. Then it waits in
// the line of writes.
func TestTurn_IsUrgentAfterAWhile(t *testing.T) {
	withQueue(t, func(q *queue) {
		reads := q.turns(leastSlots/2, time.Hour)
		const more = leastSlots / 4 // that writes may take
		late := q.turns(more+2, time.Minute)
		time.Sleep(urgent)
		synctest.Wait()
		q.wantLeft(Left{Slots: leastSlots/2 + more, Turns: 2})
		slices.SortStableFunc(late, func(a, b *patron) int { return cmp.Compare(b.after, a.after) }) // those that wait last
		time.Sleep(time.Second)
		q.wantTurn(urgent, late[0])
		time.Sleep(time.Minute - urgent - time.Second)
		synctest.Wait()
		slices.SortStableFunc(late[more:], func(a, b *patron) int { return cmp.Compare(a.after, b.after) })
		q.wantTurn(urgent+time.Second, late[more])
		q.wantGivenUp(time.Minute, late[more+1])
		q.wantTurn(urgent, late[1:more]...)
		q.wantTurn(0, reads...)
	})
}
