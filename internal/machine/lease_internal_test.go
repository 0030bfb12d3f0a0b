package machine

import (
	"fmt"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/record"
)

// Writes that differ only in when they were sent are one batch, which counts as sent when
// the first was. The log recalls them until four other kinds of writes have followed.
func TestWriteLog_Recall(t *testing.T) {
	var l writeLog
	add := func(cond uint64) {
		l.add(epoch.Add(tick*2), Request{write: write{phase: record.PhaseLeading, cond: cond}, Rec: record.Record{Lease: tick}}, Durations{Lease: tick})
	}
	l.add(epoch, Request{write: write{phase: record.PhaseLeading, cond: 1}, Rec: record.Record{Lease: tick}}, Durations{Lease: tick})
	add(1)
	b, ok := l.recall(2)
	check.That(t, ok && b.first == 1 && b.last == 2 && b.at.Equal(epoch), "batch %+v, %v", b, ok)
	if l.releaseDeadline() != epoch.Add(3*tick) {
		t.Errorf("release deadline %v", l.releaseDeadline())
	}
	for cond := uint64(2); cond < 5; cond++ {
		add(cond)
	}
	if _, ok := l.recall(1); !ok {
		t.Error("the fourth batch back is forgotten")
	}
	add(5)
	if _, ok := l.recall(1); ok {
		t.Error("the fifth batch back is recalled")
	}
	if _, ok := l.recall(0); ok {
		t.Error("a write that was never sent is recalled")
	}
	l.acknowledge(3)
	if l.acknowledge(2); l.acked != 3 || l.broken() != "" {
		t.Errorf("acknowledged %d, %q", l.acked, l.broken())
	}
}

func (l *writeLog) broken() string {
	newest := l.counter
	for _, b := range l.sent {
		switch {
		case b.first > b.last:
			return fmt.Sprintf("a batch from %d to %d", b.first, b.last)
		case b.last > newest:
			return fmt.Sprintf("a write numbered %d, after %d", b.last, newest)
		}
		if b.first > 0 {
			newest = b.first - 1
		}
	}
	if l.sent[0].last != l.counter {
		return fmt.Sprintf("the newest batch ends with %d, and the counter is %d", l.sent[0].last, l.counter)
	}
	if l.acked > l.counter {
		return fmt.Sprintf("write %d is acknowledged, and %d were sent", l.acked, l.counter)
	}
	return ""
}
