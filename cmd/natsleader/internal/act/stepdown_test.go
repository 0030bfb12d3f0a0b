package act

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The leader that follows is awaited for a moment, not for as long as the request may take.
func TestStepDown_NobodyFollows(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		began := time.Now()
		done := expect.Got(HandedOver(w.Context(), w.Bucket, "billing", time.Minute, leader.Holder{ID: "a", Token: 7}, nil))(w)
		expect.That(w, done.Leader == nil && time.Since(began) == 4*time.Second, "%+v after %v", done.Leader, time.Since(began))
	})
}

// Each way in which a request fails has its exit code. The text leaves out what is not known of the leader.
func TestExplainFailure(t *testing.T) {
	named := leader.Holder{ID: "a"}
	other := errors.New("other")
	for i, x := range []struct {
		err  error
		was  leader.Holder
		code int
		says string
	}{
		{leader.ErrNoLeader, named, front.ExitFailed, "nobody leads billing"},
		{leader.ErrNoLeader, leader.Holder{ID: "b", State: leader.HolderLeading}, front.ExitFailed, "b leads billing now, and was not asked"},
		{leader.ErrUnreachable, leader.Holder{}, front.ExitUnreachable, leader.ErrUnreachable.Error()},
		{context.DeadlineExceeded, named, front.ExitWaited, "a has not handed over within 3s; it still may"},
		{context.DeadlineExceeded, leader.Holder{}, front.ExitUnreachable, context.DeadlineExceeded.Error()},
		{other, named, front.ExitFailed, "other"},
	} {
		err := explainFailure(x.err, "billing", x.was, 3*time.Second)
		expect.That(t, front.CodeOf(err) == x.code && err.Error() == x.says, "%d: %d, %v", i, front.CodeOf(err), err)
	}
}

// A term that is over when its leader is asked needs no request.
func TestDrain_TermIsOver(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		s := &StepDown{Globals: w.Globals(), Wait: time.Minute}
		was := facts.ElectionStatus{Election: "free", Holder: leader.Holder{ID: "a", Token: 7}}
		done, err := s.ask(w.Context(), w.Bucket, was)
		expect.Must(w, err == nil && done.Over && done.Leader == nil && done.From != nil && *done.From == (leaderSummary{"a", 7}),
			"%+v, %v", done, err)
		b := w.Campaigns("taken", leader.Config{ID: "b"})
		token := expect.Got(leader.Lookup(w.Context(), w.Bucket, "taken"))(w).Token
		done, err = s.ask(w.Context(), w.Bucket, facts.ElectionStatus{Election: "taken", Holder: leader.Holder{ID: "a", Token: token - 1}})
		expect.Must(w, err == nil && done.Over && done.Leader != nil && *done.Leader == (leaderSummary{"b", token}), "%+v, %v", done, err)
		expect.Equal(w, strings.Join(done.lines(), "; "), fmt.Sprintf("a was not asked, and leads no more: taken (token %d); b leads with token %d", token-1, token), "%s; want %s")
		expect.That(w, b.IsLeader(), "the leader that was not meant has handed over")
	})
}

// Of several failures the exit code is the greatest, in any order. A leader that leads again is a failure, and so is a member that has
// joined after the drain.
func TestDrain_EndsWithGreatestCode(t *testing.T) {
	s := &Drain{StepDown: StepDown{Globals: &front.Globals{Bucket: "elections"}, asJSON: true}, Name: "a", Cordon: true}
	again := []facts.ElectionStatus{{Election: "billing"}}
	for i := range 50 { // the order of a map differs
		all := map[asked]error{{"ok", "a"}: nil}
		for j, code := range []int{front.ExitFailed, front.ExitWaited, front.ExitUnreachable, front.ExitFailed, front.ExitUnreachable} {
			all[asked{fmt.Sprint(i, j), "a"}] = front.ExitError{Code: code, Err: errors.New("no")}
		}
		err := s.end(all, again, "", nil)
		expect.Must(t, front.CodeOf(err) == front.ExitWaited && err.Error() == "5 of 6 leaders have not handed over", "%d: %v", front.CodeOf(err), err)
	}
	silent := map[asked]error{{"billing", "a"}: front.ExitError{Code: front.ExitUnreachable, Err: errors.New("no")}}
	expect.Equal(t, front.CodeOf(s.end(silent, again, "", front.ExitError{Code: front.ExitWaited, Err: errors.New("no")})), front.ExitWaited, "members that wait: %d")
	expect.Equal(t, front.CodeOf(s.end(silent, again, "", front.ExitError{Code: front.ExitFailed, Err: errors.New("no")})), front.ExitUnreachable, "a leader that is silent: %d")
	err := s.end(nil, nil, "8 shards of group orders", nil)
	expect.That(t, front.CodeOf(err) == front.ExitFailed && err.Error() == "a owns 8 shards of group orders: a member has joined meanwhile", "%d: %v", front.CodeOf(err), err)
}
