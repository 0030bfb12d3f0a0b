package webpage

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/roster"
)

// program is the context of a program. It counts what waits for the end of the program.
type program struct {
	context.Context
	end   context.CancelFunc
	waits atomic.Int64
}

func newProgram(t *testing.T) *program {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	return &program{Context: ctx, end: end}
}

// Value hides the context within, so that package context calls AfterFunc.
func (p *program) Value(any) any { return nil }

func (p *program) AfterFunc(f func()) (stop func() bool) {
	p.waits.Add(1)
	within := context.AfterFunc(p.Context, func() {
		p.waits.Add(-1)
		f()
	})
	return func() bool {
		stopped := within()
		if stopped {
			p.waits.Add(-1)
		}
		return stopped
	}
}

// endless is a page whose streams have messages for as long as they are read.
func endless() Options {
	return Options{
		Feed: func(context.Context) func() (any, bool) { return func() (any, bool) { return "news", true } },
		Roster: func(ctx context.Context, _ string) (<-chan []roster.Entry, error) {
			lists := make(chan []roster.Entry)
			go func() {
				defer close(lists)
				lists <- nil
				for {
					select {
					case <-time.After(time.Second):
						lists <- nil
					case <-ctx.Done():
						return
					}
				}
			}()
			return lists, nil
		},
	}
}

// A stream ends with its client and with the program, and a page that is refused ends at once. Nothing
// that a stream had is left then: no bytes that are held, no roster that is observed, and nothing that
// waits for the end of the program.
func TestStreams_LeaveNothing(t *testing.T) {
	for _, path := range []string{"/api/elections", "/api/panel", "/api/roster?election=e", "/api/record?election=e0"} {
		for _, way := range []string{"the client leaves", "the program ends", "there is no room", "nobody reads", "it makes room for another"} {
			t.Run(path+" "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := serve(t, full(1), endless())
					if way == "there is no room" {
						s.memory.held = mostHeld
					}
					conn := s.open(path)
					r := bufio.NewReader(conn)
					if streams := !strings.HasPrefix(path, "/api/record"); streams && (way == "the client leaves" || way == "the program ends") {
						s.next(r)
					}
					switch way {
					case "the client leaves":
						_ = conn.Close()
					case "the program ends":
						s.program.end()
						// What was written already is read. An endless feed would go on for ever.
						_ = conn.SetReadDeadline(time.Now().Add(mostWrite))
						_, _ = io.CopyN(io.Discard, r, 1<<19)
					case "there is no room":
						response, err := http.ReadResponse(r, nil)
						if err != nil || response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
							t.Errorf("%v %v", response, err)
						}
						s.memory.held = 0
					case "nobody reads":
						time.Sleep(mostWrite)
					case "it makes room for another":
						if path == "/api/elections" {
							s.next(r)
						}
						s.memory.mu.Lock()
						for p := range s.memory.pages {
							p.ended = true
							s.memory.remove(p)
						}
						s.memory.mu.Unlock()
						time.Sleep(mostWrite)
					}
					synctest.Wait()
					check.Equal(t, s.held(), 0, "%d bytes are held")
					check.Equal(t, len(s.rosters.all), 0, "%d rosters are observed")
					check.Equal(t, s.program.waits.Load(), 0, "%d wait for the end of the program")
				})
			})
		}
	}
}

// While nothing happens a page gets a message every two seconds, for longer than a request may take. It
// ends as soon as its client leaves.
func TestStreams_Pulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, NewState(), Options{})
		conn := s.open("/api/elections")
		r := bufio.NewReader(conn)
		s.next(r)
		begun := time.Now()
		for range 20 {
			s.next(r)
		}
		check.Equal(t, time.Since(begun), 20*Pulse, "20 messages in %v")
		s.state.Trouble("away", time.UnixMilli(3))
		got := s.next(r)
		check.That(t, strings.Contains(got, `"error":"away"`) && time.Since(begun) == 20*Pulse,
			"%s after %v", got, time.Since(begun))
	})
}
