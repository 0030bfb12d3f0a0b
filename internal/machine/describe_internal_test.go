package machine

import (
	"cmp"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/record"
)

func describe(s record.Observation) string {
	switch s.Kind {
	case record.EntryNothing:
		return "nothing"
	case record.EntryMarker:
		return fmt.Sprintf("%d marker", s.Revision)
	case record.EntryForeign:
		return fmt.Sprintf("%d foreign", s.Revision)
	case record.EntryUnseen:
		return "unseen"
	case record.EntryRecord:
	}
	return fmt.Sprintf("%d %s", s.Revision, describeRecord(s.Rec))
}

func describeRecord(r record.Record) string {
	text := fmt.Sprintf("%s/%d %s for %v", r.Session, r.Counter, record.PhaseNames[r.Phase], r.Lease)
	if r.Token != 0 {
		text += fmt.Sprintf(" token %d", r.Token)
	}
	if r.Least != 0 {
		text += fmt.Sprintf(" least %d", r.Least)
	}
	if r.Value != "" {
		text += fmt.Sprintf(" value %q", r.Value)
	}
	if r.Next != "" {
		text += fmt.Sprintf(" next %q", r.Next)
	}
	if r.To != "" {
		text += " to " + r.To
	}
	if r.NeverLed {
		text += " never led"
	}
	return text + describeLast(r.Last)
}

func describeLast(p record.PackedLast) string {
	l := p.Unpack()
	if p == "" {
		return ""
	}
	text := fmt.Sprintf(", after %s token %d until %v", l.ID, l.Token, time.Duration(l.Until))
	if l.Released {
		text += " released"
	}
	if l.Value != "" {
		text += fmt.Sprintf(" value %q", l.Value)
	}
	return text
}

var inputNames = map[InputKind]string{
	InTick: "tick", InHeard: "heard", InReconnected: "reconnected", InFeedLost: "feed lost", InClosed: "closed",
	InRead: "read", InWritten: "written", InSettings: "settings", InFeed: "feed", InResign: "resign", InStop: "stop",
	InAbandon: "abandon", InDrained: "drained", InWorked: "worked", InLoop: "loop", InNoLoop: "no loop", InProclaim: "proclaim", InGuards: "guards", InRoster: "roster", InSuspend: "bar", InResume: "open", InSlot: "slot", InStalled: "stalled", InPaused: "paused",
}

func describeInput(in Input) string {
	text := inputNames[in.Kind]
	switch {
	case in.Err != nil:
		return text + ": " + in.Err.Error()
	case in.Kind == InHeard || in.Kind == InRead:
		return text + " " + describe(in.Observed)
	case in.Kind == InWritten:
		return fmt.Sprintf("%s as %d", text, in.Revision)
	case in.Kind == InRoster:
		text += fmt.Sprintf(" of %q", in.Roster.Line)
		if in.Roster.Preemptor.Session != "" {
			text += " with rival " + in.Roster.Preemptor.Session
		}
		return text
	case in.To != "" || in.Next:
		return text + " in favour of " + cmp.Or(in.To, "the next")
	case in.Kind == InGuards:
		return text + " " + describeGuards(in.Guards)
	}
	return text
}

func describeGuards(r GuardsReport) string {
	text := map[bool]string{true: "fit", false: "not fit"}[r.Fit]
	if r.RaisedAt != 0 {
		text += fmt.Sprintf(", stand at %d", r.RaisedAt)
	}
	if r.Over != 0 {
		text += fmt.Sprintf(", over %d", r.Over)
	}
	return text
}

// describeEffects describes the effects of a step on one line.
func describeEffects(origin time.Time, fx Effects) string {
	text := ""
	for _, line := range effectLines(origin, fx) {
		text += "; " + line
	}
	return text
}

// effectLines describes the effects of a step, with times from an origin on.
func effectLines(origin time.Time, fx Effects) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if fx.End != nil {
		add("end the context: %v", fx.End)
	}
	for _, n := range fx.Notes {
		switch n.Event {
		case NotePending:
			add("Pending: token %d or more, not before %v", n.Token, n.Until.Sub(origin))
		case NoteElected:
			add("Elected: token %d, good until %v%s", n.Token, n.Until.Sub(origin), describeLast(n.Last))
		case NoteFenced:
			add("Fenced: token %d: %v", n.Token, n.Err)
		case NoteDeposed:
			add("Deposed: token %d: %v", n.Token, n.Err)
		case NoteObserved:
			add("Observed")
		case NoteFaulted:
			add("Faulted: %v", n.Err)
		}
	}
	if fx.Cancel {
		add("give up the request")
	}
	if fx.Slot.Wanted {
		add("wait for a slot as a %s", [...]string{"reader", "taker", "holder", "leader that has missed a renewal", "sharer"}[fx.Slot.Rank])
	}
	switch fx.Request.Kind {
	case ReqSettings:
		add("ask for the settings")
	case ReqFeed:
		add("open a feed")
	case ReqRead:
		add("read")
	case ReqWrite:
		as := ""
		if fx.Request.Marker {
			as = " as a marker"
		}
		add("write on %d%s: %s", fx.Request.Revision, as, describeRecord(fx.Request.Rec))
	case ReqNone:
	}
	if fx.Denied != nil {
		add("denied: %v", fx.Denied)
	}
	if fx.done {
		add("done")
	}
	return lines
}
