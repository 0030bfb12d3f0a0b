// Command worker runs a crew of workers on the replica that leads, and only
// there. A replica that steps down keeps the lease until its last worker has
// finished what it had begun; then the next replica takes over.
//
// It runs three replicas against a NATS server of its own, or the one at
// NATS_URL, lets each leader resign after four seconds, and ends after ten. In a
// service every replica is a process, and serve is what it runs.
package main

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/examples/internal/scaffold"
	"github.com/natsleader/natsleader/examples/internal/timeline"
)

const (
	duration = 10 * time.Second // of the example
	tenure   = 4 * time.Second  // after which a leader resigns, to show a handover
)

var example = scaffold.Example{Name: "worker", Visits: true, Run: run}

func main() { example.Main() }

// run runs three replicas until the time is up or ctx ends.
func run(ctx context.Context, s *scaffold.Scaffold) error {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	s.Line(timeline.Bold, "three replicas on %s, for %v", s.URL, duration)
	s.Begin()
	return s.ConnectSeveral(ctx, 3, "replica", func(ctx context.Context, name string, js jetstream.JetStream) error {
		r := &replica{name: name, tl: s.Timeline}
		return r.serve(ctx, js)
	})
}
