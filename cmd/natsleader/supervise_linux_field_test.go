//go:build field && linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
)

// If a leader, or its process, ends against its will, nothing of a command that does
// not want to end is left when the next command begins.
func TestRun_NothingOutlivesTerm(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		name string
		do   func(a *runProcess, link *link)
		then func(a *runProcess, link *link)
	}{
		{"natsleader is killed", func(a *runProcess, _ *link) { a.signal(unix.SIGKILL) }, nil},
		{"natsleader and its group are killed", func(a *runProcess, _ *link) { _ = unix.Kill(-a.cmd.Process.Pid, unix.SIGKILL) }, nil},
		{"everything of that name is killed", func(a *runProcess, _ *link) {
			for _, pid := range a.processes("") {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				if name, _, _ := bytes.Cut(line, []byte{0}); bytes.Contains(name, []byte("natsleader")) {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
		}, nil},
		{
			"natsleader is stopped", func(a *runProcess, _ *link) { a.signal(unix.SIGSTOP) },
			func(a *runProcess, _ *link) {
				a.signal(unix.SIGCONT)
				a.says("lost: lease not confirmed")
				a.says(`waiting: "b" leads`)
			},
		},
		{
			"the supervisor is killed", func(a *runProcess, _ *link) { _ = unix.Kill(a.supervisor(), unix.SIGKILL) },
			func(a *runProcess, _ *link) {
				a.exits(128 + 9)
				a.says("the supervising process was killed")
				a.says("handed over")
			},
		},
		{
			"the link is cut, packets get lost", func(_ *runProcess, l *link) { l.swallow() },
			func(a *runProcess, l *link) {
				a.says("lost: lease not confirmed")
				l.heal()
				a.says(`waiting: "b" leads`)
			},
		},
		{"the link is cut while the supervisor is stopped", func(a *runProcess, l *link) {
			_ = unix.Kill(a.supervisor(), unix.SIGSTOP)
			l.swallow()
		}, func(a *runProcess, l *link) {
			l.heal()
			a.says(`waiting: "b" leads`)
		}},
		{"natsleader is stopped, the link is cut", func(a *runProcess, l *link) {
			a.signal(unix.SIGSTOP)
			l.swallow()
		}, func(a *runProcess, l *link) {
			a.signal(unix.SIGCONT)
			l.heal()
			a.says(`waiting: "b" leads`)
		}},
		{"the key is deleted", func(a *runProcess, _ *link) {
			_, js := connectTo(a.T, a.url)
			kv, err := js.KeyValue(a.Context(), "elections")
			if err == nil {
				err = kv.Delete(a.Context(), "jobs")
			}
			expect.OK(a, err)
		}, nil},
		{"it is asked to", func(a *runProcess, _ *link) {
			a.stepDown() // returns when the key is released
			a.noneLeft()
		}, func(a *runProcess, _ *link) { a.says("asked to hand over by the test: accepted") }},
		{"it is asked to, while the supervisor is stopped", func(a *runProcess, _ *link) {
			_ = unix.Kill(a.supervisor(), unix.SIGSTOP)
			a.stepDown()
		}, func(a *runProcess, _ *link) { a.says(`waiting: "b" leads`) }},
	} {
		t.Run(k.name, func(t *testing.T) {
			s := newRunFixture(t, 25*time.Second) // from the kill of a stopped supervisor to the next leader are 2.7 s
			l := newLink(t, strings.TrimPrefix(s.url, "nats://"))
			a := s.startAt("nats://"+l.proxy.Listen, "a", "--drain", "300ms", "--", s.stubborn())
			a.waitComplete()
			b := s.start("b", "--drain", "300ms", "--", s.stubborn())
			b.says(`waiting: "a" leads`)
			k.do(a, l)
			testworld.Eventually(t, "another command has begun", func() bool { return s.count("begin") >= 2 })
			// The new command is b's, unless a itself leads again.
			if s.count("begin a") == 1 {
				a.noneLeft()
			}
			if k.then != nil {
				k.then(a, l)
			}
			s.noOverlap()
		})
	}
}

// link is a connection to the server that can lose everything.
type link struct {
	t     *testing.T
	proxy *toxiproxy.Proxy
}

func newLink(t *testing.T, upstream string) *link {
	t.Helper()
	l := &link{t: t}
	l.open("127.0.0.1:0", upstream)
	t.Cleanup(func() { l.proxy.Stop() })
	return l
}

func (l *link) open(listen, upstream string) {
	l.t.Helper()
	testworld.Eventually(l.t, "a proxy listens", func() bool {
		l.proxy = toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), "link", listen, upstream)
		return l.proxy.Start() == nil
	})
}

func (l *link) swallow() {
	l.t.Helper()
	for _, direction := range []string{"upstream", "downstream"} {
		_, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(`{"type": "timeout", "stream": "` + direction + `", "attributes": {"timeout": 0}}`))
		expect.OK(l.t, err)
	}
}

func (l *link) heal() {
	l.t.Helper()
	l.proxy.Stop()
	l.open(l.proxy.Listen, l.proxy.Upstream)
}

// The supervisor is killed at the same instant as natsleader. Then the kernel ends the
// command, and no process is left to end those that the command has started.
func TestRun_BothParentsKilled(t *testing.T) {
	s := newRunFixture(t, runLease)
	p := s.start("a", "--", s.script("c", `echo $$ >pid.next; mv pid.next pid; trap "" TERM; while :; do sleep 0.1; done`))
	p.says("elected")
	testworld.Eventually(t, "the command runs", func() bool { return len(p.commandProcesses()) > 0 })
	supervisor := p.supervisor()
	p.signal(unix.SIGSTOP) // it shall not be the process that ends the command
	_ = unix.Kill(supervisor, unix.SIGSTOP)
	_ = unix.Kill(supervisor, unix.SIGKILL)
	p.signal(unix.SIGKILL)
	testworld.Eventually(t, "nothing is left", func() bool { return len(p.processes("")) == 0 })
}

