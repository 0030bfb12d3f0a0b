package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// world is a server with JetStream, and the commands and candidates that use it, in one synctest bubble.
// Its bucket is "elections".
type world struct {
	*testing.T
	o      *server.Options
	s      *server.Server
	js     jetstream.JetStream // of the test itself
	bucket *leader.Bucket
	stands []*leader.Candidate
	shown  strings.Builder // the transcript of prompt
	mu     sync.Mutex      // of s and shown
	away   time.Duration   // in which a message comes to the server, or from there, on new connections

	served   pipes                   // where a command serves, at last
	servedAt map[string]pipes        // by flag
	dialled  func(net.Conn) net.Conn // replaces each new connection; nil: none
}

// update rewrites the transcripts: go test ./cmd/natsleader -update.
var update = flag.Bool("update", false, "rewrite the transcripts of testdata and of docs/cli.md, and docs/cli-help.md")

// testdata is the directory of the transcripts, also for a test that changes its directory.
var testdata, _ = filepath.Abs("testdata")

// emptyTimerPool empties nats.go's pool of timers, which must not cross the border of a bubble.
func emptyTimerPool() {
	runtime.GC() // what is in a pool survives one collection
	runtime.GC()
}

// bubble runs a test in a world, and never beside others. The options change those of its server.
func bubble(t *testing.T, cfg leader.BucketConfig, test func(w *world), opts ...func(*server.Options)) {
	t.Helper()
	// natscontext reads the selected context of the user.
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, t.TempDir())
	}
	emptyTimerPool()
	dir := testserver.StoreDir(t)
	alone(t, func(w *world) {
		w.o = &server.Options{ServerName: "n1", DontListen: true, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true}
		for _, opt := range opts {
			opt(w.o)
		}
		w.serve()
		nc := w.dial()
		w.js = expect.Got(jetstream.New(nc))(w)
		cfg.Name = "elections"
		w.bucket = expect.Got(leader.CreateOrUpdateBucket(w.Context(), w.js, cfg))(w)
		w.Cleanup(func() {
			for _, c := range w.stands {
				_ = c.Stop() // a test may keep it from its release
			}
			time.Sleep(time.Minute) // what was given up has ended by then
			nc.Close()
			w.s.Shutdown()
			w.s.WaitForShutdown()
			time.Sleep(time.Second) // the loops that flush the server's store end at their next turn
		})
		test(w)
	})
}

// alone runs a test in a world without a server.
func alone(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t}
		test(w)
		w.compare()
	})
}

// withUser lets the server have a user besides the one for clients without a name. "-s nats://NAME:NAME@localhost"
// connects as that user.
func withUser(name string, may *server.Permissions) func(*server.Options) {
	return func(o *server.Options) {
		if o.NoAuthUser == "" {
			o.Users, o.NoAuthUser = []*server.User{{Username: "admin"}}, "admin"
		}
		o.Users = append(o.Users, &server.User{Username: name, Password: name, Permissions: may})
	}
}

// denied forbids a user to publish on subjects.
func denied(subjects ...string) *server.Permissions {
	return &server.Permissions{Publish: &server.SubjectPermission{Deny: subjects}}
}

// serve starts the server.
func (w *world) serve() {
	w.Helper()
	s := expect.Got(server.NewServer(w.o))(w)
	s.Start()
	expect.Must(w, s.ReadyForConnections(time.Minute), "the server does not start")
	testserver.Prime(w, s, nats.Token(w.o.Authorization))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.s = s
}

// restart lets the server be away for a second.
func (w *world) restart() {
	w.Helper()
	w.s.Shutdown()
	w.s.WaitForShutdown()
	time.Sleep(time.Second)
	w.serve()
}

