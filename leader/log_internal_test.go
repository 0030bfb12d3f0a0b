package leader

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/natsleader/natsleader/internal/check"
)

// traceKey is the key of a value that a handler reads in a context.
type traceKey struct{}

// stalled is a handler for records of level Info and above, which blocks in the first.
type stalled struct {
	release chan struct{}
	lines   *[]string
}

func (stalled) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h stalled) Handle(ctx context.Context, r slog.Record) error {
	<-h.release
	line := r.Message
	if v, ok := ctx.Value(traceKey{}).(string); ok {
		line = v + " " + line
	}
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
		h := stalled{make(chan struct{}), new([]string)}
		q, log := newLogQueue(slog.New(h))
		log.Info("first")
		synctest.Wait()
		for range maxLogLines/2 + 3 {
			log.Debug("detail")
		}
		for i := range maxLogLines / 2 {
			log.Info(fmt.Sprint(i))
		}
		log.Info("one too many")
		check.Equal(t, q.lost(), 4, "%d records are dropped")
		close(h.release)
		synctest.Wait()
		log.Info("last")
		synctest.Wait()
		want := []string{"first", "0 dropped=4"}
		for i := 1; i < maxLogLines/2; i++ {
			want = append(want, fmt.Sprint(i))
		}
		if want = append(want, "last"); !slices.Equal(*h.lines, want) {
			t.Errorf("written: %q, want %q", *h.lines, want)
		}
	})
}

// The line of an event has the values of the context given to Campaign, and names what keeps a holder from leading.
func TestLogEvent_Holder(t *testing.T) {
	h := stalled{make(chan struct{}), new([]string)}
	close(h.release)
	c := &Candidate{log: slog.New(h)}
	for _, holder := range []Holder{{State: HolderLeading, ID: "b", Token: 3}, {State: HolderPending, ID: "b"}, {State: HolderForeign}, {}} {
		c.logEvent(context.WithValue(t.Context(), traceKey{}, "t1"), Observed{Holder: holder})
	}
	want := []string{
		"t1 observed holder=b token=3", "t1 observed holder=b token=0 state=pending",
		"t1 observed holder= token=0 state=foreign", "t1 observed holder= token=0",
	}
	if !slices.Equal(*h.lines, want) {
		t.Errorf("written: %q, want %q", *h.lines, want)
	}
}
