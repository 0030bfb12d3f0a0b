// Command mutation puts faults into a package, one at a time, and runs the tests of the package. A fault that no test
// catches shows a rule without a test, or code without a use.
//
//	go run ./mutation ./fence                try all mutants of package fence
//	go run ./mutation -run 'lane' ./fence    those of functions whose name matches
//	go run ./mutation -since HEAD~1          those of functions that changed, in all packages that have a list
//	go run ./mutation -part 2/7              those of a seventh of all functions
//	go run ./mutation -write ./fence         and write the list of those that no test catches
//	go run ./mutation -rules ./fence         try mutants by hand
//
// The mutants come from standard operators on the syntax tree of each function (operators.go). Those of the package's
// own tests that execute the place try a mutant, and then those of leader_test, or of the command. A mutant that no
// test catches is in a list in mutation/survivors, which may only become shorter: a change that adds a survivor adds a test,
// or a line with a reason. A line whose function has changed may stay until the list is written again.
//
// A rule that no operator makes has a mutant by hand: see rule.go and mutation/rules.
//
// Its files:
//
//	main.go       the command
//	target.go     the package that has the mutants
//	operators.go  the mutants of a function
//	combine.go    all mutants in one program
//	judge.go      the tests that try them
//	list.go       the mutants that no test catches
//	rule.go       mutants by hand
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	since     = flag.String("since", "", "only mutants of functions that are not the same in this `commit`")
	run       = flag.String("run", "", "only mutants of functions whose name matches this `regexp`")
	part      = flag.String("part", "", "only one part of all functions, as `2/7`")
	again     = flag.Bool("listed", false, "try the mutants of the list again, in place of the others")
	only      = flag.Bool("n", false, "only count the mutants, or the rules that do not fit")
	write     = flag.Bool("write", false, "write the list")
	by        = flag.String("by", "", "only the tests of this `package` try the mutants")
	budget    = flag.Duration("budget", 0, "leave out the slow tests of a mutant, which take more than this `time` of a processor together")
	byHand    = flag.Bool("rules", false, "try the mutants by hand, in place of those that operators make; without packages, of all")
	inField   = flag.Bool("field", false, "of the mutants by hand those that tests in real time catch")
	verbose   = flag.Bool("v", false, "print each mutant, and the test that catches it")
	processes = flag.Int("p", 2, "how many tests run at once")
)

// last are the packages whose tests try what a package's own tests do not catch: those of the command for its own packages.
const (
	last       = "leader_test"
	theCommand = "cmd/natsleader"
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := mutate(ctx, flag.Args()); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func mutate(ctx context.Context, dirs []string) error {
	for i := range dirs {
		dirs[i] = filepath.Clean(dirs[i])
	}
	if *byHand {
		return tryRules(ctx, dirs)
	}
	if len(dirs) == 0 {
		all, err := listed()
		if err != nil {
			return err
		}
		dirs = all
	}
	var failed error
	for _, dir := range dirs {
		if err := mutatePackage(ctx, dir); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", dir, err))
		}
	}
	return failed
}

// chosen returns the functions whose mutants are tried.
func chosen(t *target) (map[*function]bool, error) {
	pattern, err := regexp.Compile(*run)
	if err != nil {
		return nil, err
	}
	k, n := uint32(1), uint32(1)
	if *part != "" {
		if _, err = fmt.Sscanf(*part, "%d/%d", &k, &n); err != nil || k < 1 || k > n {
			return nil, fmt.Errorf("part %q: want one of n parts, as 2/7", *part)
		}
	}
	changed := map[*function]bool{}
	if *since != "" {
		if changed, err = t.changedSince(*since); err != nil {
			return nil, err
		}
	}
	out := map[*function]bool{}
	for _, f := range t.files {
		for _, fn := range f.funcs {
			h := fnv.New32()
			_, _ = h.Write([]byte(fn.key))
			if pattern.MatchString(fn.key) && h.Sum32()%n == k-1 && (*since == "" || changed[fn]) {
				out[fn] = true
			}
		}
	}
	return out, nil
}

