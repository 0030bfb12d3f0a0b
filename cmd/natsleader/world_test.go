package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// world is a server with JetStream, and the commands and candidates that use it, in one synctest bubble.
// Its bucket is "elections".
type world struct {
	*testing.T
	s      *server.Server
	js     jetstream.JetStream // of the test itself
	bucket *leader.Bucket
	stands []*leader.Candidate
	shown  strings.Builder // the transcript of prompt
}

// update rewrites the transcripts: go test ./cmd/natsleader -update
var update = flag.Bool("update", false, "rewrite the transcripts of testdata and of docs/cli.md")

// bubble runs a test in a world. The options change those of its server. The two collections empty nats.go's pool of timers, which must not
// cross bubbles, so the test does not run beside others.
func bubble(t *testing.T, cfg leader.BucketConfig, test func(w *world), opts ...func(*server.Options)) {
	t.Helper()
	// natscontext reads the selected context of the user.
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, t.TempDir())
	}
	runtime.GC()
	runtime.GC()
	dir := testserver.StoreDir(t)
	synctest.Test(t, func(t *testing.T) {
		o := &server.Options{DontListen: true, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true}
		for _, opt := range opts {
			opt(o)
		}
		s, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		if !s.ReadyForConnections(time.Minute) {
			t.Fatal("the server does not start")
		}
		w := &world{T: t, s: s}
		nc := w.dial()
		if w.js, err = jetstream.New(nc); err != nil {
			t.Fatal(err)
		}
		cfg.Name = "elections"
		if w.bucket, err = leader.CreateBucket(t.Context(), w.js, cfg); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			for _, c := range w.stands {
				if err := c.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Minute) // what was given up has ended by then
			nc.Close()
			s.Shutdown()
			s.WaitForShutdown()
			time.Sleep(time.Second) // the loops that flush the server's store end at their next turn
		})
		test(w)
		w.compare()
	})
}

func (w *world) dial() *nats.Conn {
	w.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(w.s))
	if err != nil {
		w.Fatal(err)
	}
	return nc
}

// run calls the command.
func (w *world) run(line string) (stdout, stderr string, code int) {
	return w.answered("", line)
}

// answered calls the command with that standard input.
func (w *world) answered(stdin, line string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = execute(strings.Fields(line), stdio{
		stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs, dial: []nats.Option{nats.InProcessServer(w.s)},
	})
	return tokens.ReplaceAllString(out.String(), "TOKEN"), tokens.ReplaceAllString(errs.String(), "TOKEN"), code
}

// prompt calls a command and adds to the transcript what a user sees at the prompt: the command, its
// standard output, its standard error after "! ", and its exit code unless that is 0. The transcript of
// a test is compared with testdata/NAME OF THE TEST.txt when the test ends.
func (w *world) prompt(lines ...string) {
	for _, line := range lines {
		out, errs, code := w.run(line)
		w.notef("$ natsleader %s\n%s", line, out)
		for e := range strings.Lines(errs) {
			w.notef("! %s", e)
		}
		if code != 0 {
			w.notef("[exit code %d]\n", code)
		}
	}
}

// notef adds to the transcript.
func (w *world) notef(format string, args ...any) { _, _ = fmt.Fprintf(&w.shown, format, args...) }

// compare compares the transcript with the file, or writes the file.
func (w *world) compare() {
	w.Helper()
	if w.shown.Len() == 0 {
		return
	}
	file := filepath.Join("testdata", strings.ReplaceAll(w.Name(), "/", "_")+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(w.shown.String()), 0o600); err != nil {
			w.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		w.Fatal(err)
	}
	if got := strings.Split(w.shown.String(), "\n"); w.shown.String() != string(want) {
		for i, line := range strings.Split(string(want), "\n") {
			if i >= len(got) || got[i] != line {
				w.Errorf("%s:%d: %q is wanted\n%s", file, i+1, line, strings.Join(got[:min(i+5, len(got))], "\n"))
				return
			}
		}
		w.Errorf("%s has only the beginning of\n%s", file, w.shown.String())
	}
}

// tokens are fencing tokens. They begin at the time at which the bucket was made, and are no part of what is compared.
var tokens = regexp.MustCompile(`\btoken \d+`)

// fails checks the exit code of a command that prints nothing but an error, and a part of the error.
func (w *world) fails(line string, code int, says string) {
	w.Helper()
	out, errs, got := w.run(line)
	if got != code || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, says) {
		w.Errorf("natsleader %s: exit code %d, want %d with %q\n%s%s", line, got, code, says, out, errs)
	}
}

// campaigns starts a candidate. The one before it leads or waits by then.
func (w *world) campaigns(election string, cfg leader.Config) *leader.Candidate {
	w.Helper()
	c, err := leader.Campaign(context.Background(), w.bucket, election, cfg)
	if err != nil {
		w.Fatal(err)
	}
	w.stands = append(w.stands, c)
	time.Sleep(time.Minute)
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
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// record returns the record of a real candidate, with another ID and lease.
func record(tb testing.TB, js jetstream.JetStream, election, id string, lease time.Duration) string {
	tb.Helper()
	kv, err := js.KeyValue(tb.Context(), "elections")
	if err != nil {
		tb.Fatal(err)
	}
	e, err := kv.Get(tb.Context(), election)
	if err != nil {
		tb.Fatal(err)
	}
	var fields map[string]any
	if err = json.Unmarshal(e.Value(), &fields); err != nil {
		tb.Fatal(err)
	}
	fields["id"], fields["lease"] = id, lease.String()
	text, err := json.Marshal(fields)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}
