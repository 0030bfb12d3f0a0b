package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/examples/internal/child"
	"github.com/natsleader/natsleader/examples/internal/scaffold"
	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// fleet is the processes of the example, and what is known of them.
type fleet struct {
	*scaffold.Scaffold
	nc    *nats.Conn
	views <-chan shard.View
	view  shard.View // the newest
	rows  []*row     // in the order of their start

	mu    sync.Mutex
	judge judge
}

// row is a process, of which one after another may have the ID.
type row struct {
	id    string
	proc  *child.Process
	state string // of the process; empty: it runs
}

// open connects to the server, and makes the bucket.
func open(ctx context.Context, s *scaffold.Scaffold) (_ *fleet, err error) {
	f := &fleet{Scaffold: s}
	if f.nc, err = nats.Connect(s.URL, nats.MaxReconnects(-1)); err != nil {
		return nil, err
	}
	js, err := jetstream.New(f.nc)
	if err == nil {
		var bucket *leader.Bucket
		if bucket, err = leader.CreateOrUpdateBucket(ctx, js, leader.BucketConfig{Name: bucketName}); err == nil {
			f.views, err = shard.Observe(ctx, bucket, groupName)
		}
	}
	if err != nil {
		f.nc.Close()
	}
	return f, err
}

// close stops all processes, and returns what was wrong.
func (f *fleet) close() error {
	var stops sync.WaitGroup
	for _, r := range f.rows {
		_ = r.proc.Thaw() // it may have ended
		stops.Go(func() { r.proc.Stop(10 * time.Second) })
	}
	stops.Wait()
	f.nc.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Line(timeline.Bold, "%d items, %d of them beside a later owner", f.judge.items, len(f.judge.broken))
	if len(f.judge.broken) > 0 {
		return errors.New("two owners of " + f.judge.broken[0])
	}
	return nil
}

func (f *fleet) row(id string) *row {
	for _, r := range f.rows {
		if r.id == id {
			return r
		}
	}
	return nil
}

// plain are the names of processes for which the picture has room.
var plain = regexp.MustCompile(`^[a-z]{1,3}$`)

// start starts processes.
func (f *fleet) start(ids ...string) error {
	for _, id := range ids {
		if !plain.MatchString(id) {
			return fmt.Errorf("%q is not a name of up to three letters", id)
		}
		proc, err := child.Start(memberVariable, []string{id, f.URL}, func(line []byte) {
			var number int
			var token uint64
			var at int64
			if n, _ := fmt.Sscan(string(line), &number, &token, &at); n == 3 { // the last line of a killed process may be cut
				f.mu.Lock()
				defer f.mu.Unlock()
				f.judge.take(id, number, token, at)
			}
		})
		if err != nil {
			return err
		}
		if r := f.row(id); r != nil {
			r.proc, r.state = proc, ""
		} else {
			f.rows = append(f.rows, &row{id: id, proc: proc})
		}
	}
	return nil
}

// do carries out a command.
func (f *fleet) do(verb, id string) error {
	r := f.row(id)
	switch {
	case verb == "start" && (r == nil || r.state == "killed" || r.state == "stopped"):
		return f.start(id)
	case r == nil:
		return fmt.Errorf("there is no process %s", id)
	case verb == "kill" && (r.state == "" || r.state == "frozen"):
		r.state = "killed"
		r.proc.Kill()
	case verb == "stop" && r.state == "":
		r.state = "stopped"
		r.proc.Quit()
	case verb == "freeze" && r.state == "":
		r.state = "frozen"
		return r.proc.Freeze()
	case verb == "thaw" && r.state == "frozen":
		r.state = ""
		return r.proc.Thaw()
	default:
		return fmt.Errorf("cannot %s process %s", verb, id)
	}
	return nil
}

// cells are how the picture shows the state of an owner.
var cells = map[shard.OwnerState]string{shard.OwnerWorks: "█", shard.OwnerWaits: "w", shard.OwnerGranted: "g", shard.OwnerIsGone: "x"}

// picture returns which process owns which shard: a row for each process, and a column for each shard. The owner works (█), waits
// until the work of another has ended (w), has not begun (g), or is gone (x).
func (f *fleet) picture() string {
	var p strings.Builder
	fmt.Fprintf(&p, "%13s0         1         2\n%13s%s\n", "", "", "012345678901234567890123")
	for _, r := range f.rows {
		fmt.Fprintf(&p, "%-4s%-8s ", r.id, r.state)
		has := 0
		for n := range shards {
			if n < len(f.view.Owners) && f.view.Owners[n].ID == r.id {
				p.WriteString(cells[f.view.Owners[n].State])
				has++
			} else {
				p.WriteString("·")
			}
		}
		fmt.Fprintf(&p, " %2d", has)
		if f.view.Assigner.ID == r.id {
			p.WriteString(" spreads the shards")
		}
		if said := r.proc.Errors(); said != "" {
			p.WriteString(" " + said)
		}
		p.WriteString("\n")
	}
	return p.String()
}
