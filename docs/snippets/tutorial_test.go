package snippets_test

import (
	"context"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/health"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// Service sends the invoices that are due, on the replica that leads.
type Service struct {
	Name  string
	Store leader.Store // a *leader.Bucket; in tests a *leadertest.Link
	Send  func(ctx context.Context, token uint64) error

	Mux *http.ServeMux
}

// Run stands in the election until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	c, err := leader.Campaign(ctx, s.Store, "billing", leader.Config{
		ID:           s.Name,
		DrainTimeout: 20 * time.Second, // the longest item takes 15 s
		Logger:       slog.Default(),
	})
	if err != nil {
		return err
	}
	s.Mux.Handle("/leader", health.Leader(c))
	s.Mux.Handle("/live", health.Live(c))
	s.Mux.Handle("/connected", health.Connected(c))
	for term := range c.Terms() {
		s.work(term)
	}
	return c.Err() // nil when ctx has ended
}

// work sends invoices every minute until the term ends.
func (s *Service) work(term *leader.Term) {
	lead := term.Context()
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for {
		select {
		case <-minute.C:
		case <-lead.Done():
		}
		if lead.Err() != nil { // not in the select: after a pause both cases are ready
			return
		}
		if err := s.Send(lead, term.Token()); err != nil {
			slog.Error("cannot send", "err", err)
			return // hands over; this replica tries again after one lease
		}
	}
}

func runService() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(nats.DefaultURL, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true),
		nats.PingInterval(time.Second), nats.FlusherTimeout(2*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	bucket, err := leader.EnsureBucket(js, leader.BucketConfig{Name: "elections", Replicas: 3})
	if err != nil {
		log.Fatal(err)
	}
	s := &Service{Name: os.Getenv("POD_NAME"), Store: bucket, Send: sendInvoices, Mux: http.DefaultServeMux}
	go func() { log.Println(http.ListenAndServe(":8080", nil)) }()
	if err := s.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

var _ = runService

func sendInvoices(context.Context, uint64) error { return nil }

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
			s := &Service{Name: name, Store: store.Link(name), Mux: http.NewServeMux()}
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

// A replica that is cut off sends nothing after its lease.
func TestService_CutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		link := store.Link("a")
		ctx, cancel := context.WithCancel(t.Context())
		sends := 0
		s := &Service{Name: "a", Store: link, Mux: http.NewServeMux()}
		s.Send = func(context.Context, uint64) error { sends++; return nil }
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()

		time.Sleep(70 * time.Second)
		link.Cut() // no request arrives from now on
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if sends != 1 {
			t.Errorf("%d invoices without a lease", sends-1)
		}
		link.Restore()
		time.Sleep(75 * time.Second)
		synctest.Wait()
		if sends != 2 {
			t.Errorf("%d invoices, with a lease again", sends-1)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
