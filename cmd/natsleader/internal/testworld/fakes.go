package testworld

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/natscontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// StdoutOf returns what a function prints to the standard output and error of the process.
func StdoutOf(tb testing.TB, do func()) string {
	tb.Helper()
	out := expect.Got(os.Create(filepath.Join(tb.TempDir(), "out")))(tb)
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = out, out
	do()
	os.Stdout, os.Stderr = stdout, stderr
	expect.OK(tb, out.Close())
	return string(expect.Got(os.ReadFile(out.Name()))(tb))
}

// operator answers one question at a terminal. Something else happens before that.
type operator struct {
	meanwhile func()
	answer    string
	screen    io.Writer
}

func (operator) AnswersQuestions() {}

func (o operator) Read(b []byte) (int, error) {
	if o.meanwhile != nil {
		o.meanwhile()
	}
	n := copy(b, o.answer+"\n")
	return o.screen.Write(b[:n]) // the terminal shows it
}

// advertising is a connection on which the server advertises other addresses.
type advertising struct {
	net.Conn
	urls []string
	rest []byte
}

func (a *advertising) Read(b []byte) (int, error) {
	if len(a.rest) == 0 {
		n, err := a.Conn.Read(b)
		if err != nil {
			return n, err
		}
		urls, _ := json.Marshal(a.urls)
		a.rest = bytes.ReplaceAll(bytes.Clone(b[:n]), []byte("INFO {"), []byte(`INFO {"connect_urls":`+string(urls)+`,`))
	}
	n := copy(b, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// Findings shows what doctor finds in a world.
type Findings struct {
	*World
	First map[string]bool // the findings of the first report
}

// Show calls doctor, and adds to the transcript the findings that the first report does not have, and the sum.
func (f Findings) Show(lines ...string) {
	for _, line := range lines {
		shown, code, _ := f.Doctor(line, f.First)
		f.Notef("$ natsleader %s\n%s", strings.TrimSpace("doctor "+line), shown)
		f.Ended(code)
	}
}

// SlowPipe copies from one connection to the other, which takes delay.
func SlowPipe(from, to net.Conn, delay time.Duration) {
	type part struct {
		data []byte
		at   time.Time
	}
	parts := make(chan part, 1000)
	go func() {
		defer to.Close()                //nolint:errcheck // it may be closed
		defer io.Copy(io.Discard, from) //nolint:errcheck // until it is closed
		for p := range parts {
			time.Sleep(time.Until(p.at))
			if _, err := to.Write(p.data); err != nil {
				break
			}
		}
		for range parts {
		}
	}()
	defer close(parts)
	for {
		data := make([]byte, 4096)
		n, err := from.Read(data)
		if err != nil {
			return
		}
		parts <- part{data[:n], time.Now().Add(delay)}
	}
}

// ErrOfSource is the error of a source of changes that fails.
var ErrOfSource = errors.New("of the source")

// GlobalsOf returns the flags of a command that connects to a server.
func GlobalsOf(url, bucket string) *front.Globals {
	return &front.Globals{
		Settings: []func() natscontext.Option{func() natscontext.Option { return natscontext.WithServerURL(url) }},
		Timeout:  Patience, Bucket: bucket, NoContext: true,
	}
}

// pipes is a listener of connections in memory, at 127.0.0.1:80.
type pipes struct {
	Conns chan net.Conn
	ended context.Context
	End   context.CancelFunc
}

// NewPipes returns a listener in memory.
func NewPipes() pipes {
	ctx, cancel := context.WithCancel(context.Background())
	return pipes{make(chan net.Conn), ctx, cancel}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.Conns:
		return c, nil
	case <-p.ended.Done():
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error {
	p.End()
	return nil
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.Conns <- theirs
	return ours, nil
}

// Watches is a bucket whose watches report what a test wants, each the next part of it. If it is slow, it
// opens a watch when the context has ended, and so does it the first so many times that are lost.
type Watches struct {
	jetstream.KeyValue
	Parts [][]jetstream.KeyValueEntry
	Slow  bool
	Lost  int
	Open  int
}

// WatchAll is part of [jetstream.KeyValue].
func (w *Watches) WatchAll(ctx context.Context, _ ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	if w.Lost--; w.Lost >= 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if w.Slow {
		<-ctx.Done()
	}
	if len(w.Parts) == 0 {
		return nil, ErrOfSource
	}
	updates := make(chan jetstream.KeyValueEntry, 10)
	for _, e := range w.Parts[0] {
		updates <- e
	}
	w.Parts = w.Parts[1:]
	w.Open++
	return &aWatch{w: w, updates: updates}, nil
}

// Status is part of [jetstream.KeyValue].
func (w *Watches) Status(context.Context) (jetstream.KeyValueStatus, error) { return aStatus{}, nil }

// aStatus is that of a bucket with two keys.
type aStatus struct{ jetstream.KeyValueStatus }

func (aStatus) History() int64 { return 1 }

func (aStatus) Values() uint64 { return 2 }

type aWatch struct {
	w       *Watches
	updates chan jetstream.KeyValueEntry
}

func (a *aWatch) Updates() <-chan jetstream.KeyValueEntry { return a.updates }

func (a *aWatch) Stop() error { a.w.Open--; return nil }

// gets counts requests for records.
type gets struct{ All, now, Most atomic.Int32 }

// Patience is the limit for events that must happen, however busy the machine is. In a mutant
// (package mutation) many of them do not, and it is shorter.
var Patience = func() time.Duration {
	if n := os.Getenv(MutantEnv); n != "" && n != "0" {
		return 15 * time.Second
	}
	return time.Minute
}()

// MutantEnv is the variable with the number of the mutant that runs.
const MutantEnv = "NATSLEADER_MUTANT"

// worker is a member of a group.
type worker struct {
	*shard.Member
	nc    *nats.Conn   // that only it uses
	Hangs atomic.Int64 // how long its work goes on after the end of its context
}

// Dies lets nothing of the member reach the server any more.
func (m *worker) Dies() { m.nc.Close() }

// Works starts a member of a group that works on its shards.
func Works(tb testing.TB, store leader.Store, group string, cfg shard.Config) *worker {
	tb.Helper()
	m := &worker{Member: expect.Got(shard.Join(context.Background(), store, group, cfg))(tb)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = m.Serve(func(lead context.Context, _ *shard.Shard) {
			<-lead.Done()
			time.Sleep(time.Duration(m.Hangs.Load()))
		})
	}()
	tb.Cleanup(func() {
		_ = m.Stop() // its connection may be closed
		<-ended
	})
	return m
}

// AFeed is a feed from which a test passes on the updates itself.
type AFeed struct{ Stopped chan struct{} }

// Updates is part of [jetstream.KeyWatcher].
func (f *AFeed) Updates() <-chan jetstream.KeyValueEntry { return nil }

// Stop is part of [jetstream.KeyWatcher].
func (f *AFeed) Stop() error { close(f.Stopped); return nil }

// IsOpen reports whether the feed was not stopped.
func (f *AFeed) IsOpen() bool {
	select {
	case <-f.Stopped:
		return false
	default:
		return true
	}
}
