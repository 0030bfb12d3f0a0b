// Command tutorial is the program of docs/tutorial.md.
package main

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/leadertest"
)

// A replica that stops finishes the item that it has begun, and the other one follows.
func TestService_HandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil) // uses the time of the bubble
		var mu sync.Mutex
		sending := map[string]int{}
		sent := map[string]int{}
		sentBy := func(name string) int {
			mu.Lock()
			defer mu.Unlock()
			return sent[name]
		}
		start := func(name string) (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			s := &Service{Store: store.Link(name), Mux: http.NewServeMux()}
			s.Send = func(context.Context, uint64) error {
				mu.Lock()
				sending[name]++
				if len(sending) > 1 {
					t.Errorf("two replicas send: %v", sending)
				}
				mu.Unlock()
				time.Sleep(10 * time.Second)
				mu.Lock()
				delete(sending, name)
				sent[name]++
				mu.Unlock()
				return nil
			}
			ended := make(chan error)
			go func() { ended <- s.Run(ctx) }()
			return func() {
				cancel()
				if err := <-ended; err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}

		stopA := start("a")
		synctest.Wait() // a leads
		stopB := start("b")
		time.Sleep(65 * time.Second) // a has been sending for 5 s
		begun := time.Now()
		stopA() // returns when a has released the key
		if took := time.Since(begun); took != 5*time.Second || sentBy("a") != 1 {
			t.Errorf("a has stopped after %v, and sent %d", took, sentBy("a"))
		}
		time.Sleep(75 * time.Second)
		synctest.Wait()
		if sentBy("b") != 1 {
			t.Errorf("b does not follow: it sent %d", sentBy("b"))
		}
		stopB()
	})
}
