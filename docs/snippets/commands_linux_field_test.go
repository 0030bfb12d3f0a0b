//go:build field && linux

package snippets_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// A rule says what is special about a command of a page. A command without one runs to its end, with exit code 0.
type rule struct {
	page    string // its name, or a part of it; empty: any
	command string

	shows string // what it must print
	until bool   // it runs until Ctrl-C, which follows when it has printed that, and must then end with 0
	stays bool   // as until, but Ctrl-C follows at the end of the page
	code  int    // how it ends otherwise
	run   func(w *world, line string)

	in  string // it does not run here, because this file of the repository has it
	as  string // in these words, if not in its own
	why string // it does not run, for this reason
}

var rules = []rule{
	{page: "README", command: "nats-server -js", shows: "Server is ready", stays: true},
	{command: "go run github.com/nats-io/nats-server/v2@latest -js", why: "nats-server -js runs, and needs no network"},
	{page: "README", command: "go run .", run: twoReplicas},
	{command: "go run ./examples/playground", shows: "The playground is at http://127.0.0.1:9849", until: true},
	{command: "go run ./examples/demo", in: "scripts/examples"},
	{command: "go run ./examples/shards", in: "scripts/examples"},
	{command: "go run ./examples/tenants", in: "scripts/examples"},
	{command: "go test ./...", in: ".ci/run"},
	{command: "natsleader run billing -- ./billing", run: func(w *world, line string) {
		w.do("printf '#!/bin/sh\\necho working; exec sleep 1000' >billing && chmod +x billing")
		p := w.start(line)
		p.prints("working")
		p.interrupt()
	}},

	{command: "kill -9", why: "TestQuickStart_Killed"},
	{command: "kill -STOP", why: "TestQuickStart_SIGSTOP"},
	{command: "kill -CONT", why: "TestQuickStart_SIGSTOP"},
	{page: "tutorial", command: "natsleader step-down billing", shows: "has handed over billing"},
	{page: "tutorial", command: "natsleader status", shows: "billing"},
	{page: "tutorial", command: "go mod tidy && go test .", shows: "ok  \texample.com/billing"},
	{page: "tutorial", command: "go run .", run: func(w *world, line string) {
		w.programs[2].interrupt() // those of the first step
		w.programs[1].interrupt()
		w.start(line).prints("elected")
	}},
	{page: "tutorial", command: "curl -i localhost:8080/leader", shows: " 200 OK"},
	{page: "tutorial", command: "natsleader doctor", shows: "elections", code: 1}, // one server has one replica

	{page: "followers", command: "natsleader status billing", shows: "billing-7f8"},
	{page: "followers", command: "natsleader watch billing", shows: "billing-7f8", until: true},
	{page: "rollouts", command: "natsleader status billing --roster", shows: "billing-7f9"},
	{page: "rollouts", command: "natsleader step-down billing --to billing-7f9", shows: "billing-7f9 leads"},
	{page: "rollouts", command: "natsleader bucket add", shows: "elections"},
	{page: "schedules", command: "natsleader status", shows: "billing"},
	{page: "schedules", command: "natsleader doctor", shows: "elections", code: 1}, // one server has one replica
	{page: "workers", command: "natsleader run", why: "not a whole command"},
	{page: "workers", command: "natsleader run --stall", why: "not a whole command"},
	{page: "stopping", command: "docker stop", why: "not a whole command"},
	{page: "shards", command: "natsleader status orders", shows: "web-2"},
	{page: "shards", command: "natsleader step-down orders --shard 7 --to web-2", shows: "web-2"},
	{page: "shards", command: "natsleader drain web-1 --only orders", shows: "web-1"},
	{page: "keys", command: "natsleader status tenants", shows: "web-2"},
	{page: "keys", command: "nats kv put tenants tenants.acme '{\"plan\":\"gold\"}'", why: "the command of NATS is not here; TestScript of examples/tenants puts tenants"},
	{page: "keys", command: "nats kv del tenants tenants.acme", why: "as before"},
	{page: "verification", command: "git grep 'proof.Size('", run: inTree},
	{page: "verification", command: "git grep 'proof.Only('", run: inTree},
	{page: "verification", command: "git grep 'faulted no feed' leader_test", run: inTree},
	{page: "verification", command: "make test", in: ".ci/run", as: "make -s test"},
	{page: "verification", command: "make prove", in: ".ci/run", as: "make -s prove"},
	{page: "verification", command: "make field", in: ".ci/run", as: "make -s field"},
	{page: "verification", command: "make nightly", in: ".github/workflows/nightly.yml", as: "scripts/nightly"},
	{page: "verification", command: "go run ./examples/fenced", in: "scripts/examples", as: "worker cron fenced "},
	{page: "verification", command: "go test -tags field -run '^$' -bench HandoverBound ./leader_test", in: ".ci/run", as: "-bench '^BenchmarkHandoverBound$'"},
	{page: "verification", command: "go run ./mutation ./fence", in: "scripts/nightly", as: "go run ./mutation -part"},
	{page: "verification", command: "go run ./mutation -rules ./internal/machine", in: "scripts/nightly", as: "go run ./mutation -rules"},
	{page: "verification", command: "natsleader run", why: "not a whole command"},
	{page: "verification", command: "natsleader history", why: "not a whole command"},
	{command: "natsleader serve", shows: "http://127.0.0.1:", until: true},
}

