package leader

import (
	"fmt"
)

// brokenInvariant returns the invariant of a part that does not hold, or an empty string.
// The simulation, the fuzz test and the transcripts check it after every step. The
// exploration cannot: its normal form clears fields that no machine looks at any more.
func (m *machine) brokenInvariant() string {
	for _, part := range []struct {
		name   string
		broken string
	}{
		{"bucket", m.bucket.broken()},
		{"feed", m.feed.broken()},
		{"key", m.key.broken()},
		{"memory", m.memory.broken()},
		{"reads", m.reads.broken()},
		{"writes", m.writes.broken()},
		{"term", m.term.broken()},
		{"queue", m.queue.broken()},
		{"leave", m.leave.broken()},
		{"flight", m.flight.broken()},
	} {
		if part.broken != "" {
			return part.name + ": " + part.broken
		}
	}
	switch holdsTerm := m.state == StateLeader || m.state == StateFenced; {
	case m.done:
	case holdsTerm && m.term.token == 0:
		return fmt.Sprintf("%v without a token", m.state)
	case m.state == StateCandidate && m.term.token != 0:
		return "a candidate with a token"
	case m.term.draining && m.state != StateFenced:
		return fmt.Sprintf("%v drains", m.state)
	case m.state == StateFenced && m.term.cause == nil, m.state != StateFenced && m.term.cause != nil:
		return fmt.Sprintf("%v with the cause %v", m.state, m.term.cause)
	case (m.state == StateLeader || m.state == StateFenced) && !m.renew.electFrom.IsZero():
		return fmt.Sprintf("%v waits until it may elect", m.state)
	}
	return ""
}

func (b *bucketView) broken() string {
	s := b.settings
	switch {
	case b.bound < min(max(s.MaxLease, s.TTL), maxRecordLease):
		return fmt.Sprintf("bound %v is less than MaxLease %v or TTL %v", b.bound, s.MaxLease, s.TTL)
	case b.bound > maxRecordLease:
		return fmt.Sprintf("bound %v is longer than any lease", b.bound)
	}
	return ""
}

func (f *feedHealth) broken() string {
	if f.fails > 0 && f.up && f.retryAt.IsZero() {
		return "it failed and has no time to retry"
	}
	return ""
}

func (k *keyView) broken() string {
	switch {
	case k.behind > mute:
		return "it counts more reads than it needs"
	case k.seen.kind != entryUnseen && k.seenAt.IsZero():
		return "an observation without its time"
	case k.readRevision > k.seen.revision:
		return fmt.Sprintf("revision %d was read, and %d is the newest", k.readRevision, k.seen.revision)
	case k.seen.kind == entryUnseen && k.seen.revision != 0:
		return "an unseen entry with a revision"
	}
	return ""
}

func (y *memory) broken() string {
	switch {
	case y.lease < 0, y.lease > maxRecordLease:
		return fmt.Sprintf("lease %v", y.lease)
	case y.lease > 0 && y.leaseAt.IsZero():
		return "a lease without its time"
	case max(y.token, y.hearsay) > lastToken:
		return "a token that no candidate counts up from"
	}
	return ""
}

func (r *readNeed) broken() string {
	if r.deferred && r.calmUntil.IsZero() {
		return "a read is put off until no time"
	}
	return ""
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

func (t *termState) broken() string {
	claimed := t.token != 0
	switch {
	case claimed != !t.leaseUntil.IsZero():
		return fmt.Sprintf("token %d with a lease until %v", t.token, t.leaseUntil)
	case t.draining && (t.drainBy.IsZero() || !claimed):
		return "it drains without a time or a token"
	case !claimed && !t.guardDeadline.IsZero():
		return "guards are to be raised for no token"
	}
	return ""
}

func (q *queueState) broken() string {
	if q.vain > 0 && q.yieldsFrom.IsZero() {
		return "a handover in vain without a wait"
	}
	return ""
}

func (d *departure) broken() string {
	if d.mode == staying && d.to != "" {
		return "a successor of a candidate that stays"
	}
	return ""
}

func (f *inflight) broken() string {
	switch {
	case f.late && f.req.kind == reqNone:
		return "no request is late"
	case f.req.kind != reqNone && f.deadline.IsZero():
		return "a request without a deadline"
	}
	return ""
}
