package main

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The list of a package names the mutants that no test catches, a line for each: the function, the operator, the
// beginning of what it changes, and for a line that is newer than the list the reason why the mutant may live. A
// function that no test of the gate reaches has one line, and so has one whose mutants have not been tried.
const lists = "mutation/survivors"

// missing stands in the list in place of a reason that a person has to give.
const missing = "REASON?"

// A list has the reasons, by mutant.
type list map[place]string

func listFile(dir string) string {
	return filepath.Join(lists, strings.ReplaceAll(dir, "/", ".")+".txt")
}

// listed returns the packages that have a list.
func listed() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(lists, "*.txt"))
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, f := range files {
		dirs = append(dirs, strings.ReplaceAll(strings.TrimSuffix(filepath.Base(f), ".txt"), ".", "/"))
	}
	return dirs, nil
}

// readList returns the list of a package, or false if there is none.
func readList(dir string) (list, bool, error) {
	text, err := os.ReadFile(listFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return list{}, false, nil
	}
	return parseList(string(text)), true, err
}

func parseList(text string) list {
	l := list{}
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 4)
		f = append(f, "", "", "")
		l[place{f[0], f[1], f[2]}] = f[3]
	}
	return l
}

func (l list) write(dir string) error {
	var lines []string
	for p, reason := range l {
		lines = append(lines, strings.TrimRight(strings.Join([]string{p.function, p.operator, p.snippet, reason}, "\t"), "\t")+"\n")
	}
	slices.Sort(lines)
	if err := os.MkdirAll(lists, 0o755); err != nil {
		return err
	}
	return os.WriteFile(listFile(dir), []byte(strings.Join(lines, "")), 0o644)
}

// longer reports whether a list has more lines without a reason than it had, or one whose reason is missing.
func (l list) longer(before list) bool {
	count := func(l list) (lines, untried int) {
		for p, reason := range l {
			switch {
			case p == unknown(p.function):
				untried++
			case reason == "":
				lines++
			}
		}
		return lines, untried
	}
	lines, untried := count(l)
	had, untriedBefore := count(before)
	return lines > had && untried >= untriedBefore || slices.Contains(slices.Collect(maps.Values(l)), missing)
}

// unknown is the line of a function whose mutants have not been tried.
func unknown(function string) place { return place{function: function, operator: "not tried"} }

// untriedList is the list of a package of which no function has been tried.
func untriedList(all []*mutant) list {
	l := list{}
	for _, m := range all {
		l[unknown(m.function)] = ""
	}
	return l
}

// untested is the line of a function that no test reaches.
func untested(function string) place { return place{function: function, operator: "not reached"} }

// lines returns the lines that name the survivors among the mutants that were tried.
func lines(tried []*mutant) []place {
	reached := map[string]bool{} // functions of which a mutant was reached
	for _, m := range tried {
		reached[m.function] = reached[m.function] || m.reached
	}
	var out []place
	for _, m := range tried {
		p := m.place
		if !reached[m.function] {
			p = untested(m.function)
		}
		if m.outcome == survived && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// after returns the lines that remain when mutants of these functions have been tried, the survivors that are new, and
// how many may be new: as many as lines of these functions, or of functions that are gone, no longer fit. A change of
// a function changes the names of its mutants.
func (l list) after(functions map[*function]bool, all, tried []*mutant) (now list, added []place, spare int) {
	now = list{}
	here, of := map[place]bool{}, map[string][]*mutant{}
	for _, m := range all {
		here[m.place] = true
		of[m.function] = append(of[m.function], m)
	}
	outcomes := map[place]*mutant{}
	for _, m := range tried {
		outcomes[m.place] = m
	}
	survivors := lines(tried)
	for p, reason := range l {
		mutants := of[p.function]
		untried := len(mutants) > 0 && !functions[mutants[0].copies[0].fn]
		m := outcomes[p]
		switch {
		case untried && !here[p] && p != untested(p.function) && p != unknown(p.function):
			// The operators do not make it any more.
		case untried:
			now[p] = reason
		case p == unknown(p.function):
			spare += len(mutants)
		case m != nil && m.outcome == survived, m == nil && here[p], slices.Contains(survivors, p):
			now[p] = reason
		case p == untested(p.function):
			spare += max(1, len(mutants)) // it is reached now, in part, or has another name
		case m == nil:
			spare++
		}
	}
	for _, p := range survivors {
		if _, ok := l[p]; !ok {
			added = append(added, p)
		}
	}
	return now, added, spare
}

// retried returns the lines that remain when listed mutants have been tried again, by whichever tests.
func (l list) retried(tried []*mutant) list {
	now := maps.Clone(l)
	for _, m := range tried {
		if m.outcome != survived {
			delete(now, m.place)
		}
	}
	return now
}