// scenes are what the pages say is there: the elections and groups of their commands.
var scenes = map[string]func(w *world){
	"tutorial.md": func(w *world) {
		w.start("go run .").prints("elected")
		w.start("go run .").prints("observed")
	},
	"followers.md": candidates,
	"rollouts.md":  candidates,
	"schedules.md": candidates,
	"shards.md":    func(w *world) { members(w, "orders") },
	"keys.md":      func(w *world) { members(w, "tenants") },
}

func candidates(w *world) {
	w.do("natsleader bucket add --roster")
	w.start("natsleader run billing --id billing-7f8 --succession queue -- sleep 1000").prints("elected")
	w.start("natsleader run billing --id billing-7f9 --succession queue -- sleep 1000").prints("waiting")
}

func members(w *world, group string) {
	nc := check.Got(nats.Connect(nats.DefaultURL))(w)
	js := check.Got(jetstream.New(nc))(w)
	bucket := check.Got(leader.EnsureBucket(js, leader.BucketConfig{Name: "elections"}))(w)
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	for _, id := range []string{"web-1", "web-2"} {
		m := check.Got(shard.Join(ctx, bucket, group, shard.Config{Shards: 50, ID: id}))(w)
		work.Go(func() { _ = m.Serve(func(lead context.Context, _ *shard.Shard) { <-lead.Done() }) })
	}
	w.atEnd = append(w.atEnd, func() { stop(); work.Wait(); nc.Close() })
	w.until("all shards have owners", func() bool {
		_, err := w.output("natsleader status " + group)
		return err == nil
	})
}

// twoReplicas starts a program twice, and interrupts the one that works.
func twoReplicas(w *world, line string) {
	a := w.start(line)
	a.prints("an item under token")
	b := w.start(line)
	b.prints("observed")
	a.interrupt()
	b.prints("an item under token")
	b.interrupt()
}

// inTree runs a command that needs the repository's history, or its index.
func inTree(w *world, line string) {
	w.dir = w.root
	w.do(line)
	w.dir = w.clone
}

// atNight has what `make nightly` runs.
const atNight = "Makefile"

// ownNetwork is set in the process that runs the commands, which has a network of its own. So the ports of the pages
// are free there.
const ownNetwork = "NATSLEADER_PAGES_NETWORK"

