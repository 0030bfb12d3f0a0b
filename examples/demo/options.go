package main

import (
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"
)

// maxWorkers keeps the demo within the capacity of one process and one terminal.
const maxWorkers = 500

// options are the settings of the demo.
type options struct {
	key      string        // the election
	workers  int           // how many candidates
	context  string        // of the nats command line; empty: an embedded server
	splay    bool          // spread the start of the candidates
	duration time.Duration // how long to play
	lease    time.Duration
	pause    time.Duration // between one fault and the next
	verbose  bool          // print every event of every candidate
	svg      string        // file for a picture of the faults; empty: none
}

// settingError is an error in a setting of the demo.
type settingError struct{ error }

// Unwrap returns the error itself.
func (e settingError) Unwrap() error { return e.error }

const usage = `Usage: demo [flags]

Environment:
  KEY        the election (default demo)
  WORKERS    how many candidates (default 10)
  NOSPLAY    1 starts all candidates at once
  CONTEXT    a context of the nats command line to connect with, instead of
             starting a server
  NO_COLOR   anything switches the colours off

Flags:
`

// parseOptions reads flags and environment. Its errors name the setting and the
// mistake in it.
func parseOptions(args []string, getenv func(string) string, stderr io.Writer) (options, error) {
	o := options{key: "demo", workers: 10, context: getenv("CONTEXT"), splay: true}

	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are returned
	flags.Usage = func() {
		flags.SetOutput(stderr)
		_, _ = fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	flags.DurationVar(&o.duration, "duration", time.Minute, "how long to play")
	flags.DurationVar(&o.lease, "lease", 2*time.Second, "lease `duration` of the candidates")
	flags.DurationVar(&o.pause, "pause", time.Second, "quiet `time` between one fault and the next")
	flags.BoolVar(&o.verbose, "v", false, "tell every event of every candidate")
	flags.StringVar(&o.svg, "svg", "", "`file` for a picture: who led, for each kind of fault")
	if err := flags.Parse(args); err != nil {
		return o, settingError{err}
	}
	if flags.NArg() > 0 {
		return o, settingError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	}

	if v := getenv("KEY"); v != "" {
		o.key = v
	}
	if v := getenv("WORKERS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxWorkers {
			return o, settingError{fmt.Errorf("WORKERS=%q is not a number from 1 to %d", v, maxWorkers)}
		}
		o.workers = n
	}
	switch v := getenv("NOSPLAY"); v {
	case "", "0":
	case "1":
		o.splay = false
	default:
		return o, settingError{fmt.Errorf("NOSPLAY=%q is neither 0 nor 1", v)}
	}

	for _, d := range []struct {
		name       string
		value, min time.Duration
	}{
		{"-duration", o.duration, time.Second},
		{"-lease", o.lease, 200 * time.Millisecond},
		{"-pause", o.pause, 0},
	} {
		if d.value < d.min {
			return o, settingError{fmt.Errorf("%s %v is less than %v", d.name, d.value, d.min)}
		}
	}
	return o, nil
}
