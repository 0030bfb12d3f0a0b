// Package testworld has the server, the commands and the candidates of a test, in one bubble.
package testworld

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

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// World is a server with JetStream, and the commands and candidates that use it, in one synctest bubble.
// Its bucket is "elections".
type World struct {
	*testing.T
	O      *server.Options
	S      *server.Server
	Js     jetstream.JetStream // of the test itself
	Bucket *leader.Bucket
	Stands []*leader.Candidate
	Shown  strings.Builder // the transcript of prompt
	Mu     sync.Mutex      // of s and shown
	Away   time.Duration   // in which a message comes to the server, or from there, on new connections

	Served   pipes                   // where a command serves, at last
	ServedAt map[string]pipes        // by flag
	Dialled  func(net.Conn) net.Conn // replaces each new connection; nil: none
}

// Execute runs the command with arguments, and returns its exit code.
var Execute func(args []string, process front.Stdio) int

// Update rewrites the transcripts: go test ./cmd/natsleader -update.
var Update = flag.Bool("update", false, "rewrite the transcripts of testdata and of docs/cli.md, and docs/cli-help.md")

// testdata is the directory of the transcripts, also for a test that changes its directory.
var testdata, _ = filepath.Abs("testdata")

// EmptyTimerPool empties nats.go's pool of timers, which must not cross the border of a bubble.
func EmptyTimerPool() {
	runtime.GC() // what is in a pool survives one collection
	runtime.GC()
}

// Bubble runs a test in a world, and never beside others. The options change those of its server.
func Bubble(t *testing.T, cfg leader.BucketConfig, test func(w *World), opts ...func(*server.Options)) {
	t.Helper()
	// natscontext reads the selected context of the user.
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, t.TempDir())
	}
	EmptyTimerPool()
	dir := testserver.StoreDir(t, "A")
	Alone(t, func(w *World) {
		w.O = &server.Options{ServerName: "n1", DontListen: true, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true}
		for _, opt := range opts {
			opt(w.O)
		}
		w.Serve()
		nc := w.Connect()
		w.Js = expect.Got(jetstream.New(nc))(w)
		cfg.Name = "elections"
		w.Bucket = expect.Got(leader.CreateOrUpdateBucket(w.Context(), w.Js, cfg))(w)
		w.Cleanup(func() {
			for _, c := range w.Stands {
				_ = c.Stop() // a test may keep it from its release
			}
			time.Sleep(time.Minute) // what was given up has ended by then
			nc.Close()
			w.S.Shutdown()
			w.S.WaitForShutdown()
			time.Sleep(time.Second) // the loops that flush the server's store end at their next turn
		})
		test(w)
	})
}

// Alone runs a test in a world without a server.
func Alone(t *testing.T, test func(w *World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &World{T: t}
		test(w)
		w.Compare()
	})
}

// WithUser lets the server have a user besides the one for clients without a name. "-s nats://NAME:NAME@localhost"
// connects as that user.
func WithUser(name string, may *server.Permissions) func(*server.Options) {
	return func(o *server.Options) {
		if o.NoAuthUser == "" {
			o.Users, o.NoAuthUser = []*server.User{{Username: "admin"}}, "admin"
		}
		o.Users = append(o.Users, &server.User{Username: name, Password: name, Permissions: may})
	}
}

// Denied forbids a user to publish on subjects.
func Denied(subjects ...string) *server.Permissions {
	return &server.Permissions{Publish: &server.SubjectPermission{Deny: subjects}}
}

// Serve starts the server.
func (w *World) Serve() {
	w.Helper()
	s := expect.Got(server.NewServer(w.O))(w)
	s.Start()
	expect.Must(w, s.ReadyForConnections(time.Minute), "the server does not start")
	testserver.Prime(w, s, nats.Token(w.O.Authorization))
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.S = s
}

// Reload gives the server other options. Some of its goroutines read them without a lock, so all of them are idle before.
func (w *World) Reload(o *server.Options) error {
	synctest.Wait()
	return w.S.ReloadOptions(o)
}

// Restart lets the server be away for a second.
func (w *World) Restart() {
	w.Helper()
	w.S.Shutdown()
	w.S.WaitForShutdown()
	time.Sleep(time.Second)
	w.Serve()
}