// The commands of the README, the tutorial, the how-to pages and the playground's page run as they stand, beside a copy
// of the tree. So do the programs, in the files that the pages name. What verification.md shows runs there, in CI, or at
// night.
func TestCommands_Run(t *testing.T) {
	inRepository(t)
	proof.Outside() // the commands run in a clone of the repository
	root := check.Got(filepath.Abs("../.."))(t)
	pages := read(t, "../../README.md", "../tutorial.md", "../playground.md", "../verification.md", "../howto/*.md") // also for the test cache
	if os.Getenv(ownNetwork) == "" {
		runInOwnNetwork(t, root)
		return
	}
	loopbackUp(t)
	w := newWorld(t, root)
	for _, page := range slices.Sorted(maps.Keys(pages)) { // the README is the first
		t.Run(filepath.Base(page), func(t *testing.T) {
			w.TB, w.page = t, filepath.Base(page)
			w.dir = w.clone
			if w.page == "tutorial.md" {
				w.dir = w.home + "/billing" // it goes on with the program of the README
			}
			defer w.end()
			if w.page != "README.md" { // which says how to start one
				check.OK(t, os.RemoveAll(w.home+"/nats")) // what it has stored
				w.start("nats-server -js").prints("Server is ready")
			}
			if scene := scenes[w.page]; scene != nil {
				scene(w)
			}
			w.read(pages[page])
		})
	}
	for i, r := range rules {
		check.That(t, w.used[i] || t.Failed(), "the pages have no %s %q", r.page, r.command)
	}
}

// runInOwnNetwork runs the test again, in a process without a network but for a loopback interface.
func runInOwnNetwork(t *testing.T, root string) {
	t.Helper()
	module := t.TempDir() // go mod tidy needs a network for the newest nats.go, unless the module cache has it
	w := &world{TB: t, dir: module, root: root, clone: root}
	_, code, _ := strings.Cut(read(t, "../../README.md")["../../README.md"], "\n```go\n")
	code, _, _ = strings.Cut(code, "```")
	w.write("main.go", code)
	tidy := exec.Command("bash", "-ec", `go mod init example.com/billing
		go mod edit -replace "github.com/natsleader/natsleader=`+root+`"
		go mod tidy`)
	tidy.Dir, tidy.Env = module, append(os.Environ(), "GOFLAGS=")
	out, err := tidy.CombinedOutput()
	check.Must(t, err == nil, "%v\n%s", err, out)

	again := exec.Command(os.Args[0], "-test.run=^TestCommands_Run$", "-test.v", "-test.timeout=5m")
	again.Env = append(os.Environ(), ownNetwork+"=1")
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		again.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		again.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	var said bytes.Buffer
	again.Stdout, again.Stderr = &said, &said
	if err = again.Start(); err != nil {
		proof.Skip(t, "no network of its own: ", err)
	}
	err = again.Wait()
	check.Must(t, err == nil, "%v\n%s", err, &said)
	t.Log(said.String())
}

// loopbackUp makes the loopback interface of a new network work.
func loopbackUp(t *testing.T) {
	t.Helper()
	fd := check.Got(syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0))(t)
	defer func() { _ = syscall.Close(fd) }()
	request := struct { // struct ifreq
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP}
	copy(request.name[:], "lo")
	_, _, code := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request)))
	check.Must(t, code == 0, "the loopback interface: %v", code)
}

// world is where the commands of a page run.
type world struct {
	testing.TB
	root, clone string // this tree, and its copy
	home, bin   string // bin has the programs that the pages take for installed
	dir, before string // PWD and OLDPWD
	page        string
	programs    []*program
	atEnd       []func()
	used        map[int]bool // rules, by their index
}

func newWorld(t *testing.T, root string) *world {
	t.Helper()
	home := t.TempDir()
	w := &world{TB: t, root: root, home: home, clone: home + "/natsleader", bin: home + "/bin", dir: root}
	w.used = make(map[int]bool)
	check.OK(t, os.Mkdir(w.clone, 0o700))
	w.do("git ls-files --cached --others --exclude-standard | xargs ls -d 2>/dev/null | " +
		"tar -c -T - | tar -x -C " + w.clone)
	w.dir = w.clone
	w.do("go build -o " + w.bin + "/ ./cmd/natsleader github.com/nats-io/nats-server/v2")
	return w
}

