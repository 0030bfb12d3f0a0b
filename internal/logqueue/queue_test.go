package logqueue_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/logqueue"
)

// stalled is a handler for records of level Info and above, which blocks in the first.
type stalled struct {
	release chan struct{}
	lines   *[]string
}

func (stalled) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h stalled) Handle(_ context.Context, r slog.Record) error {
	<-h.release
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	*h.lines = append(*h.lines, line)
	return nil
}

func (h stalled) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h stalled) WithGroup(string) slog.Handler      { return h }

// The number of dropped records is reported once, by the next record that is written. A record that the
// handler does not want reports nothing. Records for debugging take half of the room.
func TestLogQueue_DroppedIsReportedByALineThatIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 64
		h := stalled{make(chan struct{}), new([]string)}
		q, log := logqueue.New(slog.New(h), most)
		log.Info("first")
		synctest.Wait()
		for range most/2 + 3 {
			log.Debug("detail")
		}
		for i := range most / 2 {
			log.Info(fmt.Sprint(i))
		}
		log.Info("one too many")
		check.Equal(t, q.Lost(), 4, "%d records are dropped")
		close(h.release)
		synctest.Wait()
		log.Info("last")
		synctest.Wait()
		want := []string{"first", "0 dropped=4"}
		for i := 1; i < most/2; i++ {
			want = append(want, fmt.Sprint(i))
		}
		if want = append(want, "last"); !slices.Equal(*h.lines, want) {
			t.Errorf("written: %q, want %q", *h.lines, want)
		}
	})
}

// Flush waits until all is written, for a second at most.
func TestFlush_WaitsASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stalled{make(chan struct{}), new([]string)}
		q, log := logqueue.New(slog.New(h), 64)
		flush := func(want time.Duration) {
			t.Helper()
			from := time.Now()
			q.Flush()
			check.Equal(t, time.Since(from), want, "Flush takes %v")
		}
		flush(0)
		log.Info("1")
		flush(time.Second)
		time.AfterFunc(time.Second/2, func() { h.release <- struct{}{} })
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { flush(time.Second / 2) })
		}
		both.Wait()
		log.Info("2")
		time.AfterFunc(time.Second/4, func() { h.release <- struct{}{} })
		flush(time.Second / 4)
		check.Deep(t, *h.lines, []string{"1", "2"})
	})
}

// Only the first clock follows the queue. A nil Queue has no records.
func TestFollow_FirstOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stalled{make(chan struct{}), new([]string)}
		close(h.release)
		q, log := logqueue.New(slog.New(h), 64)
		calls := ""
		for _, of := range []string{"a", "b"} {
			q.Follow(func() { calls += "wake " + of + " " }, func() { calls += "rest " + of })
		}
		log.Info("1")
		synctest.Wait()
		check.Equal(t, calls, "wake a rest a", "the clock has the calls %s")
	})
	var none *logqueue.Queue
	none.Follow(nil, nil)
	none.Flush()
	check.Equal(t, none.Lost(), 0, "%d records are dropped")
}

// Attributes and groups are those of the application's handler.
func TestLogQueue_Groups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		_, log := logqueue.New(slog.New(slog.NewTextHandler(&text, nil)), 64)
		log.With("a", 1).WithGroup("g").Info("m", "b", 2)
		synctest.Wait()
		check.That(t, strings.HasSuffix(text.String(), "msg=m a=1 g.b=2\n"), "%s", text.String())
	})
}
