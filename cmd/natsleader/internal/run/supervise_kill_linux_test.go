package run

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	expect "github.com/natsleader/natsleader/internal/check"
)

// processSet is a set of processes that react to signals.
type processSet struct {
	alive   []process
	sent    []string
	denied  map[int]bool
	reacts  func(*processSet, int, unix.Signal)
	scanned int
}

func (p *processSet) killer() *processKiller {
	return &processKiller{
		scan: func(found func(process)) {
			p.scanned++
			for _, one := range slices.Clone(p.alive) {
				found(one)
			}
		},
		kill: func(pid int, sig unix.Signal) error {
			p.sent = append(p.sent, fmt.Sprint(signalName(sig), " ", pid))
			if p.denied[pid] {
				return unix.EPERM
			}
			if p.reacts != nil {
				p.reacts(p, pid, sig)
			}
			if sig == unix.SIGKILL {
				p.alive = slices.DeleteFunc(p.alive, func(one process) bool { return one.pid == pid })
			}
			return nil
		},
	}
}

func TestProcessKiller_StopsAllBeforeItKills(t *testing.T) {
	p := &processSet{alive: []process{{pid: 7}, {pid: 8}}}
	h := p.killer()
	left, pause := h.round()
	expect.That(t, pause == killAgain && slices.Equal(left, []int{7, 8}), "left %v, again in %v", left, pause)
	want := []string{"SIGSTOP 7", "SIGSTOP 8", "SIGKILL 7", "SIGKILL 8"}
	expect.That(t, slices.Equal(p.sent, want), "%q", p.sent)
	if left, _ := h.round(); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// Daemons that replace themselves whenever a scan finds them: the killer keeps its pace
// until one of them was too slow.
func TestProcessKiller_PaceWhileSetChanges(t *testing.T) {
	p := &processSet{alive: []process{{pid: 1}}}
	const generations = 1000
	p.reacts = func(p *processSet, pid int, sig unix.Signal) {
		if pid < generations && sig == unix.SIGSTOP {
			p.alive = []process{{pid: pid + 1}} // it had been replaced when the signal came
		}
	}
	h := p.killer()
	for rounds := 1; len(p.alive) > 0; rounds++ {
		_, pause := h.round()
		expect.Must(t, pause == killAgain, "after %d rounds the next is in %v", rounds, pause)
		expect.Must(t, rounds <= generations/scansInARow+2, "%d rounds, %d scans", rounds, p.scanned)
	}
}

// The killer looks less and less often at processes that cannot be killed, or are dead
// already.
func TestProcessKiller_GivesUpThePace(t *testing.T) {
	for name, p := range map[string]*processSet{
		"denied": {alive: []process{{pid: 7}}, denied: map[int]bool{7: true}},
		"in the kernel": {alive: []process{{pid: 7}}, reacts: func(p *processSet, pid int, sig unix.Signal) {
			if sig == unix.SIGKILL {
				p.alive = append(p.alive, process{pid: 7})
			}
		}},
		"dead": {alive: []process{{pid: 7, dead: true}}, reacts: func(p *processSet, pid int, _ unix.Signal) {
			p.alive = []process{{pid: pid + 1, dead: true}}
		}},
	} {
		h := p.killer()
		pause := time.Duration(0)
		for range 100 {
			_, pause = h.round()
		}
		expect.That(t, pause == killSeldom && p.scanned <= 102,
			"%s: after 100 rounds and %d scans the next is in %v", name, p.scanned, pause)
	}
}

// If a group is gone, or there is none, the supervisor does without.
func TestCgroup_IsDoneWithout(t *testing.T) {
	for _, g := range []cgroup{"", "/nonexistent"} {
		_, ok := g.startIn(&syscall.SysProcAttr{})
		expect.That(t, !ok, "%q can be used", g)
		g.kill()
		g.Remove()
	}
	notOne := cgroup(t.TempDir())
	attr := commandAttr()
	started, ok := notOne.startIn(attr)
	_, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Sys: attr})
	expect.That(t, ok && err != nil, "a process was started in %s: %v", notOne, err)
	started()
}

func TestCgroupDir(t *testing.T) {
	const (
		host      = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		hybrid    = "29 28 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		container = "700 600 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
	)
	for _, k := range []struct{ groups, mounts, want string }{
		{"0::/system.slice/a.service\n", host, "/sys/fs/cgroup/system.slice/a.service"},
		{"4:memory:/x\n0::/\n", hybrid, "/sys/fs/cgroup/unified"},
		{"0::/docker/abc/d\n", container, "/sys/fs/cgroup/d"},
		{"0::/docker/abcd\n", container, ""},
		{"0::/../elsewhere\n", host, ""},
		{"0::/a/..b\n", host, "/sys/fs/cgroup/a/..b"},
		{"4:memory:/x\n", hybrid, ""},
		{"0::/a\n", strings.Replace(host, "/sys/fs", `/sys\040fs`, 1), ""},
		{"0::/a\n", "30\n - cgroup2 \n", ""},
		{"", "", ""},
	} {
		got := cgroupDir(k.groups, k.mounts)
		expect.That(t, got == k.want, "%q: %q, want %q", k.groups, got, k.want)
	}
}
