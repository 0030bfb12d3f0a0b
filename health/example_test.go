package health_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/natsleader/natsleader/health"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

func ExampleLeader() {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock) // in production a leader.Bucket
	a, err := leader.Campaign(context.Background(), store.Link("a"), "billing", leader.Config{ID: "a", Value: []byte("10.0.0.1:8080")})
	if err != nil {
		panic(err)
	}
	b, err := leader.Campaign(context.Background(), store.Link("b"), "billing", leader.Config{ID: "b"})
	if err != nil {
		panic(err)
	}
	clock.Settle()

	for _, c := range []*leader.Candidate{a, b} {
		mux := http.NewServeMux() // each in a process of its own
		mux.Handle("/leader", health.Leader(c))
		mux.Handle("/live", health.Live(c))
		mux.Handle("/connected", health.Connected(c))
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/leader", http.NoBody))
		fmt.Print(w.Code, " ", w.Body)
	}

	for _, id := range []string{"a", "b"} {
		store.Link(id).Close()
	}
	<-a.Done()
	<-b.Done()
	// Output:
	// 200 {"election":"billing","id":"a","state":"leader","is_leader":true,"token":1,"lease_remaining_seconds":12}
	// 503 {"election":"billing","id":"b","state":"candidate","is_leader":false,"leader":{"id":"a","value":"10.0.0.1:8080","token":1,"since":"2000-01-01T00:00:00Z"}}
}
