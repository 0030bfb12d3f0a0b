package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/proof"
)

type outcome int

const (
	survived outcome = iota
	caught
	late // it computes for much longer than the target does, or waits
)

func (o outcome) String() string { return [...]string{"survived", "caught", "late"}[o] }

// A judge is the tests of a package, which try the mutants of a target.
type judge struct {
	of    *target
	dir   string // of the tests, from the root of the repository
	field bool   // whether field tests are among them
	tests map[string]*test

	scratch string // a directory for its files, until it closes
	binary  string // the tests with all mutants
}

func (j *judge) close() { _ = os.RemoveAll(j.scratch) }

// A test is one test of a judge.
type test struct {
	cpu, wall time.Duration // of the test alone, without a mutant
	blocks    []block       // that it executes
}

// A block is a part of a file that is executed as a whole.
type block struct {
	file       string // the last element of its path
	start, end int    // line times columns plus column
}

const columns = 1 << 12

// try finds out which mutants the tests catch. A test tries the mutants in the blocks that it executes, because a
// mutant elsewhere does nothing. The quick tests are first, and the first test that fails is the last.
func (j *judge) try(ctx context.Context, all []*mutant) (err error) {
	began := time.Now()
	if j.scratch == "" {
		if j.scratch, err = os.MkdirTemp("", "mutants"); err != nil {
			return err
		}
		if err = j.measure(ctx, j.scratch); err != nil {
			return err
		}
		say("%s: %d tests, each alone, in %.0f s", j.dir, len(j.tests), time.Since(began).Seconds())
	}
	j.choose(all)
	reached := slices.DeleteFunc(slices.Clone(all), func(m *mutant) bool { return len(m.tests) == 0 })
	if len(reached) == 0 {
		return nil
	}
	began = time.Now()
	if j.binary == "" {
		texts, _ := j.of.combine(reached)
		if j.binary, err = j.build(ctx, j.scratch, texts); err != nil {
			return err
		}
		say("%s: built with %d mutants in %.0f s", j.dir, len(reached), time.Since(began).Seconds())
		began = time.Now()
	}
	var done atomic.Int64
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	each(len(reached), func(i int) {
		if err := j.judge(ctx, reached[i]); err != nil {
			cancel(err)
		}
		if n := done.Add(1); n%200 == 0 {
			say("%s: %d of %d after %.0f s", j.dir, n, len(reached), time.Since(began).Seconds())
		}
	})
	return context.Cause(ctx)
}

// measure runs each test alone, and notes its time and the blocks that it executes. A test that fails alone, without a
// mutant, tries none.
func (j *judge) measure(ctx context.Context, scratch string) error {
	binary, err := j.build(ctx, scratch, nil, "-cover", "-coverpkg="+j.of.path)
	if err != nil {
		return err
	}
	if _, err = os.Stat(binary); errors.Is(err, fs.ErrNotExist) {
		return nil // there are no tests
	}
	list, err := command(j.dir, binary, "-test.list=.")
	if err != nil {
		return err
	}
	var names []string
	for name := range strings.Lines(list) {
		if name = strings.TrimSpace(name); strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Example") || strings.HasPrefix(name, "Fuzz") {
			names = append(names, name)
		}
	}
	tests := make([]*test, len(names))
	each(len(names), func(i int) {
		profile := filepath.Join(scratch, "cover"+strconv.Itoa(i))
		r := j.run(ctx, binary, 0, limits{wall: 10 * time.Minute}, []string{names[i]}, "-test.coverprofile="+profile)
		if r.err == nil {
			tests[i] = &test{cpu: r.cpu, wall: r.wall}
			tests[i].blocks, r.err = blocks(profile, j.of.path)
		}
		if r.err != nil {
			say("%s of %s fails without a mutant, and tries none: %v\n%s", names[i], j.dir, r.err, r.out)
			tests[i] = nil
		}
	})
	j.tests = map[string]*test{}
	for i, name := range names {
		if tests[i] != nil {
			j.tests[name] = tests[i]
		}
	}
	if len(j.tests) < len(names)/2 {
		return fmt.Errorf("%d of %d tests of %s fail without a mutant", len(names)-len(j.tests), len(names), j.dir)
	}
	return ctx.Err()
}

var profileLine = regexp.MustCompile(`^(.*)/([^/]+\.go):(\d+)\.(\d+),(\d+)\.(\d+) \d+ (\d+)$`)

// blocks returns the blocks of a package that a profile of coverage has as executed.
func blocks(profile, path string) ([]block, error) {
	text, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	var all []block
	for line := range strings.Lines(string(text)) {
		f := profileLine.FindStringSubmatch(strings.TrimSpace(line))
		if f == nil || f[1] != path || f[7] == "0" {
			continue
		}
		var n [4]int
		for i := range n {
			n[i], _ = strconv.Atoi(f[3+i])
		}
		all = append(all, block{f[2], n[0]*columns + n[1], n[2]*columns + n[3]})
	}
	return all, nil
}

