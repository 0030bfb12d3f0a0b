package logqueue_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

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
