package main

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/leadertest"
)

// A replica that is cut off sends nothing after its lease.
func TestService_CutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := leadertest.NewStore(nil).Link("a")
		sends := 0
		s := &Service{Store: link, Mux: http.NewServeMux()}
		s.Send = func(context.Context, uint64) error { sends++; return nil }
		go func() {
			if err := s.Run(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(70 * time.Second)
		link.Cut() // no request arrives from now on
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if sends != 1 {
			t.Errorf("%d invoices, want the one before the cut", sends)
		}
	})
}
