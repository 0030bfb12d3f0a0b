package leader

import (
	"context"
	"log/slog"
	"slices"
	"testing"
)

// traceKey is the key of a value that a handler reads in a context.
type traceKey struct{}

// lines is a handler that keeps the records.
type lines struct{ all *[]string }

func (lines) Enabled(context.Context, slog.Level) bool { return true }

func (h lines) Handle(ctx context.Context, r slog.Record) error {
	line := r.Message
	if v, ok := ctx.Value(traceKey{}).(string); ok {
		line = v + " " + line
	}
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	*h.all = append(*h.all, line)
	return nil
}

func (h lines) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h lines) WithGroup(string) slog.Handler      { return h }

// The line of an event has the values of the context given to Campaign, and names what keeps a holder from leading.
func TestLogEvent_Holder(t *testing.T) {
	h := lines{new([]string)}
	c := &Candidate{log: slog.New(h)}
	for _, holder := range []Holder{{State: HolderLeading, ID: "b", Token: 3}, {State: HolderPending, ID: "b"}, {State: HolderForeign}, {}, {State: HolderLeading, ID: "\u202eb\u200b"}} {
		c.logEvent(context.WithValue(t.Context(), traceKey{}, "t1"), Observed{Holder: holder})
	}
	want := []string{
		"t1 observed holder=b token=3", "t1 observed holder=b token=0 state=pending",
		"t1 observed holder= token=0 state=foreign", "t1 observed holder= token=0",
		`t1 observed holder=\u202eb\u200b token=0`,
	}
	if !slices.Equal(*h.all, want) {
		t.Errorf("written: %q, want %q", *h.all, want)
	}
}
