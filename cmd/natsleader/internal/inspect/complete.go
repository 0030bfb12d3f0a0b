package inspect

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/internal/jsapi"
)

// Complete returns words of a kind for the shell, or none if they do not come soon. fisk asks twice for the same ones.
func Complete(g *front.Globals, what string, list func(context.Context, *Inspector) ([]string, error)) []string {
	if words, known := g.Words[what]; known || g.Words == nil {
		return words
	}
	g.Words[what] = nil
	const soon = time.Second
	g.Timeout = min(g.Timeout, soon)
	s, err := openInspector(g, nats.Timeout(soon))
	if err != nil {
		return nil
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), g.Timeout) // it is not asked why nothing answers
	defer cancel()
	g.Words[what], _ = Answer(ctx, s, func(ctx context.Context) ([]string, error) { return list(ctx, s) })
	return g.Words[what]
}

// ElectionNames completes the name of an election.
func ElectionNames(g *front.Globals) []string {
	return Complete(g, "elections", func(ctx context.Context, s *Inspector) ([]string, error) {
		all, err := s.All(ctx)
		return electionsIn(all), err
	})
}

// BucketNames completes the name of a bucket.
func BucketNames(g *front.Globals) []string {
	return Complete(g, "buckets", func(ctx context.Context, s *Inspector) ([]string, error) {
		var names []string
		all, err := s.Buckets(ctx)
		for _, b := range all {
			if jsapi.CheckBucketName(b.Name) == nil { // others may name streams as they like
				names = append(names, b.Name)
			}
		}
		return names, err
	})
}
