package leader_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// warnings is a handler of a log that keeps the warnings about the connection, about a
// loop that was left, and about another lease.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (*warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (h *warnings) WithAttrs([]slog.Attr) slog.Handler             { return h }
func (h *warnings) WithGroup(string) slog.Handler                  { return h }

func (h *warnings) Handle(_ context.Context, r slog.Record) error {
	if !strings.HasPrefix(r.Message, "the connection") && !strings.HasPrefix(r.Message, "the leader has another lease") && r.Message != "no loop takes terms" {
		return nil
	}
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += "; " + a.String()
		return true
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, text)
	return nil
}

// were fails the test unless exactly these warnings have come.
func (h *warnings) were(w *world, want ...string) {
	w.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	check.That(w, slices.Equal(h.all, want), "warned\n  %q\nwant\n  %q", h.all, want)
	h.all = nil
}

const (
	givesUp   = "the connection gives up reconnecting, which ends its candidates; tries="
	instead   = "; instead=nats.MaxReconnects(-1)"
	wasClosed = "the connection was closed before the candidate was stopped; instead=stop the candidate, and wait for Done, before closing or draining the connection"
)

// The first candidate of a Bucket warns, when it begins, of a connection that gives up reconnecting.
func TestLog_ReconnectionGivenUp(t *testing.T) {
	inSealed(t, func(w *world) {
		for _, k := range []struct {
			opt  nats.Option
			want []string
		}{
			{nats.MaxReconnects(-1), nil},
			{nats.MaxReconnects(nats.DefaultMaxReconnect), []string{givesUp + "60" + instead}},
			{nats.MaxReconnects(0), []string{givesUp + "0" + instead}},
			{nats.NoReconnect(), []string{givesUp + "0" + instead}},
		} {
			for _, n := range []int{0, 3} {
				h, store := &warnings{}, seats.Of(w.dial("a", k.opt).bucket(t), n)
				for _, want := range [][]string{k.want, nil} {
					c, err := leader.Campaign(w.Context(), store, "e", leader.Config{Logger: slog.New(h)})
					w.ok(err)
					w.at(w.now() + time.Minute)
					h.were(w, want...)
					w.ok(c.Stop())
					h.were(w)
				}
			}
		}
	})
}

// A candidate whose connection is closed or drained says so once in the log. The end of the
// candidate comes first where all is well.
func TestLog_ConnectionClosed(t *testing.T) {
	type subject struct {
		*leader.Candidate
		cancel context.CancelFunc
		cl     *client
	}
	for _, k := range []struct {
		name string
		opts []nats.Option
		end  func(w *world, s subject)
		want []string
		err  error
	}{
		{"closed", nil, func(_ *world, s subject) { s.cl.nc.Close() }, []string{wasClosed}, leader.ErrConnectionClosed},
		{"drained", nil, func(w *world, s subject) { w.ok(s.cl.nc.Drain()) }, []string{wasClosed}, leader.ErrConnectionClosed},
		{"stopped before", nil, func(w *world, s subject) {
			w.ok(s.Stop())
			s.cl.nc.Close()
		}, nil, nil},
		{"closed before the release", nil, func(w *world, s subject) {
			s.cl.filter(all(hold, []direction{up}))
			s.cancel()
			synctest.Wait()
			s.cl.nc.Close()
		}, []string{wasClosed}, nil},
		{"given up", []nats.Option{nats.MaxReconnects(3)}, func(w *world, s subject) {
			s.cl.cut()
			w.at(w.now() + time.Minute)
		}, []string{givesUp + "3" + instead, "the connection gave up reconnecting, which ended the candidate" + instead + "; err=nats: no servers available for connection"}, leader.ErrConnectionClosed},
	} {
		for _, n := range []int{0, 3} {
			inSealed.run(t, k.name, func(t *testing.T, w *world) {
				h, cl := &warnings{}, w.dial("a", k.opts...)
				ctx, cancel := context.WithCancel(w.Context())
				defer cancel()
				c, err := leader.Campaign(ctx, seats.Of(cl.bucket(t), n), "e", leader.Config{Logger: slog.New(h)})
				w.ok(err)
				w.at(time.Minute)
				check.Must(w, c.IsLeader(), "it does not lead")
				k.end(w, subject{c, cancel, cl})
				<-c.Done()
				h.were(w, k.want...)
				check.Is(w, c.Err(), k.err)
			})
		}
	}
}