// env is the environment of the commands. No server but the page's can be reached, so modules come from the cache.
func (w *world) env() []string {
	caches := strings.Fields(string(check.Got(exec.Command("go", "env", "GOMODCACHE", "GOCACHE").Output())(w)))
	return append(os.Environ(), "HOME="+w.home, "TMPDIR="+w.home, "PATH="+w.bin+":"+os.Getenv("PATH"), "OLDPWD="+w.before,
		"GOMODCACHE="+caches[0], "GOCACHE="+caches[1], "GOPROXY=file://"+caches[0]+"/cache/download",
		"GONOSUMDB=*", "GOWORK=",
		"GOFLAGS=-trimpath -buildvcs=false", // with -trimpath the build cache serves each copy of a tree
		"DISPLAY=", "WAYLAND_DISPLAY=")      // no browser
}

// shell returns a command of the page's shell.
func (w *world) shell(line string) *exec.Cmd {
	cmd := exec.Command("bash", "-ec", line)
	cmd.Dir, cmd.Env = w.dir, w.env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (w *world) output(line string) (string, error) {
	out, err := w.shell(line).CombinedOutput()
	return string(out), err
}

// do runs a command to its end, and returns what it prints. A cd holds for the next one.
func (w *world) do(line string) string {
	w.Helper()
	out, err := w.output(line + "\nprintf '\\n%s\\n%s' \"$PWD\" \"$OLDPWD\"")
	check.Must(w, err == nil, "%s\n%v\n%s", line, err, out)
	lines := strings.Split(out, "\n")
	w.dir, w.before = lines[len(lines)-2], lines[len(lines)-1]
	return out
}

// until waits for a condition.
func (w *world) until(what string, holds func() bool) {
	w.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		check.Must(w, time.Now().Before(end), "waited in vain: %s", what)
	}
}

// program runs until Ctrl-C.
type program struct {
	*world
	cmd   *exec.Cmd
	line  string
	mu    sync.Mutex
	said  bytes.Buffer
	ended chan struct{}
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *program) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

func (w *world) start(line string) *program {
	w.Helper()
	p := &program{world: w, cmd: w.shell("exec " + line), line: line, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	check.OK(w, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	w.programs = append(w.programs, p)
	return p
}

func (p *program) prints(text string) {
	p.Helper()
	p.until(p.line+" prints "+text, func() bool {
		select {
		case <-p.ended:
			check.Must(p, strings.Contains(p.text(), text), "%s has ended without %q\n%s", p.line, text, p.text())
		default:
		}
		return strings.Contains(p.text(), text)
	})
}

// interrupt is Ctrl-C. The program must end with 0, or with 130, as shells report Ctrl-C. The go command ends with 1
// then, and prints another exit status of its program.
func (p *program) interrupt() {
	p.Helper()
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT)
	select {
	case <-p.ended:
		code := p.cmd.ProcessState.ExitCode()
		fine := code == 0 || code == 130 || code == 1 && strings.HasPrefix(p.line, "go run ")
		fine = fine && !strings.Contains(p.text(), "exit status")
		check.That(p, fine, "%s ends with %d after Ctrl-C\n%s", p.line, code, p.text())
	case <-time.After(30 * time.Second):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		p.Errorf("%s does not end after Ctrl-C\n%s", p.line, p.text())
	}
	p.programs = slices.DeleteFunc(p.programs, func(q *program) bool { return q == p })
}

// end ends what the page has started, in reverse order.
func (w *world) end() {
	w.Helper()
	for _, f := range w.atEnd {
		f()
	}
	w.atEnd = nil
	for _, p := range slices.Backward(slices.Clone(w.programs)) {
		p.interrupt()
	}
}

func (w *world) write(name, text string) {
	w.Helper()
	check.OK(w, os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600))
}

var (
	inline = regexp.MustCompile("`[^`]+`")
	// What begins so in backticks is a command, and not a function, a file or a flag.
	command = regexp.MustCompile(`^(go (run|test|build|install|get|mod)|natsleader|nats(-server)?|git|make|curl|kill|docker) `)
	ofTree  = regexp.MustCompile(` \./(examples|shard|\.\.\.)`)
	tests   = regexp.MustCompile(`^go test (?:-tags [\w,]+ )?\./([\w/]+) -run '?([^' ]+)'?(?: -v)?$`)
	long    = regexp.MustCompile(` -(states|walks|simulations|fuzztime|duration) `)
	named   = regexp.MustCompile("`([a-z_]+\\.go)`")
)

