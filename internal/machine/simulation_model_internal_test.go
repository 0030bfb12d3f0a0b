package machine

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/contract"
	"github.com/natsleader/natsleader/internal/record"
)

// world is the surroundings of the simulated candidates: one key of one bucket, a network
// that loses, delays and repeats nothing but time, an operator, and a true time that no
// candidate can read. It is a queue of things to come. Nothing runs beside it.
type world struct {
	rng   *rand.Rand
	now   time.Duration // the true time
	queue happenings
	order uint64
	calm  bool // faults have ceased

	faults  faultRates
	bucket  modelBucket
	guarded bool
	guard   modelGuard
	purges  bool   // the operator does nothing but purge
	forges  bool   // messages of the feed are forged
	hostile bool   // the adversary writes the key
	junk    uint64 // the revision that it wrote last
	nodes   []*node

	last      uint64 // token of the newest term
	election  contract.Election
	elections int
	failure   string
	trace     func(format string, args ...any)
}

// faultRates are chances in a thousand.
type faultRates struct {
	lost, late, slow, refused, stale, unanswered, deaf uint32
	operator, pauses, crashes, calls, cuts             uint32 // for every second
}

// happening is something that will happen.
type happening struct {
	at    time.Duration
	order uint64
	do    func()
}

type happenings []happening

func (h happenings) Len() int { return len(h) }
func (h happenings) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)   { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (w *world) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.queue, happening{w.now + d, w.order, do})
}

func (w *world) chance(inThousand uint32) bool {
	return !w.calm && w.rng.Uint32N(1000) < inThousand
}

func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rng.Int64N(int64(most-least)))
}

func (w *world) logf(format string, args ...any) {
	if w.trace != nil {
		w.trace("%10.3f "+format, append([]any{w.now.Seconds()}, args...)...)
	}
}

func (w *world) failf(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
		w.logf("FAILURE %s", w.failure)
	}
}

// modelBucket is one key of a bucket.
type modelBucket struct {
	settings backend.Settings
	current  record.Observation
	past     []record.Observation // all entries that were stored, nothing included
}

// put stores a message of any kind, or takes all of them away.
func (w *world) put(s record.Observation, by string) {
	b := &w.bucket
	if s.Kind != record.EntryNothing {
		b.settings.LastRevision += 1 + uint64(w.rng.Uint32N(3)) // others use the bucket, too
		s.Revision = b.settings.LastRevision
		s.Created = int64(w.now)
	}
	b.current = s
	b.past = append(b.past, s)
	w.logf("        stored %s by %s", describe(s), by)
	if s.Kind == record.EntryNothing {
		return
	}
	for _, n := range w.nodes {
		if feed := n.feed; feed != 0 && !n.deaf && !w.chance(w.faults.lost) {
			w.after(w.delay(), func() {
				if n.feed == feed {
					n.hand(n.life, Input{Kind: InHeard, Observed: s})
				}
			})
		}
	}
	if ttl := b.settings.TTL; ttl > 0 {
		w.after(ttl*9/10, func() { // the server's clock is not to be trusted
			if b.current.Revision == s.Revision {
				w.expire()
			}
		})
	}
}

func (w *world) expire() {
	if w.bucket.current.Kind == record.EntryMarker {
		w.put(record.Observation{Kind: record.EntryNothing}, "expiry")
	} else {
		w.put(record.Observation{Kind: record.EntryMarker}, "expiry")
	}
}

// compareAndSet stores a write if its condition holds. Nothing else decides.
func (w *world) compareAndSet(req Request, by string) (uint64, error) {
	c := w.bucket.current
	if c.Revision != req.Revision {
		return 0, w.refusal()
	}
	switch req.Rec.Phase {
	case record.PhaseLeading, record.PhaseReleased:
		if c.Rec.Session != req.Rec.Session && !w.hostile {
			w.failf("%s wrote %s over %s", by, record.PhaseNames[req.Rec.Phase], describe(c))
		}
	case record.PhaseElect, record.PhasePending:
	case record.PhaseNone:
		w.failf("%s wrote a record without a phase", by)
	}
	w.put(record.Observation{Kind: record.EntryRecord, Rec: req.Rec}, by)
	return w.bucket.current.Revision, nil
}

// refusal returns a rejection with code 10164 or 10071. Writes of a key at rest are
// rejected with 10071 in the end.
func (w *world) refusal() error {
	if w.rng.Uint32N(2) == 0 {
		return &backend.RefusedError{}
	}
	return &backend.RefusedError{Actual: w.bucket.current.Revision, Named: true}
}

// look returns the reply to a read: of now, or of the past.
func (w *world) look() record.Observation {
	past := w.bucket.past
	if w.chance(w.faults.stale) {
		return past[len(past)-1-w.rng.IntN(min(len(past), 8))]
	}
	return w.bucket.current
}

// delay returns how long one way takes.
func (w *world) delay() time.Duration {
	switch {
	case w.chance(w.faults.late):
		return w.between(0, 40*time.Second)
	case w.chance(w.faults.slow):
		return w.between(0, 4*time.Second)
	default:
		return w.between(100*time.Microsecond, 20*time.Millisecond)
	}
}

// operate lets the operator do what the bucket permits.
func (w *world) operate() {
	if w.hostile && w.rng.Uint32N(2) == 0 {
		w.putJunk()
		return
	}
	if w.purges {
		w.put(record.Observation{Kind: record.EntryNothing}, "purge")
		return
	}
	switch w.rng.Uint32N(8) {
	case 0:
		w.put(record.Observation{Kind: record.EntryForeign}, "operator")
	case 1, 2, 3:
		if !w.bucket.settings.PurgeProtected {
			w.put(record.Observation{Kind: record.EntryNothing}, "purge")
			return
		}
		w.put(record.Observation{Kind: record.EntryMarker}, "operator")
	case 4:
		if !w.bucket.settings.PurgeProtected {
			w.expire()
		}
	default:
		w.put(record.Observation{Kind: record.EntryMarker}, "operator")
	}
}

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
	return text
}

var inputNames = map[InputKind]string{
	InTick: "tick", InHeard: "heard", InReconnected: "reconnected", InFeedLost: "feed lost", InClosed: "closed",
	InRead: "read", InWritten: "written", InSettings: "settings", InFeed: "feed", InResign: "resign", InStop: "stop",
	InAbandon: "abandon", InDrained: "drained", InWorked: "worked", InLoop: "loop", InNoLoop: "no loop", InProclaim: "proclaim", InGuards: "guards", InRoster: "roster", InSuspend: "bar", InResume: "open", InSlot: "slot",
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
	if r.Stand != 0 {
		text += fmt.Sprintf(", stand at %d", r.Stand)
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
			add("Elected: token %d, good until %v", n.Token, n.Until.Sub(origin))
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
