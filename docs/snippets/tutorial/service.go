package main

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/natsleader/natsleader/health"
	"github.com/natsleader/natsleader/leader"
)

// Service sends the invoices that are due, on the replica that leads.
type Service struct {
	Store leader.Store // a *leader.Bucket; in tests a *leadertest.Link
	Send  func(ctx context.Context, token uint64) error
	Mux   *http.ServeMux // gets the probes
}

// Run stands in the election until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	c, err := leader.Campaign(ctx, s.Store, "billing", leader.Config{
		GracePeriod: 20 * time.Second, // the longest item takes 15 s
		Logger:      slog.Default(),
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
			return // hands over
		}
	}
}