// Dial connects to the server that runs then. Nothing listens on port 1 of any host.
func (w *World) Dial(_, address string) (net.Conn, error) {
	if strings.HasSuffix(address, ":1") {
		return nil, syscall.ECONNREFUSED
	}
	if strings.HasPrefix(address, "192.0.2.") {
		time.Sleep(5 * time.Second)
		return nil, os.ErrDeadlineExceeded
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	far, err := w.S.InProcessConn()
	if err == nil && w.Dialled != nil {
		far = w.Dialled(far)
	}
	if err != nil || w.Away == 0 {
		return far, err
	}
	near, middle := net.Pipe()
	go SlowPipe(middle, far, w.Away)
	go SlowPipe(far, middle, w.Away)
	return near, nil
}

// Connect connects a test itself.
func (w *World) Connect() *nats.Conn {
	w.Helper()
	silent := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	nc := expect.Got(nats.Connect("", append(w.InProcess(), silent, nats.Token(w.O.Authorization))...))(w)
	return nc
}

// InProcess returns the options of connections in the process.
func (w *World) InProcess() []nats.Option {
	pause := nats.CustomReconnectDelay(func(int) time.Duration { return nats.DefaultReconnectWait }) // without a random part
	return []nats.Option{nats.SetCustomDialer(w), nats.SkipHostLookup(), pause}
}

// Globals returns the flags of a command that uses the bucket.
func (w *World) Globals() *front.Globals {
	process := front.Stdio{Stdout: io.Discard, Stderr: io.Discard, Dial: w.InProcess()}
	return &front.Globals{Stdio: process, Timeout: 5 * time.Second, Bucket: "elections", NoContext: true}
}

// Run calls the command.
func (w *World) Run(line string) (stdout, stderr string, code int) {
	return w.Answered("", line)
}

// alwaysSynced is the clock of a world's host.
func alwaysSynced() (bool, error) { return true, nil }

// Answered calls the command with that standard input.
func (w *World) Answered(stdin, line string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	process := front.Stdio{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Dial: w.InProcess(), Life: w.Context(), Synced: alwaysSynced}
	code = Execute(arguments(line), process)
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

// Prompt calls a command and adds to the transcript what a user sees at the prompt: the command, its
// standard output, its standard error after "! ", and its exit code unless that is 0. A transcript with a
// character that a terminal may obey is an error. The transcript of a test is compared with
// testdata/NAME OF THE TEST.txt when the test ends.
func (w *World) Prompt(lines ...string) {
	for _, line := range lines {
		synctest.Wait() // what others do at this moment comes first
		out, errs, code := w.Run(line)
		w.Notef("$ natsleader %s\n%s", line, out)
		_, _ = NoteWriter{w, "! "}.Write([]byte(errs))
		w.Ended(code)
	}
}

// Ended adds an exit code to the transcript.
func (w *World) Ended(code int) {
	if code != 0 {
		w.Notef("[exit code %d]\n", code)
	}
}

// Follow starts a command that goes on until stop is called, and adds to the transcript what the command
// prints, when it prints it, without the times of its log: at which of two ticks it sees an answer is a race.
func (w *World) Follow(line string) (stop func()) {
	ctx, interrupt := context.WithCancel(w.Context())
	ended := make(chan int, 1)
	w.Notef("$ natsleader %s\n", line)
	process := front.Stdio{Stdout: NoteWriter{w, ""}, Stderr: timeless{NoteWriter{w, "! "}}, Dial: w.InProcess(), Life: ctx, Listener: w.Listen}
	go func() { ended <- Execute(arguments(line), process) }()
	synctest.Wait()
	return func() {
		interrupt()
		w.Notef("^C\n")
		w.Ended(<-ended)
	}
}

// Listen is where a command serves instead of at the address of a flag.
func (w *World) Listen(flag string) front.WebListener {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.Served = NewPipes(); w.ServedAt == nil {
		w.ServedAt = map[string]pipes{}
	}
	w.ServedAt[flag] = w.Served
	return w.Served
}

// NoteWriter adds what is written to the transcript, and a mark before each line.
type NoteWriter struct {
	W    *World
	Mark string
}

func (n NoteWriter) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		n.W.Notef("%s%s", n.Mark, line)
	}
	return len(b), nil
}

