// Command results writes docs/results.md (`make results`): it runs the commands of that page at the root
// of the repository, and replaces what is below each by its output, with the date, the commit and the
// machine. A new measure is a heading and a command in the page.
//
// Its files:
//
//	main.go    the commands, and the machine on which they run
//	page.go    the sections of the page
//	output.go  the part of a command's output that is a result
package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"
)

const file = "docs/results.md"

func main() {
	only := flag.String("only", "", "write only the sections whose heading or command matches this `regexp`")
	flag.Parse()
	if err := run(*only); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
}

func run(only string) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	changed, err := shell("git status --porcelain -- . ':!" + file + "'")
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("commit first: %s names the commit", file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	p, err := parse(string(text))
	if err != nil {
		return err
	}
	w := writer{
		page: p, run: shell, log: os.Stderr, now: time.Now,
		save: func(text string) error { return os.WriteFile(file, []byte(text), 0o644) },
	}
	if w.machine, err = machine(); err != nil {
		return err
	}
	return w.write(pattern)
}

// shell runs a command, and returns what it writes on its standard output. No result comes from the cache of go test.
func shell(command string) (string, error) {
	cmd := exec.Command("bash", "-c", command)
	cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -count=1"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return string(out), err
}

// machine returns the commit, the processors and the versions that a stamp has.
func machine() (string, error) {
	var parts []string
	for _, command := range []string{
		"git rev-parse --short=12 HEAD", "go env GOVERSION", "go list -m -f '{{.Version}}' github.com/nats-io/nats-server/v2",
	} {
		out, err := shell(command)
		if err != nil {
			return "", fmt.Errorf("%s: %w", command, err)
		}
		parts = append(parts, strings.TrimSpace(out))
	}
	info, _ := os.ReadFile("/proc/cpuinfo") // Linux alone has it
	model := runtime.GOARCH
	if m := regexp.MustCompile(`(?m)^model name\s*: (.*)$`).FindSubmatch(info); m != nil {
		model = string(bytes.TrimSpace(m[1]))
	}
	return fmt.Sprintf("commit %s, %d x %s, %s, nats-server %s", parts[0], runtime.NumCPU(), model, parts[1], parts[2]), nil
}

// writer writes the page anew, section by section.
type writer struct {
	page    page
	machine string
	run     func(command string) (stdout string, err error)
	now     func() time.Time
	save    func(text string) error
	log     io.Writer
}

// write runs the commands of the sections that match. A section whose command fails stays as it was.
func (w writer) write(only *regexp.Regexp) error {
	var failed []string
	found := false
	for i := range w.page.sections {
		s := &w.page.sections[i]
		if !only.MatchString(s.title) && !only.MatchString(s.command) {
			continue
		}
		found = true
		_, _ = fmt.Fprintf(w.log, "== %s: %s\n", s.title, s.command)
		began := w.now()
		out, err := w.run(s.command)
		took := w.now().Sub(began).Round(time.Second)
		result := output(out)
		if err == nil && result == "" {
			err = fmt.Errorf("no result in its output")
		}
		if err != nil {
			_, _ = fmt.Fprintf(w.log, "%s\n== %s failed after %v: %v\n", out, s.title, took, err)
			failed = append(failed, s.title)
			continue
		}
		_, _ = fmt.Fprintf(w.log, "== %s took %v\n", s.title, took)
		s.stamp, s.result = fmt.Sprintf("%s, %s, in %v", began.UTC().Format(time.DateOnly), w.machine, took), result
		if err = w.save(w.page.String()); err != nil {
			return err
		}
	}
	switch {
	case !found:
		return fmt.Errorf("no section matches %s", cmp.Or(only.String(), "nothing"))
	case failed != nil:
		return fmt.Errorf("these sections are as they were: %s", strings.Join(failed, ", "))
	}
	return nil
}