// Dial connects to the server that runs then. Nothing listens on port 1 of any host.
func (w *world) Dial(_, address string) (net.Conn, error) {
	if strings.HasSuffix(address, ":1") {
		return nil, syscall.ECONNREFUSED
	}
	if strings.HasPrefix(address, "192.0.2.") {
		time.Sleep(5 * time.Second)
		return nil, os.ErrDeadlineExceeded
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	far, err := w.s.InProcessConn()
	if err == nil && w.dialled != nil {
		far = w.dialled(far)
	}
	if err != nil || w.away == 0 {
		return far, err
	}
	near, middle := net.Pipe()
	go slowPipe(middle, far, w.away)
	go slowPipe(far, middle, w.away)
	return near, nil
}

func (w *world) dial() *nats.Conn {
	w.Helper()
	silent := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	nc := expect.Got(nats.Connect("", append(w.inProcess(), silent, nats.Token(w.o.Authorization))...))(w)
	return nc
}

func (w *world) inProcess() []nats.Option {
	pause := nats.CustomReconnectDelay(func(int) time.Duration { return nats.DefaultReconnectWait }) // without a random part
	return []nats.Option{nats.SetCustomDialer(w), nats.SkipHostLookup(), pause}
}

// globals returns the flags of a command that uses the bucket.
func (w *world) globals() *globals {
	process := stdio{stdout: io.Discard, stderr: io.Discard, dial: w.inProcess()}
	return &globals{stdio: process, timeout: 5 * time.Second, bucket: "elections", noContext: true}
}

// run calls the command.
func (w *world) run(line string) (stdout, stderr string, code int) {
	return w.answered("", line)
}

// alwaysSynced is the clock of a world's host.
func alwaysSynced() (bool, error) { return true, nil }

// answered calls the command with that standard input.
func (w *world) answered(stdin, line string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	process := stdio{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs, dial: w.inProcess(), life: w.Context(), synced: alwaysSynced}
	code = execute(arguments(line), process)
	return out.String(), errs.String(), code
}

// arguments returns the arguments of a command line, in which ” is nothing.
func arguments(line string) []string {
	args := strings.Fields(line)
	for i, arg := range args {
		args[i] = strings.TrimSuffix(arg, "''")
	}
	return args
}

// prompt calls a command and adds to the transcript what a user sees at the prompt: the command, its
// standard output, its standard error after "! ", and its exit code unless that is 0. A transcript with a
// character that a terminal may obey is an error. The transcript of a test is compared with
// testdata/NAME OF THE TEST.txt when the test ends.
func (w *world) prompt(lines ...string) {
	for _, line := range lines {
		out, errs, code := w.run(line)
		w.notef("$ natsleader %s\n%s", line, out)
		_, _ = noteWriter{w, "! "}.Write([]byte(errs))
		w.ended(code)
	}
}

func (w *world) ended(code int) {
	if code != 0 {
		w.notef("[exit code %d]\n", code)
	}
}

// follow starts a command that goes on until stop is called, and adds to the transcript what the command
// prints, when it prints it, without the times of its log: at which of two ticks it sees an answer is a race.
func (w *world) follow(line string) (stop func()) {
	ctx, interrupt := context.WithCancel(w.Context())
	ended := make(chan int, 1)
	w.notef("$ natsleader %s\n", line)
	process := stdio{stdout: noteWriter{w, ""}, stderr: timeless{noteWriter{w, "! "}}, dial: w.inProcess(), life: ctx, listener: w.listen}
	go func() { ended <- execute(arguments(line), process) }()
	synctest.Wait()
	return func() {
		interrupt()
		w.notef("^C\n")
		w.ended(<-ended)
	}
}

// listen is where a command serves instead of at the address of a flag.
func (w *world) listen(flag string) webListener {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.served = newPipes(); w.servedAt == nil {
		w.servedAt = map[string]pipes{}
	}
	w.servedAt[flag] = w.served
	return w.served
}

// noteWriter adds what is written to the transcript, and a mark before each line.
type noteWriter struct {
	w    *world
	mark string
}

func (n noteWriter) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		n.w.notef("%s%s", n.mark, line)
	}
	return len(b), nil
}

// timeless adds the lines of a log without their times.
type timeless struct{ noteWriter }

func (n timeless) Write(b []byte) (int, error) {
	return n.noteWriter.Write(logTimes.ReplaceAll(b, []byte("$1")))
}

var logTimes = regexp.MustCompile(`(?m)^(\{"time":")?2000-[^" ]+ ?`)

// notef adds to the transcript.
func (w *world) notef(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.shown.WriteString(repeatable(fmt.Sprintf(format, args...)))
}

// repeatable returns a text without what differs from one run to the next.
func repeatable(text string) string {
	text = tokens.ReplaceAllString(strings.ReplaceAll(text, server.VERSION, "VERSION"), "TOKEN")
	return madeUp.ReplaceAllString(text, "${1}${2}${3}X")
}

