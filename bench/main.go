// Command bench measures natsleader beside other libraries for leader election: on the same
// machine, in the same run and in turns. README.md explains what is measured.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

func main() {
	if code, played := playRole(); played {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the arguments.
type options struct {
	asJSON  bool
	svg     string
	full    bool
	many    int
	only    string
	systems string
	once    bool // the shortest form of each measure, for tests
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.asJSON, "json", false, "print the report in JSON")
	flags.StringVar(&o.svg, "svg", "", "write a picture of the report to `FILE`")
	flags.BoolVar(&o.full, "full", false, "also measure with the usual settings of each library, which takes a quarter of an hour")
	flags.IntVar(&o.many, "many", 1000, "the `number` of waiting candidates and of elections led by one process")
	flags.StringVar(&o.only, "measure", "", "measure only these, separated by commas: "+strings.Join(measureNames(), ", "))
	flags.StringVar(&o.systems, "system", "", "measure only these systems, separated by commas")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	b, err := newBench(o, stderr)
	if err != nil {
		return err
	}
	r, err := b.run(ctx)
	if err != nil {
		return err
	}
	if o.svg != "" {
		if err = os.WriteFile(o.svg, []byte(r.svg()), 0o644); err != nil {
			return err
		}
	}
	if o.asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	_, err = io.WriteString(stdout, r.text())
	return err
}
