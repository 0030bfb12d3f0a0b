package webpage

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// served is a page that is served over connections in memory, whose writes wait until the browser reads.
type served struct {
	*testing.T
	*Page
	conns   chan net.Conn
	program *program
}

func (s served) Accept() (net.Conn, error) {
	if c, open := <-s.conns; open {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (s served) Close() error   { return nil }
func (s served) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// serve serves a page in a bubble.
func serve(t *testing.T, state *State, o Options) served {
	t.Helper()
	s := served{T: t, conns: make(chan net.Conn), program: newProgram(t)}
	o.Address = s.Addr()
	var err error
	s.Page, err = New(s.program, state, o)
	check.Must(t, err == nil, "%v", err)
	const most = 30 * time.Second // as natsleader serve has it
	server := &http.Server{Handler: s.Page, ReadTimeout: most, WriteTimeout: most}
	go func() { _ = server.Serve(s) }()
	t.Cleanup(func() {
		s.program.end()
		close(s.conns)
		_ = server.Close()
	})
	return s
}

// open asks for something, and reads nothing of the answer.
func (s served) open(path string) net.Conn {
	s.Helper()
	ours, theirs := net.Pipe()
	s.Cleanup(func() { _ = ours.Close() })
	s.conns <- theirs
	_, err := fmt.Fprintf(ours, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	check.Must(s, err == nil, "%v", err)
	synctest.Wait()
	return ours
}

func (s served) get(path string) *http.Response {
	s.Helper()
	response, err := http.ReadResponse(bufio.NewReader(s.open(path)), nil)
	check.OK(s, err)
	return response
}

// hasEnded fails the test unless the program has closed a connection.
func (s served) hasEnded(c net.Conn) {
	s.Helper()
	err := c.SetReadDeadline(time.Time{})
	check.That(s, errors.Is(err, io.ErrClosedPipe), "the connection is open: %v", err)
}

func (s served) held() int {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	return s.memory.held
}

// full returns a state with elections whose texts are as long as they may be.
func full(many int) *State {
	state := NewState()
	for i := range many {
		state.Show(Row{Key: fmt.Sprint("e", i), Value: strings.Repeat("v", mostValue)}, bytes.Repeat([]byte("r"), 2<<10))
	}
	return state
}

// A thousand pages that read nothing hold together what they may, and end when their time is over.
func TestPages_ThousandReadNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, full(20_000), Options{})
		used := func() (bytes uint64) {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc + m.StackInuse
		}
		const many = 1000
		before := used()
		conns := make([]net.Conn, many)
		for i := range conns {
			conns[i] = s.open("/api/elections")
		}
		if got := used() - before; got > mostHeld {
			t.Errorf("%d bytes in use", got)
		} else {
			t.Logf("%d bytes for a page", got/many)
		}
		got := s.held()
		check.That(t, got == many*perPage && got <= mostHeld, "%d bytes held", got)
		time.Sleep(mostWrite - time.Nanosecond)
		synctest.Wait()
		check.Equal(t, s.held(), many*perPage, "%d bytes held before the time of the writes is over")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		check.Equal(t, s.held(), 0, "%d bytes held by pages that have ended")
		for _, c := range conns {
			s.hasEnded(c)
		}
	})
}

// When there is no room for one page more, the one ends whose write has waited for longest, if that is a second.
func TestPages_SlowestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, full(100), Options{})
		reads := s.get("/api/elections")
		go func() { _, _ = io.Copy(io.Discard, reads.Body) }()
		conns := make([]net.Conn, mostHeld/perPage-1)
		for i := range conns {
			conns[i] = s.open("/api/elections")
			time.Sleep(time.Microsecond)
		}
		time.Sleep(slowWrite - time.Duration(len(conns))*time.Microsecond - 1)
		for i := range 3 {
			got := s.get("/api/elections")
			check.That(t, got.StatusCode == http.StatusServiceUnavailable, "a page more while none is slow: %s", got.Status)
			time.Sleep(time.Nanosecond)
			got = s.get("/api/elections")
			check.That(t, got.StatusCode == http.StatusOK, "a page more: %s", got.Status)
			s.hasEnded(conns[i])
			check.Equal(t, s.held(), mostHeld, "%d bytes held")
			time.Sleep(time.Microsecond - 1)
		}
		check.That(t, strings.Contains(s.next(bufio.NewReader(conns[3])), `"rows":[`), "another page gets no rows")
	})
}

// next returns the next message of a stream.
func (s served) next(r *bufio.Reader) string {
	s.Helper()
	for {
		line, err := r.ReadString('\n')
		check.OK(s, err)
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			return text
		}
	}
}

// A record is written in parts, so a slow browser gets all of it. Characters stay whole.
func TestPages_RecordInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := NewState()
		long := "x" + strings.Repeat("ä", mostRecord)
		state.Show(Row{Key: "short", Revision: 1<<64 - 1, Written: 8}, []byte("xä\u202e"))
		state.Show(Row{Key: "long"}, []byte(long))
		state.Show(Row{Key: "odd"}, []byte("\xff"))
		state.Show(Row{Key: "long-odd"}, []byte("\xff"+long))
		s := serve(t, state, Options{})
		for _, c := range []struct{ key, base64, want string }{
			{"short", "", `xä\u202e`},
			{"long", "", long[:mostRecord-1] + "…"},
			{"odd", "true", "/w=="},
			{"long-odd", "true", base64.StdEncoding.EncodeToString([]byte("\xff" + long)[:mostRecord]) + "…"},
		} {
			response := s.get("/api/record?election=" + c.key)
			var got bytes.Buffer
			for {
				_, err := io.CopyN(&got, response.Body, 8<<10)
				if errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%s: %v after %d bytes", c.key, err, got.Len())
				}
				time.Sleep(mostWrite / 4)
			}
			check.That(t, got.String() == c.want && response.Header.Get("Natsleader-Base64") == c.base64,
				"%s: %d bytes, want %d; %v", c.key, got.Len(), len(c.want), response.Header)
		}
		h := s.get("/api/record?election=short").Header
		check.That(t, h.Get("Natsleader-Revision") == "18446744073709551615" && h.Get("Natsleader-Written") == "8",
			"%v", h)
		before := s.held()
		s.open("/api/record?election=long")
		got, want := s.held()-before, perPage+len(long)
		check.That(t, got == want, "%d bytes held, want %d", got, want)
	})
}

// A page that was ended to make room writes nothing more, also if its last write has just succeeded.
func TestMemory_EndsSlowest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		slow := m.open(httptest.NewRecorder(), mostHeld)
		_ = slow.begin() // a write that waits
		time.Sleep(slowWrite)
		check.That(t, m.open(httptest.NewRecorder(), mostHeld) != nil && m.held == mostHeld, "%d bytes held", m.held)
		check.Is(t, slow.Flush(), errEnded)
	})
}