// read runs the commands of a page in their order, and writes its programs.
func (w *world) read(text string) {
	w.Helper()
	file := ""
	for len(text) > 0 {
		prose, kind, code := text, "", ""
		if at := block.FindStringSubmatchIndex(text); at != nil {
			prose, kind, code, text = text[:at[0]], text[at[2]:at[3]], text[at[4]:at[5]], text[at[1]:]
		} else {
			text = ""
		}
		for _, quoted := range inline.FindAllString(prose, -1) {
			if line := strings.Join(strings.Fields(strings.Trim(quoted, "`")), " "); command.MatchString(line) {
				w.follow(line)
			}
		}
		paragraphs := strings.Split(strings.TrimSpace(prose), "\n\n")
		if m := named.FindStringSubmatch(paragraphs[len(paragraphs)-1]); m != nil {
			file = m[1]
		}
		switch {
		case kind == "sh":
			for _, line := range strings.Split(strings.TrimSpace(code), "\n") {
				line, _, _ = strings.Cut(line, " # ")
				w.follow(strings.TrimSpace(line))
			}
		case kind == "go" && strings.HasPrefix(code, "package main\n"):
			w.write(file, code)
		}
	}
}

// follow runs a command, as its rule says.
func (w *world) follow(line string) {
	w.Helper()
	if w.Failed() {
		return
	}
	i := slices.IndexFunc(rules, func(r rule) bool { return r.command == line && strings.Contains(w.page, r.page) })
	var r rule // without one the command runs to its end
	if i >= 0 {
		r = rules[i]
		if w.used[i] {
			return
		}
		w.used[i] = true
	}
	w.Log(line)
	if ofTree.MatchString(line) {
		defer func(dir string) { w.dir = dir }(w.dir)
		w.dir = w.clone
	}
	if m := tests.FindStringSubmatch(line); m != nil {
		w.hasTests(m[1], m[2]) // `make test`, `make prove` and `make field` run them
		return
	}
	if long.MatchString(line) {
		r.in = atNight
	}
	switch {
	case r.why != "":
		if strings.HasPrefix(r.why, "Test") {
			w.hasTests("leader_test", "^"+r.why+"$")
		}
	case r.in != "":
		text := string(check.Got(os.ReadFile(filepath.Join(w.root, r.in)))(w))
		if r.in == "Makefile" {
			text = strings.ReplaceAll(text, "$$", "$")
		}
		words := cmp.Or(r.as, line)
		check.That(w, strings.Contains(text, words), "%s has no %q", r.in, words)
	case r.run != nil:
		r.run(w, line)
	case r.until || r.stays:
		p := w.start(line)
		p.prints(r.shows)
		if r.until {
			p.interrupt()
		}
	case r.code != 0:
		out, err := w.output(line)
		exit := (*exec.ExitError)(nil)
		check.Must(w, errors.As(err, &exit) && exit.ExitCode() == r.code, "%s: %v, not %d\n%s", line, err, r.code, out)
		check.That(w, strings.Contains(out, r.shows), "%s does not print %q\n%s", line, r.shows, out)
	default:
		out := w.do(line)
		check.That(w, strings.Contains(out, r.shows), "%s does not print %q\n%s", line, r.shows, out)
	}
}

// hasTests fails the test unless a package has a test whose name matches each part of a pattern. The name of a subtest
// is a string in its sources.
func (w *world) hasTests(dir, pattern string) {
	w.Helper()
	names, sources := "", ""
	for _, text := range read(w.TB.(*testing.T), filepath.Join(w.root, dir, "*_test.go")) {
		sources += text
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(text, -1) {
			names += m[1] + "\n"
		}
	}
	for _, part := range strings.Split(pattern, "|") {
		name, sub, _ := strings.Cut(part, "/")
		check.That(w, regexp.MustCompile("(?m)"+name).MatchString(names), "%s has no test %s", dir, name)
		check.That(w, sub == "" || strings.Contains(sources, `"`+strings.Trim(sub, "^$")+`"`), "%s has no subtest %s", dir, part)
	}
}