func mutatePackage(ctx context.Context, dir string) error {
	if *since != "" {
		changed, err := command(".", "git", "diff", "--name-only", *since, "--", dir+"/*.go", ":!"+dir+"/*_test.go", ":!"+dir+"/*/*")
		if err != nil || changed == "" {
			return err
		}
	}
	t, err := load(dir)
	if err != nil {
		return err
	}
	functions, err := chosen(t)
	if err != nil {
		return err
	}
	var all []*mutant
	for _, f := range t.files {
		for _, fn := range f.funcs {
			all = append(all, t.mutants(fn)...)
		}
	}
	for i, m := range all {
		m.id = i + 1
	}
	before, exists, err := readList(dir)
	if err != nil {
		return err
	}
	if !exists {
		before = untriedList(all)
	}
	tried := slices.DeleteFunc(slices.Clone(all), func(m *mutant) bool {
		_, ok := before[m.place]
		return !functions[m.copies[0].fn] || ok != *again
	})
	if tried, err = t.compiling(tried); err != nil {
		return err
	}
	say("%s: %d mutants of %d functions", dir, len(tried), len(functions))
	if *only {
		return nil
	}
	if len(tried) == 0 {
		return conclude(t, before, functions, all, tried)
	}
	judges, err := judgesOf(t)
	if err != nil {
		return err
	}
	defer func() {
		for _, j := range judges {
			j.close()
		}
	}()
	began, result := time.Now(), error(nil)
	for i := 0; i < len(judges) || !*write && result != nil && i < tries*len(judges); i++ {
		left := slices.DeleteFunc(slices.Clone(tried), func(m *mutant) bool { return m.outcome != survived })
		if err := judges[i%len(judges)].try(ctx, left); err != nil {
			return err
		}
		result = conclude(t, before, functions, all, tried) // what the last finds
	}
	count := map[string]int{}
	for _, m := range tried {
		kind := m.outcome.String()
		if !m.reached {
			kind = "not reached"
		}
		count[kind]++
		if *verbose {
			say("%s\t%s\t%s\t%s\t%s", m.function, m.operator, m.snippet, kind, m.by)
		}
	}
	say("%s: %d caught, %d late, %d survived, %d not reached, in %.0f s", dir,
		count["caught"], count["late"], count["survived"], count["not reached"], time.Since(began).Seconds())
	return result
}

// judgesOf returns the packages whose tests try the mutants: the package itself, and leader_test or the command with what
// survives.
func judgesOf(t *target) ([]*judge, error) {
	own := &judge{of: t, dir: t.dir}
	if *by != "" {
		own.dir = filepath.Clean(*by)
		return []*judge{own}, nil
	}
	last := last
	if strings.HasPrefix(t.dir, theCommand+"/") {
		last = theCommand
	}
	imported, err := command(".", "go", "list", "-test", "-deps", "./"+last)
	if err != nil || !slices.Contains(strings.Fields(imported), t.path) {
		return []*judge{own}, err
	}
	return []*judge{own, {of: t, dir: last}}, nil
}

// conclude compares the survivors with the list, and writes it with -write.
func conclude(t *target, before list, functions map[*function]bool, all, tried []*mutant) error {
	now, added, spare := before.after(functions, all, tried)
	if *again {
		now, added, spare = before.retried(tried), nil, 0
	}
	var unexplained error
	if len(added) > spare {
		var lines strings.Builder
		for _, p := range added {
			fmt.Fprintf(&lines, "not caught: %s: %s: %s\n", p.function, p.operator, p.snippet)
		}
		unexplained = fmt.Errorf("%sno test catches %d mutants, and %d lines of %s no longer fit: write a test, or write them with -write and give a reason for each", &lines, len(added), spare, listFile(t.dir))
	}
	for _, p := range added {
		now[p] = ""
		if unexplained != nil {
			now[p] = missing
		}
	}
	if *write {
		if err := now.write(t.dir); err != nil {
			return err
		}
		say("%s has %d lines; before %d", listFile(t.dir), len(now), len(before))
	}
	if *since != "" {
		old, err := command(".", "git", "show", *since+":"+listFile(t.dir))
		if base := parseList(old); err == nil && before.longer(base) {
			return fmt.Errorf("%s has more lines without a reason than in %s: give reasons, or write tests", listFile(t.dir), *since)
		}
	}
	return unexplained
}

func say(format string, args ...any) { _, _ = fmt.Fprintf(os.Stderr, format+"\n", args...) }
