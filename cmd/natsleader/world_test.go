package main

import (
	"bytes"
	"context"
	"encoding/json"
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
}

// bubble runs a test in a world. The two collections empty nats.go's pool of timers, which must not
// cross bubbles, so the test does not run beside others.
func bubble(t *testing.T, cfg leader.BucketConfig, test func(w *world)) {
	t.Helper()
	// natscontext reads the selected context of the user.
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, t.TempDir())
	}
	runtime.GC()
	runtime.GC()
	dir := testserver.StoreDir(t)
	synctest.Test(t, func(t *testing.T) {
		s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
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
	var out, errs bytes.Buffer
	code = execute(strings.Fields(line), stdio{strings.NewReader(""), &out, &errs, []nats.Option{nats.InProcessServer(w.s)}})
	return tokens.ReplaceAllString(out.String(), "TOKEN"), tokens.ReplaceAllString(errs.String(), "TOKEN"), code
}

// tokens are fencing tokens. They begin at the time at which the bucket was made, and are no part of what is compared.
var tokens = regexp.MustCompile(`\btoken \d+`)

// prints checks the whole standard output of a command that succeeds.
func (w *world) prints(line, want string) {
	w.Helper()
	if out, errs, code := w.run(line); code != 0 || out != want || errs != "" {
		w.Errorf("natsleader %s: exit code %d\n%s%s\nwant\n%s", line, code, out, errs, want)
	}
}

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