// compare compares the transcript of prompt.
func (w *world) compare() {
	w.Helper()
	if w.shown.Len() > 0 {
		compareTranscript(w.T, w.shown.String())
	}
}

// compareTranscript compares a transcript with testdata/NAME OF THE TEST.txt, or writes the file.
func compareTranscript(t *testing.T, text string) {
	t.Helper()
	obeyed := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
	text = randoms.ReplaceAllString(text, "${1}RANDOM")
	expect.Must(t, utf8.ValidString(text) && !strings.ContainsFunc(text, obeyed), "a terminal may obey a part of %q", text)
	file := filepath.Join(testdata, strings.ReplaceAll(t.Name(), "/", "_")+".txt")
	if *update {
		expect.OK(t, os.WriteFile(file, []byte(text), 0o600))
	}
	want := expect.Got(os.ReadFile(file))(t)
	if got := strings.Split(text, "\n"); text != string(want) {
		for i, line := range strings.Split(string(want), "\n") {
			if i >= len(got) || got[i] != line {
				t.Errorf("%s:%d: %q is wanted\n%s", file, i+1, line, strings.Join(got[max(0, min(i, len(got))-5):min(i+5, len(got))], "\n"))
				return
			}
		}
		t.Errorf("%s has only the beginning of\n%s", file, text)
	}
}

// tokens are fencing tokens and revisions, also as values of metrics. They begin at the time in microseconds at which the
// bucket was made. How many renewals come before a revision is a race of goroutines.
var tokens = regexp.MustCompile(`\b(token )?(?:94668\d{10}|18933\d{11})\b|\b9\.46684\d*e\+14`)

// madeUp are names that doctor makes up, inboxes, and names of consumers.
var madeUp = regexp.MustCompile(`(natsleader[._]doctor[._])\w{12}|(_INBOX\.)[\w.]+|(CONSUMER\.CREATE\.\w+\.)\w{22}`)

// randoms are secrets, and the sessions of candidates.
var randoms = regexp.MustCompile(`(?i)((?:secret|session|next)\W+)[A-Z2-7]{26}\b`)

// fails checks the exit code of a command that prints nothing but an error, and a part of the error.
func (w *world) fails(line string, code int, says string) {
	w.Helper()
	out, errs, got := w.run(line)
	expect.That(w, got == code && out == "" && strings.Count(errs, "\n") == 1 && strings.Contains(errs, says),
		"natsleader %s: exit code %d, want %d with %q\n%s%s", line, got, code, says, out, errs)
}

// campaigns starts a candidate. The one before it leads or waits by then.
func (w *world) campaigns(election string, cfg leader.Config) *leader.Candidate {
	w.Helper()
	return w.campaignsOn(w.bucket, election, cfg)
}

func (w *world) campaignsOn(store leader.Store, election string, cfg leader.Config) *leader.Candidate {
	w.Helper()
	c := expect.Got(leader.Campaign(context.Background(), store, election, cfg))(w)
	w.stands = append(w.stands, c)
	time.Sleep(time.Minute + time.Second) // between two renewals
	return c
}

// put writes a key with the header that the write of a candidate has. Its condition, that a
// subject outside the bucket has no message, holds always.
func put(t *testing.T, js jetstream.JetStream, election, value string) {
	t.Helper()
	m := nats.NewMsg("$KV.elections." + election)
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, "0")
	m.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, "none")
	m.Data = []byte(value)
	_, err := js.PublishMsg(t.Context(), m)
	expect.Must(t, err == nil, "%v", err)
}

// record returns the record of a real candidate, with another ID and lease, and without the time when it was written.
func record(tb testing.TB, js jetstream.JetStream, election, id string, lease time.Duration) string {
	tb.Helper()
	kv := expect.Got(js.KeyValue(tb.Context(), "elections"))(tb)
	e, err := kv.Get(tb.Context(), election)
	expect.OK(tb, err)
	var fields map[string]any
	err = json.Unmarshal(e.Value(), &fields)
	expect.OK(tb, err)
	delete(fields, "at")
	fields["id"], fields["lease"] = id, lease.String()
	text := expect.Got(json.Marshal(fields))(tb)
	return string(text)
}
