//go:build field && unix

package leader_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The quick start of the README, as a program that runs in processes of its own.

var otherProgram = flag.String("program", "", "judge this program in place of the README's quick start; it gets NATS_URL and ITEM, and writes the same lines")

// quickStart is the program that the README shows, with another item of work, which takes ITEM
// and writes down when it begins and ends.
func quickStart(tb testing.TB) string {
	tb.Helper()
	readme := check.Got(os.ReadFile("../README.md"))(tb)
	_, rest, _ := strings.Cut(string(readme), "\n```go\n")
	shown, _, ok := strings.Cut(rest, "```")
	check.Must(tb, ok, "the README has no quick start")
	shown = replaced(tb, shown, `fmt.Println("an item under token", term.Token())
			time.Sleep(time.Second) // your work
`, "item(lead, term.Token())\n")
	return shown + `
var asked time.Time // when the loop checked the lease, if the loop records that

// An item begins over its lease if the loop found the lease valid less than a second before. No
// check helps a process that is stopped between the check and the item.
func item(ctx context.Context, token uint64) {
	over := leader.Err(ctx) != nil && (asked.IsZero() || time.Since(asked) < time.Second)
	note("begins", token, over)
	d, _ := time.ParseDuration(os.Getenv("ITEM"))
	time.Sleep(d)
	note("ends", token, over)
}

func note(what string, token uint64, over bool) {
	fmt.Println(what, token, time.Now().UnixNano(), over)
}
`
}

// replaced returns a text with one part replaced, which must be there once.
func replaced(tb testing.TB, text, part, by string) string {
	tb.Helper()
	check.Must(tb, strings.Count(text, part) == 1, "the quick start does not have once: %s", part)
	return strings.Replace(text, part, by, 1)
}

// compiled builds a program, once for each text.
func compiled(tb testing.TB, program string) string {
	tb.Helper()
	program = replaced(tb, program, "nats.DefaultURL", `os.Getenv("NATS_URL")`)
	programs.Lock()
	defer programs.Unlock()
	if path, ok := programs.built[program]; ok {
		return path
	}
	dir, err := os.MkdirTemp("", "quickstart") //nolint:usetesting // other tests use it, too
	check.OK(tb, err)
	sharedDirs = append(sharedDirs, dir)
	source, path := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	check.OK(tb, os.WriteFile(source, []byte(program), 0o600))
	build := exec.Command("go", "build", "-o", path, source)
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	programs.built[program] = path
	return path
}

var programs = struct {
	sync.Mutex
	built map[string]string
}{built: make(map[string]string)}

// item is one item of work of a process.
type item struct {
	by         *program
	token      uint64
	begun, end int64 // Unix nanoseconds; no end: it has not ended
	over       bool  // the lease was over at its beginning
}

// program is a process that runs the quick start.
type program struct {
	*plant
	name  string
	cmd   *exec.Cmd
	log   *journal // what it writes to the standard error
	ended chan struct{}
	code  int
}

// plant is a server and the processes that work with it, and what they have done.
type plant struct {
	testing.TB
	path  string
	host  *tcpHost
	url   string
	mu    sync.Mutex
	items []*item
}

// plantOf starts a plant. A lease of 0 leaves it to the program to make the bucket.
func plantOf(tb testing.TB, program string, lease time.Duration) *plant {
	tb.Helper()
	port := tcpFreePorts(tb, 1)[0]
	p := &plant{TB: tb, path: *otherProgram, url: fmt.Sprint("nats://127.0.0.1:", port)}
	if p.path == "" {
		p.path = compiled(tb, program)
	}
	opts := tcpOptions(tb, "")
	opts.Port = port
	p.host = tcpHostOf(tb, opts)
	if lease > 0 {
		p.host.up()
		_, err := leader.CreateOrUpdateBucket(tb.Context(), tcpJS(tb, tcpDial(tb, p.host.srv.ClientURL())), leader.BucketConfig{Name: "elections", MaxLease: lease})
		check.OK(tb, err)
	}
	return p
}

