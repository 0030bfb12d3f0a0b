package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// byEvents is the loop of Run over events.
func (s *Service) byEvents(c *leader.Candidate) error {
	for e := range c.Events(context.Background(), leader.Elected{}) { // closed when c has ended
		term := e.(leader.Elected).Term
		term.Go(func(context.Context) { // the key is kept until it has returned
			s.work(term)
			_ = term.Resign(context.Background()) // hands over, unless the term is over
		})
	}
	return c.Err()
}

// A replica that ranges over events finishes the item that it has begun, too, and hands over after an error.
func TestService_ByEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		sends := make(chan string, 10) // the replica that begins each item
		stand := func(id string, fail error) (*leader.Candidate, <-chan error) {
			c, err := leader.Campaign(context.Background(), store.Link(id), "billing", leader.Config{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			s, ended := &Service{}, make(chan error, 1)
			s.Send = func(context.Context, uint64) error {
				sends <- id
				time.Sleep(5 * time.Second)
				return fail
			}
			go func() { ended <- s.byEvents(c) }()
			synctest.Wait()
			return c, ended
		}
		a, aEnded := stand("a", context.DeadlineExceeded)
		b, bEnded := stand("b", nil)
		time.Sleep(time.Minute + 5*time.Second)
		synctest.Wait()
		if !b.IsLeader() {
			t.Error("a has not handed over after the error")
		}
		time.Sleep(time.Minute + time.Second)
		began := time.Now()
		if err := b.Stop(); err != nil || time.Since(began) != 4*time.Second {
			t.Errorf("b stops with %v after %v", err, time.Since(began))
		}
		synctest.Wait()
		if !a.IsLeader() {
			t.Error("a does not follow b")
		}
		if err := a.Stop(); err != nil {
			t.Error(err)
		}
		if err := <-aEnded; err != nil {
			t.Error(err)
		}
		if err := <-bEnded; err != nil {
			t.Error(err)
		}
		if first, second := <-sends, <-sends; first != "a" || second != "b" || len(sends) != 0 {
			t.Errorf("%s sends, then %s, and %d more", first, second, len(sends))
		}
	})
}
