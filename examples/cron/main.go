// Command cron runs a job every two seconds on exactly one of any number of
// processes: on the one that leads.
//
// Without arguments it runs three processes, as goroutines with a connection
// each, against a NATS server of its own. Halfway the leader hands over, and a
// run of its term that comes late is refused. It ends after ten seconds. With
// NATS_URL it is one process that uses that server and runs until Ctrl-C: start
// as many as you like.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/examples/internal/scaffold"
	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/leader"
)

const duration = 10 * time.Second // of the example, if it has a server of its own

var example = scaffold.Example{Name: "cron", Visits: true, Run: run}

func main() { example.Main() }

// run is one process at NATS_URL, or three on a server of their own.
func run(ctx context.Context, s *scaffold.Scaffold) error {
	if s.Visitor {
		s.Line(timeline.Bold, "a job every %v on one of the processes at %s; Ctrl-C ends this one", every, s.URL)
		s.Begin()
		return s.Connect(ctx, fmt.Sprintf("pid-%d", os.Getpid()), func(ctx context.Context, name string, js jetstream.JetStream) error {
			p := &process{name: name, tl: s.Timeline}
			return p.serve(ctx, js)
		})
	}
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	s.Line(timeline.Bold, "a job every %v on one of three processes, for %v", every, duration)
	s.Begin()
	return s.ConnectSeveral(ctx, 3, "cron", func(ctx context.Context, name string, js jetstream.JetStream) error {
		p := &process{name: name, tl: s.Timeline, tenure: duration / 2}
		return p.serve(ctx, js)
	})
}

// handOver resigns after the tenure, if there is one, to demonstrate a run of the
// old term that comes late.
func (p *process) handOver(ctx context.Context, term *leader.Term) {
	if p.tenure == 0 {
		return
	}
	select {
	case <-time.After(p.tenure):
	case <-term.Context().Done():
		return
	}
	p.tl.Say(p.name, "RESIGN", "token %d", term.Token())
	if err := term.Resign(ctx); err != nil && ctx.Err() == nil {
		p.tl.Say(p.name, "faulted", "%s", timeline.Reason(err))
	}
	select {
	case <-time.After(3 * every / 2):
		p.tl.Say(p.name, "LATE", "as if it had slept through the change")
		p.book(ctx, term.Token(), time.Now().Truncate(every).Add(every))
	case <-ctx.Done():
	}
}