// A term that is over is not handed over before the command of an earlier term has
// ended.
func TestRun_AwaitsEarlierCommand(t *testing.T) {
	s := newRunFixture(t, runLease)
	a := s.begins(s.reacts(`trap 'echo told >>journal' TERM`), "--drain", "3s")
	b := s.waits()
	b.signal(unix.SIGSTOP) // a shall be elected again, however late
	a.suspend()
	testworld.Eventually(t, "the command is told to stop, and does not", func() bool { return s.count("told") > 0 })
	a.resumeTooLate()
	testworld.Eventually(t, "a is elected again", func() bool { return strings.Count(a.text(), "elected") > 1 })
	b.signal(unix.SIGCONT)
	s.stepDown()
	b.waitBegun(1)
	s.noOverlap()
}

// The command is not killed before it must be, and no later: a drain longer than the lease ends
// with the lease, before another command begins.
func TestRunDrain_EndsWithLease(t *testing.T) {
	s := newRunFixture(t, 2*runLease)
	p := s.begins(s.reacts(`trap 'echo "told $(`+binary+` remaining)" >>journal; sleep 0.3; echo "finished" >>journal' TERM`), "--drain", "1h")
	b := s.waits()
	p.signal(unix.SIGSTOP)
	b.waitBegun(1)
	expect.That(t, s.count("told 0s") == 1 && s.count("finished") == 1, "journal: %q", s.journal())
	p.noneLeft()
	s.noOverlap()
}

// A reader of the output that has stopped reading delays no process.
func TestRun_FullPipe(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(a *runProcess){
		"natsleader is killed":           func(a *runProcess) { a.signal(unix.SIGKILL) },
		"it is asked to":                 func(a *runProcess) { a.stepDown() },
		"the lease is over":              func(a *runProcess) { a.signal(unix.SIGSTOP) },
		"it is told to end, impatiently": func(a *runProcess) { a.signal(unix.SIGTERM); a.signal(unix.SIGINT); <-a.ended },
	} {
		t.Run(name, func(t *testing.T) {
			s := newRunFixture(t, runLease)
			r, w, err := os.Pipe()
			expect.OK(t, err)
			defer func() { _, _ = r.Close(), w.Close() }()
			s.output = w
			a := s.begins(s.script("c", s.prologue()+`
trap "" TERM PIPE
echo "begin $NATSLEADER_ID $NATSLEADER_TOKEN" >>journal
yes "a line for nobody" &
yes "and another" >&2
`), "--drain", "200ms")
			s.output = nil
			b := s.waits()
			do(a)
			b.waitBegun(1)
			s.noOverlap()
		})
	}
}

// Output that has no reader any more ends no process.
func TestRun_ClosedOutput(t *testing.T) {
	s := newRunFixture(t, runLease)
	r, w, err := os.Pipe()
	expect.OK(t, err)
	s.output = w
	a := s.leads()
	_, _ = r.Close(), w.Close()
	s.stepDown() // natsleader logs that
	a.waitBegun(2)
	a.terminated()
}

// A command that forks without end is ended. A group that goes on forking while it is
// killed, inside and outside of the group.
func TestRun_EndlessForks(t *testing.T) {
	s := newRunFixture(t, runLease)
	a := s.begins(s.script("c", s.prologue()+`
trap "" TERM
echo "begin $NATSLEADER_ID $NATSLEADER_TOKEN" >>journal
forks() { while :; do sleep 60 & setsid sh -c 'sleep 60 & sleep 60' & sleep 0.03; done; }
forks & (forks) & forks
`), "--drain", "100ms")
	b := s.waits()
	testworld.Eventually(t, "it has many processes", func() bool { return len(a.commandProcesses()) > 40 })
	a.signal(unix.SIGKILL)
	b.waitBegun(1)
	s.noOverlap()
	a.noneLeft()
}

// The drain of a step-down may outlast the lease.
func TestRunDrain_OfStepDown(t *testing.T) {
	s := newRunFixture(t, 6*time.Second)
	s.begins(s.reacts(`trap 'while `+binary+` remaining; do sleep 0.05; done; echo "over" >>journal; sleep 7; echo "finished" >>journal; exit 0' TERM`), "--drain", "1h")
	b := s.waits()
	s.stepDown()
	b.waitBegun(1)
	expect.That(t, s.count("over") == 1 && s.count("finished") == 1, "journal: %q", s.journal())
	s.noOverlap()
}

// The command is in no foreground group, but may read the terminal.
func TestRun_CtrlCInATerminal(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	terminal := expect.Got(os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0))(t)
	defer func() { _ = terminal.Close() }()
	number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	expect.OK(t, err)
	expect.OK(t, unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0))
	s.terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	expect.OK(t, err)
	a := s.start("a", "--", s.script("c", s.prologue()+`
trap 'echo "end $NATSLEADER_ID " >>journal; exit 0' TERM
read line
echo "begin $NATSLEADER_ID $line" >>journal
while :; do sleep 0.05; done
`))
	_ = s.terminal.Close()
	if _, err := terminal.WriteString("typed\n"); err != nil {
		t.Fatal(err)
	}
	testworld.Eventually(t, "it has read a line", func() bool { return s.count("begin a typed") == 1 })
	if _, err := terminal.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	a.exits(128 + 2)
	expect.That(t, s.count("end a") == 1, "journal: %q", s.journal())
}
