package main

import (
	"time"

	"github.com/natsleader/natsleader/internal/link"
)

// part is a time in which a candidate was in one state, as the picture of the page has it. Instants are in Unix ms.
type part struct {
	Kind string `json:"kind"`
	From int64  `json:"from"`
	To   int64  `json:"to,omitempty"` // 0: it goes on
}

// The kinds of parts.
const (
	partLeads   = "leads"
	partLapses  = "lapses" // leads, and cannot renew
	partHolds   = "pending"
	partDrains  = "drains"
	partWaits   = "waits"
	partCut     = "cut" // waits, and cannot reach the server
	partFrozen  = "frozen"
	partGone    = "gone"
	mostOfAPast = 40 // parts
)

// lane is the past of a candidate: its newest parts, by the clock of the host. While the candidate is frozen it has also the
// part that follows when its lease is over.
type lane []part

// is says which state a candidate has now, and since when as far as that is not before the part that went on.
func (l *lane) is(kind string, since, now time.Time) {
	n := len(*l)
	for n > 0 && (*l)[n-1].From > now.UnixMilli() {
		n--
	}
	*l = (*l)[:n]
	if n > 0 {
		last := &(*l)[n-1]
		if last.Kind == kind {
			last.To = 0
			return
		}
		if since.UnixMilli() <= last.From {
			since = now
		}
		last.To = since.UnixMilli()
	}
	*l = append(*l, part{Kind: kind, From: since.UnixMilli()})
	*l = (*l)[max(0, len(*l)-mostOfAPast):]
}

// heard takes a report. A term begins and ends with the first and the last instant at which it was known to be valid.
func (l *lane) heard(r report, reaches bool) {
	kind := partGone // it has ended
	since := time.Unix(0, r.To)
	switch {
	case r.State == "leader" && r.At-r.To > int64(beat):
		return // the term was not valid when the state was read
	case r.State == "leader":
		kind, since = partLeads, time.Unix(0, r.From)
		if !reaches {
			kind, since = partLapses, time.Unix(0, r.At)
		}
	case r.State == "pending":
		kind = partHolds
	case r.State == "fenced":
		kind = partDrains
	case r.State == "candidate" && reaches:
		kind = partWaits
	case r.State == "candidate":
		kind = partCut
	}
	at := time.Unix(0, r.At)
	last := part{}
	if n := len(*l); n > 0 {
		last = (*l)[n-1]
	}
	switch {
	case last.Kind == partGone && at.UnixMilli() < last.From:
		return // it was sent before the process was killed
	case last.Kind == "", last.Kind != partLeads && last.Kind != partLapses && kind != partLeads:
		since = at
	}
	l.is(kind, since, at)
}

// frozen says that a candidate was frozen. The lease of a leader runs out by its own clock.
func (l *lane) frozen(over, now time.Time) {
	if n := len(*l); n > 0 && ((*l)[n-1].Kind == partLeads || (*l)[n-1].Kind == partLapses) && over.After(now) {
		l.is(partLapses, now, now)
		l.is(partFrozen, over, over)
		return
	}
	l.is(partFrozen, now, now)
}

// reaches reports whether a candidate reaches the server. The caller has the lock.
func (p *playground) reaches(s *seat) bool {
	mode := s.link.Mode()
	return p.up && (mode == link.Works || mode == link.Slow)
}
