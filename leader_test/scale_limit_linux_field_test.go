//go:build field && linux

package leader_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// scaleMachine returns the time that all processors of the machine have spent on work, in
// every process: the sum of user, nice, system, interrupts and stolen time.
func scaleMachine() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var sum time.Duration
	for i, field := range strings.Fields(line) {
		ticks, err := strconv.Atoi(field)
		if err != nil || i == 4 || i == 5 || i > 8 { // the name, idle, waiting, guests
			continue
		}
		sum += time.Duration(ticks) * 10 * time.Millisecond
	}
	return sum
}

// scaleDir is a control group in a directory. The files have different names in the two
// versions of the kernel's interface.
type scaleDir struct {
	dir string
	v2  bool
}

const scaleRoot = "/sys/fs/cgroup"

// scaleNewGroup returns a new control group, or nil where none can be written. The name has
// the ID of this process. Groups of processes that have ended are removed.
func scaleNewGroup() scaleGroup {
	for _, at := range scaleParents() {
		left, _ := filepath.Glob(filepath.Join(at.dir, "natsleader-scale-*"))
		for _, dir := range left {
			_ = os.Remove(dir) // in vain while a process is in it
		}
		g := scaleDir{filepath.Join(at.dir, fmt.Sprintf("natsleader-scale-%d", os.Getpid())), at.v2}
		if os.Mkdir(g.dir, 0o700) != nil {
			continue
		}
		if g.limit(0) == nil {
			return g
		}
		_ = g.remove()
	}
	return nil
}

// scaleParents returns the directories in which a group could be made: that of the group of
// this process, and the root.
func scaleParents() []scaleDir {
	all := []scaleDir{{filepath.Join(scaleRoot, "cpu"), false}, {scaleRoot, true}}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return all
	}
	for line := range strings.Lines(string(own)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		switch {
		case path == "/":
		case id == "0":
			all = append(all, scaleDir{filepath.Join(scaleRoot, path), true})
		case strings.Contains(","+controllers+",", ",cpu,"):
			all = append(all, scaleDir{filepath.Join(scaleRoot, "cpu", path), false})
		}
	}
	return all
}

func (g scaleDir) name() string {
	if g.v2 {
		return "control group v2"
	}
	return "control group v1"
}

func (g scaleDir) add(pid int) error { return g.write("cgroup.procs", strconv.Itoa(pid)) }

func (g scaleDir) limit(share float64) error {
	period := scalePeriod.Microseconds()
	quota := strconv.FormatInt(int64(share*float64(period)), 10)
	if g.v2 {
		if share == 0 {
			quota = "max"
		}
		return g.write("cpu.max", fmt.Sprintf("%s %d", quota, period))
	}
	if share == 0 {
		quota = "-1"
	}
	if err := g.write("cpu.cfs_period_us", strconv.FormatInt(period, 10)); err != nil {
		return err
	}
	return g.write("cpu.cfs_quota_us", quota)
}

// periods reads cpu.stat, which has these lines in both versions.
func (g scaleDir) periods() (scalePeriods, error) {
	text, err := os.ReadFile(filepath.Join(g.dir, "cpu.stat"))
	if err != nil {
		return scalePeriods{}, err
	}
	counts := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		name, n, _ := strings.Cut(strings.TrimSpace(line), " ")
		if counts[name], err = strconv.Atoi(n); err != nil {
			return scalePeriods{}, err
		}
	}
	return scalePeriods{counts["nr_periods"], counts["nr_throttled"]}, nil
}

func (g scaleDir) remove() error { return os.Remove(g.dir) }

// write writes a file of the group, which is there if the group can do it.
func (g scaleDir) write(file, text string) error {
	f, err := os.OpenFile(filepath.Join(g.dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err = f.WriteString(text); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
