// Command fenced lets the NATS server refuse the writes of a leader that has been
// followed by another. Each leader writes its name to one key of a bucket, as fast
// as it can. Its worker never looks at the context that ends with the term.
//
// It runs two processes, as goroutines, against a NATS server of its own. The first
// part uses a guarded bucket, where only the leader can write. The second part uses
// plain Put, to show the loss of data. The command ends by itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/examples/internal/scaffold"
	"github.com/natsleader/natsleader/examples/internal/timeline"
)

// atMost is how long two terms may take.
const atMost = 30 * time.Second

var example = scaffold.Example{Name: "fenced", Run: run}

func main() { example.Main() }

// run shows the bucket with its guard, and without.
func run(ctx context.Context, s *scaffold.Scaffold) error {
	s.Line(timeline.Bold, "a guarded bucket, and each leader writes with the writer of its term")
	if err := perform(ctx, s, "orders", true); err != nil || ctx.Err() != nil {
		return err
	}
	s.Line(timeline.Plain, "")
	s.Line(timeline.Bold, "the same with plain Put")
	return perform(ctx, s, "unguarded", false)
}

// perform lets two processes write until two terms have been seen.
func perform(interrupted context.Context, s *scaffold.Scaffold, bucket string, guarded bool) error {
	ctx, end := context.WithTimeout(interrupted, atMost)
	defer end()
	play := newPlay(ctx, s.Timeline, end)
	s.Begin()
	err := s.ConnectSeveral(ctx, 2, "process", func(ctx context.Context, name string, js jetstream.JetStream) error {
		p := &process{name: name, bucket: bucket, guarded: guarded, play: play}
		return p.run(ctx, js)
	})
	switch {
	case interrupted.Err() != nil:
		return nil
	case err != nil:
		return err
	case errors.Is(play.refused.Err(), context.DeadlineExceeded):
		return fmt.Errorf("two terms took longer than %v", atMost)
	case play.read == play.wrote:
		s.Line(timeline.Good, "what the leader wrote stands")
	default:
		s.Line(timeline.Bad, "what the leader wrote is lost: %s wrote over it, and leads no more", play.read)
	}
	return nil
}