// timeless adds the lines of a log without their times.
type timeless struct{ NoteWriter }

func (n timeless) Write(b []byte) (int, error) {
	return n.NoteWriter.Write(logTimes.ReplaceAll(b, []byte("$1")))
}

var logTimes = regexp.MustCompile(`(?m)^(\{"time":")?2000-[^" ]+ ?`)

// Notef adds to the transcript.
func (w *World) Notef(format string, args ...any) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	_, _ = w.Shown.WriteString(repeatable(fmt.Sprintf(format, args...)))
}

// repeatable returns a text without what differs from one run to the next.
func repeatable(text string) string {
	text = Tokens.ReplaceAllString(strings.ReplaceAll(text, server.VERSION, "VERSION"), "TOKEN")
	return madeUp.ReplaceAllString(text, "${1}${2}${3}X")
}

// Compare compares the transcript of prompt.
func (w *World) Compare() {
	w.Helper()
	if w.Shown.Len() > 0 {
		CompareTranscript(w.T, w.Shown.String())
	}
}

// CompareTranscript compares a transcript with testdata/NAME OF THE TEST.txt, or writes the file.
func CompareTranscript(t *testing.T, text string) {
	t.Helper()
	obeyed := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
	text = randoms.ReplaceAllString(text, "${1}RANDOM")
	expect.Must(t, utf8.ValidString(text) && !strings.ContainsFunc(text, obeyed), "a terminal may obey a part of %q", text)
	file := filepath.Join(testdata, strings.ReplaceAll(t.Name(), "/", "_")+".txt")
	if *Update {
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

// Tokens are fencing tokens and revisions, also as values of metrics. They begin at the time in microseconds at which the
// bucket was made. How many renewals come before a revision is a race of goroutines.
var Tokens = regexp.MustCompile(`\b(token )?(?:94668\d{10}|18933\d{11})\b|\b9\.46684\d*e\+14`)

// madeUp are names that doctor makes up, inboxes, and names of consumers.
var madeUp = regexp.MustCompile(`(natsleader[._]doctor[._])\w{12}|(_INBOX\.)[\w.]+|(CONSUMER\.CREATE\.\w+\.)\w{22}`)

// randoms are secrets, and the sessions of candidates.
var randoms = regexp.MustCompile(`(?i)((?:secret|session|next)\W+)[A-Z2-7]{26}\b`)

// Fails checks the exit code of a command that prints nothing but an error, and a part of the error.
func (w *World) Fails(line string, code int, says string) {
	w.Helper()
	out, errs, got := w.Run(line)
	expect.That(w, got == code && out == "" && strings.Count(errs, "\n") == 1 && strings.Contains(errs, says),
		"natsleader %s: exit code %d, want %d with %q\n%s%s", line, got, code, says, out, errs)
}

// Campaigns starts a candidate. The one before it leads or waits by then.
func (w *World) Campaigns(election string, cfg leader.Config) *leader.Candidate {
	w.Helper()
	return w.CampaignsOn(w.Bucket, election, cfg)
}

// CampaignsOn starts a candidate on a store of its own.
func (w *World) CampaignsOn(store leader.Store, election string, cfg leader.Config) *leader.Candidate {
	w.Helper()
	c := expect.Got(leader.Campaign(context.Background(), store, election, cfg))(w)
	w.Stands = append(w.Stands, c)
	time.Sleep(time.Minute + time.Second) // between two renewals
	return c
}

// Put writes a key with the header that the write of a candidate has. Its condition, that a
// subject outside the bucket has no message, holds always.
func Put(t *testing.T, js jetstream.JetStream, election, value string) {
	t.Helper()
	m := nats.NewMsg("$KV.elections." + election)
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, "0")
	m.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, "none")
	m.Data = []byte(value)
	_, err := js.PublishMsg(t.Context(), m)
	expect.Must(t, err == nil, "%v", err)
}

// Record returns the record of a real candidate, with another ID and lease, and without the time when it was written.
func Record(tb testing.TB, js jetstream.JetStream, election, id string, lease time.Duration) string {
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
