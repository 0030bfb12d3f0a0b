// Command shards lets processes share 24 shards, to break it.
//
// It starts a NATS server of its own and five processes, and draws which process owns which shard. Commands
// kill a process, freeze and thaw it, stop it, and start it or another one:
//
//	kill b    freeze c    thaw c    stop a    start f    quit
//
// Each process works on an item of each of its shards every 100 ms, and reports it. All the while
// the example checks that no process works on a shard once a later owner has begun. It exits with
// 1 if one did. With -script it gives commands by itself, checks what follows, and ends.
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

const (
	groupName  = "orders"
	bucketName = "natsleader-examples"
	shards     = 24
	// memberVariable is set for the processes of members.
	memberVariable = "NATSLEADER_SHARDS_MEMBER"
)

func main() {
	if os.Getenv(memberVariable) != "" {
		if err := work(os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	scripted := flag.Bool("script", false, "give commands by itself, check what follows, and end")
	flag.Parse()
	run := interact
	if *scripted {
		run = script
	}
	scaffold.Example{Name: "shards", Run: run}.Main()
}

// interact draws the group at each change, and carries out the commands of the standard input.
func interact(ctx context.Context, s *scaffold.Scaffold) (err error) {
	f, err := open(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := f.start("a", "b", "c", "d", "e"); err != nil {
		return err
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
	}()
	const usage = "█ works, w waits until the work of another has ended, g has not begun, x is gone\n" +
		"kill b, freeze c, thaw c, stop a, start f, quit"
	said := usage
	for {
		s.Line(timeline.Plain, "\x1b[H\x1b[J%s\n%s", f.picture(), said) // on a cleared terminal
		select {
		case <-ctx.Done():
			return nil
		case f.view = <-f.views:
		case line, open := <-lines:
			words := strings.Fields(line)
			switch {
			case !open || line == "quit":
				return nil
			case len(words) != 2:
				said = usage
			default:
				said = line
				if err := f.do(words[0], words[1]); err != nil {
					said = err.Error()
				}
			}
		}
	}
}