// choose gives each mutant the tests that reach it: those that execute its block, or, because a case is in no block,
// its function.
func (j *judge) choose(all []*mutant) {
	known := map[string][]block{} // of each file
	for _, t := range j.tests {
		for _, b := range t.blocks {
			known[b.file] = append(known[b.file], b)
		}
	}
	for _, m := range all {
		file, at := filepath.Base(m.pos.Filename), m.pos.Line*columns+m.pos.Column
		start, end := at, at+1
		if m.operator == "drop case" || m.operator == "drop value" || !slices.ContainsFunc(known[file], func(b block) bool { return b.start <= at && at < b.end }) {
			decl := m.copies[0].fn.decl
			from, to := j.of.fset.Position(decl.Pos()), j.of.fset.Position(decl.End())
			start, end = from.Line*columns+from.Column, to.Line*columns+to.Column
		}
		m.tests = nil
		for name, t := range j.tests {
			if slices.ContainsFunc(t.blocks, func(b block) bool { return b.file == file && b.start < end && start < b.end }) {
				m.tests = append(m.tests, name)
			}
		}
		m.reached = m.reached || len(m.tests) > 0
		slices.SortFunc(m.tests, func(a, b string) int { return int(j.tests[a].cpu - j.tests[b].cpu) })
	}
}

// judge runs the tests that reach a mutant, first the quick ones. It returns an error if they do not run.
func (j *judge) judge(ctx context.Context, m *mutant) error {
	quick, tried := j.within(m.tests, time.Second), len(m.tests)
	if *budget > 0 {
		tried = max(quick, j.within(m.tests, *budget))
	}
	for _, names := range [][]string{m.tests[:quick], m.tests[quick:tried]} {
		if len(names) == 0 {
			continue
		}
		var cpu, wall time.Duration
		for _, name := range names {
			cpu, wall = cpu+j.tests[name].cpu, wall+j.tests[name].wall
		}
		r := j.run(ctx, j.binary, m.id, limits{cpu: 4*cpu + 2*time.Second, wall: 10*wall + 10*time.Second}, names)
		if r.err == nil {
			continue
		}
		var exit *exec.ExitError
		ran := errors.As(r.err, &exit) && exit.ExitCode() != 126 && exit.ExitCode() != 127 // of sh, if there is no binary
		if ctx.Err() != nil || !ran && !r.late {
			return fmt.Errorf("%s: %s: %s: the tests of %s do not run: %w\n%s", m.function, m.operator, m.snippet, j.dir, r.err, r.out)
		}
		m.outcome = caught
		if r.late {
			m.outcome = late
		}
		if failed := failure.FindStringSubmatch(r.out); failed != nil {
			m.by = failed[1]
		}
		return nil
	}
	return nil
}

// within returns how many of these tests, but at least one, take no more than this time of a processor together.
func (j *judge) within(tests []string, most time.Duration) int {
	sum := time.Duration(0)
	for i, name := range tests {
		if sum += j.tests[name].cpu; i > 0 && sum > most {
			return i
		}
	}
	return len(tests)
}

// tries is how often tests try a mutant before it fails the gate, because what they catch only by chance must not.
const tries = 4

var failure = regexp.MustCompile(`--- FAIL: (\S+)`)

const overlayFile = "overlay.json"

// build builds the tests of the judge, with these texts in place of files of the tree.
func (j *judge) build(ctx context.Context, scratch string, texts map[string]string, flags ...string) (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(scratch, "")
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range texts {
		changed := filepath.Join(dir, strings.ReplaceAll(file, "/", "."))
		if err = os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = changed
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	description, binary := filepath.Join(dir, overlayFile), filepath.Join(dir, "tests")
	if err = os.WriteFile(description, overlay, 0o600); err != nil {
		return "", err
	}
	if j.field {
		flags = append(flags, "-tags=field")
	}
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay=" + description, "-o", binary}, flags...)
	_, err = commandContext(ctx, ".", "go", append(args, "./"+j.dir)...)
	return binary, err
}

// limits bound a run of tests. A zero limit is none.
type limits struct{ cpu, wall time.Duration }

type result struct {
	err       error
	late      bool
	out       string
	cpu, wall time.Duration
}

// run runs tests with a mutant, or without one if its number is 0. The limit of the time on a processor does not
// depend on what else runs on the machine.
func (j *judge) run(ctx context.Context, binary string, number int, l limits, tests []string, flags ...string) result {
	ctx, cancel := context.WithTimeout(ctx, l.wall)
	defer cancel()
	seconds := "unlimited"
	if l.cpu > 0 {
		seconds = strconv.Itoa(int(l.cpu.Seconds()) + 1)
	}
	args := append([]string{
		"-c", "ulimit -t " + seconds + "; exec \"$@\"", "sh",
		binary, "-test.failfast", "-test.timeout=0", "-test.run=^(" + strings.ReplaceAll(strings.Join(tests, "|"), "/", ")$/^(") + ")$",
	}, flags...)
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir, cmd.WaitDelay = j.dir, 5*time.Second
	// What a mutant counts is no proof.
	cmd.Env = append(os.Environ(), switchEnv+"="+strconv.Itoa(number), proof.TotalsFile+"=", "GOMEMLIMIT=2GiB")
	if j.field { // programs that the tests build have the mutants, too
		cmd.Env = append(cmd.Env, "GOFLAGS=-overlay="+filepath.Join(filepath.Dir(binary), overlayFile))
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err := cmd.Run()
	r := result{err: err, out: out.String(), wall: time.Since(began)}
	if cmd.ProcessState != nil {
		r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	r.late = err != nil && (ctx.Err() != nil || l.cpu > 0 && r.cpu >= l.cpu)
	return r
}

// each calls do with 0 to n-1, on both of two processors.
func each(n int, do func(i int)) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range *processes {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}

// command runs a program, and returns what it prints.
func command(dir, name string, args ...string) (string, error) {
	return commandContext(context.Background(), dir, name, args...)
}

func commandContext(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, failed.String())
	}
	return out.String(), nil
}