// start starts a process that connects to that URL.
func (p *plant) start(name, url string, takes time.Duration, env ...string) *program {
	p.Helper()
	q := &program{plant: p, name: name, log: &journal{}, cmd: exec.Command(p.path), ended: make(chan struct{})}
	q.cmd.Env = append(append(os.Environ(), "NATS_URL="+url, "ITEM="+takes.String()), env...)
	q.cmd.Stderr = q.log
	out := check.Got(q.cmd.StdoutPipe())(p)
	check.OK(p, q.cmd.Start())
	go q.read(bufio.NewScanner(out))
	p.Cleanup(func() {
		_ = q.cmd.Process.Kill()
		_ = q.cmd.Process.Signal(syscall.SIGCONT)
		<-q.ended
		if p.Failed() {
			p.Logf("%s ended with %d:\n%s", name, q.code, q.log)
		}
	})
	return q
}

// read records the items of a process until its end.
func (q *program) read(lines *bufio.Scanner) {
	defer close(q.ended)
	for lines.Scan() {
		var what string
		n := item{by: q}
		var at int64
		if _, err := fmt.Sscan(lines.Text(), &what, &n.token, &at, &n.over); err != nil {
			q.Errorf("%q: %v", lines.Text(), err)
			continue
		}
		q.mu.Lock()
		if what == "begins" {
			n.begun = at
			q.items = append(q.items, &n)
		} else {
			for _, i := range q.items {
				if i.by == q && i.end == 0 {
					i.end = at
				}
			}
		}
		q.mu.Unlock()
	}
	_ = q.cmd.Wait()
	q.code = q.cmd.ProcessState.ExitCode()
}

func (q *program) signal(s syscall.Signal) {
	q.Helper()
	check.OK(q, q.cmd.Process.Signal(s))
}

// exits waits for the end of the process, and fails the test unless it has that status.
func (q *program) exits(code int) {
	q.Helper()
	tcpEventually(q, q.name+" exits", func() bool {
		select {
		case <-q.ended:
			return true
		default:
			return false
		}
	})
	check.That(q, q.code == code, "%s exits with %d, want %d", q.name, q.code, code)
}

// count returns how many items of a process satisfy is. A nil process stands for all.
func (p *plant) count(by *program, is func(*item) bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.items {
		if (by == nil || i.by == by) && is(i) {
			n++
		}
	}
	return n
}

func runs(i *item) bool { return i.end == 0 }
func every(*item) bool  { return true }

// works waits until a process has begun more items than that.
func (q *program) works(than int) {
	q.Helper()
	tcpEventually(q, q.name+" works", func() bool { return q.count(q, every) > than })
}

// inItem waits until the process is in an item.
func (q *program) inItem() {
	q.Helper()
	tcpEventually(q, q.name+" is in an item", func() bool { return q.count(q, runs) > 0 })
}

// judge checks all items: none was begun on a lease that was over, or after the first item of
// a later term, and no two of different terms overlap, but for the item that was under way
// when its process was stopped.
func (p *plant) judge(stopped *item) {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.items {
		check.That(p, !i.over, "%s begins an item of term %d after its lease", i.by.name, i.token)
		for _, j := range p.items {
			if j.token <= i.token {
				continue
			}
			check.That(p, i.begun < j.begun,
				"%s begins an item of term %d when term %d is at work", i.by.name, i.token, j.token)
			if i != stopped && i.end > j.begun {
				p.Errorf("an item of term %d of %s ends %v after the first of term %d", i.token, i.by.name, time.Duration(i.end-j.begun), j.token)
			}
		}
	}
}

// current returns the item that a process is in, or nil.
func (q *program) current() *item {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, i := range q.items {
		if i.by == q && i.end == 0 {
			return i
		}
	}
	return nil
}

// journal keeps what is written to it.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
