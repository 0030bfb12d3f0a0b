// Command tenants lets three processes work on the tenants of a bucket, each tenant on exactly one process, to add
// and remove tenants, and to break it.
//
// It starts a NATS server of its own, or uses the one at NATS_URL, and prints what begins and ends. Change the
// tenants in a second terminal, with the address that it prints:
//
//	nats --server nats://127.0.0.1:4222 kv put example_tenants tenants.acme gold
//	nats --server nats://127.0.0.1:4222 kv del example_tenants tenants.acme --force
//
// Commands stop a process, and start it or another one: "stop worker-1", "start worker-4", "quit". It exits with 1 if two
// processes work on a tenant at the same time. With -script it puts and deletes tenants and stops a process by
// itself, checks what follows, and ends.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/natsleader/natsleader/examples/internal/scaffold"
	"github.com/natsleader/natsleader/examples/internal/timeline"
)

func main() {
	scripted := flag.Bool("script", false, "give commands by itself, check what follows, and end")
	flag.Parse()
	run := interact
	if *scripted {
		run = script
	}
	scaffold.Example{Name: "tenants", Visits: true, Run: run}.Main()
}

// workers are those that the example starts.
var workers = []string{"worker-1", "worker-2", "worker-3"}

// interact carries out the commands of the standard input, until it ends or ctx does.
func interact(ctx context.Context, s *scaffold.Scaffold) (err error) {
	o, err := open(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	o.start(workers...)
	s.Line(timeline.Bold, "nats --server %s kv put %s tenants.acme gold", s.URL, tenantsName)
	s.Line(timeline.Bold, "nats --server %s kv del %s tenants.acme --force", s.URL, tenantsName)
	lines := make(chan string)
	go func() { // it ends with the process, which cannot interrupt a read of the standard input
		defer close(lines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case line, open := <-lines:
			switch verb, id, _ := strings.Cut(strings.TrimSpace(line), " "); {
			case !open:
				lines = nil // Ctrl-C ends the example
			case verb == "quit":
				return nil
			case verb == "start" && id != "":
				o.start(id)
			case verb == "stop" && id != "":
				o.stop(id)
			case verb != "":
				s.Line(timeline.Bold, "%s", "stop ID, start ID, or quit")
			}
		}
	}
}

// script puts tenants, stops a worker, and deletes the tenants, and checks each time which of them have a worker.
func script(ctx context.Context, s *scaffold.Scaffold) (err error) {
	o, err := open(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	o.start(workers...)
	var names []string
	for i := range 6 {
		names = append(names, fmt.Sprint("tenants.", i))
	}
	for _, name := range names {
		if _, err := o.tenants.PutString(ctx, name, "gold"); err != nil {
			return err
		}
	}
	if err := o.wait(ctx, names, workers); err != nil {
		return err
	}
	o.stop(workers[0])
	if err := o.wait(ctx, names, workers[1:]); err != nil {
		return err
	}
	for _, name := range names {
		if err := o.tenants.Delete(ctx, name); err != nil {
			return err
		}
	}
	return o.wait(ctx, nil, nil)
}
