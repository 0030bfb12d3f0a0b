package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	expect "github.com/natsleader/natsleader/internal/check"
)

// A reason why there is no connection is logged once in each outage. A move to another server begins none.
func TestRunLog_Outages(t *testing.T) {
	out, o, end := followedConnection(t)
	nc := new(nats.Conn)
	for range 2 {
		o.DisconnectedErrCB(nil, io.EOF)
		o.ReconnectErrCB(nc, io.EOF)
		o.ReconnectedCB(nil)
		o.DisconnectedErrCB(nil, nil)
		o.ReconnectErrCB(nc, io.EOF)
		o.ReconnectedCB(nil)
	}
	end()
	for _, text := range []string{"no connection to NATS: other: EOF", "connected to NATS again"} {
		expect.That(t, strings.Count(out.String(), text) == 2, "not twice: %q\n%s", text, out)
	}
}

// followedConnection returns a log of the run command, and the options of a connection that it follows.
func followedConnection(t *testing.T) (out *bytes.Buffer, o nats.Options, end func()) {
	t.Helper()
	out = new(bytes.Buffer)
	l := newRunLog(out, "jobs", front.LogText, false)
	for _, set := range l.followConnection() {
		expect.OK(t, set(&o))
	}
	return out, o, l.close
}

// An outage with ever other reasons fills no log.
func TestRunLog_FewReasons(t *testing.T) {
	out, o, end := followedConnection(t)
	nc := new(nats.Conn)
	for i := range 20 {
		o.ReconnectErrCB(nc, fmt.Errorf("reason %d", i))
	}
	end()
	expect.Equal(t, strings.Count(out.String(), "\n"), 8, "%d lines")
}

// Text from outside stays on its line, and cannot command a terminal.
func TestRunLog_Escapes(t *testing.T) {
	for _, format := range []string{front.LogText, front.LogJSON} {
		var out bytes.Buffer
		l := newRunLog(&out, "jobs", format, false)
		l.Log(slog.LevelInfo, front.Fields{"leader", "a\u202e"}, "%s", "a\nb\x1b[31m\u200b")
		_ = l.outcome(errors.New("c\nd\x1b"))
		l.close()
		text := out.String()
		expect.That(t, strings.Count(text, "\n") == 2 && !strings.ContainsAny(text, "\x1b\u202e\u200b"), "%s: %q", format, text)
	}
}
