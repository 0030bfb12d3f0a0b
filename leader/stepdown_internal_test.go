package leader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// The reports of the observer and the leader, in this order, and the result of StepDown.
// "a" was asked, and led with token 5.
func TestHandover(t *testing.T) {
	var (
		a       = Holder{State: HolderLeading, ID: "a", Token: 5}
		before  = Holder{State: HolderLeading, ID: "z", Token: 4}
		after   = Holder{State: HolderLeading, ID: "b", Token: 6}
		pending = Holder{State: HolderPending, ID: "b", Token: 6}
		waits   = Holder{State: HolderPending, ID: "a", Token: 5}
		nobody  = Holder{}
		foreign = Holder{State: HolderForeign}

		accepted = answer{stepDownReply: stepDownReply{Answer: answerAccepted}}
		over     = answer{stepDownReply: stepDownReply{Answer: answerOver}}
		refused  = answer{stepDownReply: stepDownReply{Answer: answerRefused}}
		silence  = answer{err: ErrUnreachable}
		denied   = answer{err: ErrPermission}
	)
	goesOn := errors.New("it goes on")
	for name, c := range map[string]struct {
		told []any
		want error
	}{
		"a successor":                            {[]any{a, after}, nil},
		"a successor without a":                  {[]any{after}, nil},
		"released":                               {[]any{a, nobody}, nil},
		"taken, not led yet":                     {[]any{a, pending}, nil},
		"overwritten":                            {[]any{a, foreign}, nil},
		"accepted, then released":                {[]any{a, accepted, nobody}, nil},
		"accepted, and never seen to lead":       {[]any{nobody, accepted}, nil},
		"over":                                   {[]any{a, over, nobody}, nil},
		"the answer is lost":                     {[]any{a, nobody, silence}, nil},
		"a read of the past, and no answer":      {[]any{nobody, silence}, nil},
		"accepted, and drains":                   {[]any{a, accepted}, goesOn},
		"a read of the past: an earlier leader":  {[]any{before}, goesOn},
		"a read of the past: nobody":             {[]any{nobody}, goesOn},
		"a read of the past: a is pending":       {[]any{waits}, goesOn},
		"a read of the past, and then released":  {[]any{nobody, a, nobody}, nil},
		"a read of the past, and then refused":   {[]any{nobody, refused}, ErrRequestRefused},
		"an earlier leader, and then refused":    {[]any{before, a, refused}, ErrRequestRefused},
		"no answer":                              {[]any{a, silence}, ErrUnreachable},
		"an earlier leader, and no answer":       {[]any{before, silence}, ErrUnreachable},
		"not allowed to ask":                     {[]any{a, denied}, ErrPermission},
		"not allowed, and a read of the past":    {[]any{nobody, denied}, ErrPermission},
		"the connection is closed":               {[]any{a, "closed"}, ErrConnectionClosed},
		"accepted, and the connection is closed": {[]any{a, accepted, "closed"}, ErrConnectionClosed},
	} {
		t.Run(name, func(t *testing.T) {
			holders, answers, got := make(chan Holder), make(chan answer), make(chan error, 1)
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				err := (&handover{of: a}).wait(ctx, holders, answers)
				if errors.Is(err, context.Canceled) {
					err = context.Cause(ctx)
				}
				got <- err
			}()
			closed := false
			for _, x := range c.told {
				switch x := x.(type) {
				case Holder:
					select {
					case holders <- x:
					case err := <-got: // StepDown has heard enough
						got <- err
					}
				case answer:
					select {
					case answers <- x:
					case err := <-got:
						got <- err
					}
				case string:
					closed = true
					close(holders)
				}
			}
			if errors.Is(c.want, goesOn) {
				select {
				case err := <-got:
					t.Fatalf("it has returned %v", err)
				case holders <- a: // StepDown still reads, so it goes on
				}
				cancel(goesOn)
				close(holders)
			} else if !closed {
				close(holders) // so that it returns, if it has not heard enough
			}
			err := <-got
			check.That(t, errors.Is(err, c.want), "got %v, want %v", err, c.want)
			cancel(nil)
		})
	}
}

// A transfer ends when nobody has led for a lease of the leader, also if candidates are pending meanwhile.
func TestHandover_WaitsForOneLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holders, began := make(chan Holder), time.Now()
		a := Holder{State: HolderLeading, ID: "a", Token: 5, Lease: 10 * time.Second}
		go func() {
			for _, next := range []Holder{a, {}, {State: HolderPending, ID: "b", Token: 6}} {
				holders <- next
				time.Sleep(6 * time.Second)
			}
		}()
		err := (&handover{of: a, succeeded: true}).wait(t.Context(), holders, nil)
		took := time.Since(began)
		check.That(t, errors.Is(err, ErrNotSucceeded) && took == 16*time.Second, "got %v after %v", err, took)
		time.Sleep(time.Minute)
	})
}
