package leader

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
					n.hand(n.life, input{kind: inHeard, observed: s})
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
func (w *world) compareAndSet(req request, by string) (uint64, error) {
	c := w.bucket.current
	if c.Revision != req.revision {
		return 0, w.refusal()
	}
	switch req.rec.Phase {
	case record.PhaseLeading, record.PhaseReleased:
		if c.Rec.Session != req.rec.Session && !w.hostile {
			w.failf("%s wrote %s over %s", by, record.PhaseNames[req.rec.Phase], describe(c))
		}
	case record.PhaseElect, record.PhasePending:
	case record.PhaseNone:
		w.failf("%s wrote a record without a phase", by)
	}
	w.put(record.Observation{Kind: record.EntryRecord, Rec: req.rec}, by)
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

var inputNames = map[inputKind]string{
	inTick: "tick", inHeard: "heard", inReconnected: "reconnected", inFeedLost: "feed lost", inClosed: "closed",
	inRead: "read", inWritten: "written", inSettings: "settings", inFeed: "feed", inResign: "resign", inStop: "stop",
	inAbandon: "abandon", inDrained: "drained", inWorked: "worked", inLoop: "loop", inNoLoop: "no loop", inProclaim: "proclaim", inGuards: "guards", inRoster: "roster", inSuspend: "bar", inResume: "open", inSlot: "slot",
}

func describeInput(in input) string {
	text := inputNames[in.kind]
	switch {
	case in.err != nil:
		return text + ": " + in.err.Error()
	case in.kind == inHeard || in.kind == inRead:
		return text + " " + describe(in.observed)
	case in.kind == inWritten:
		return fmt.Sprintf("%s as %d", text, in.revision)
	case in.kind == inRoster:
		text += fmt.Sprintf(" of %q", in.roster.line)
		if in.roster.preemptor.session != "" {
			text += " with rival " + in.roster.preemptor.session
		}
		return text
	case in.to != "" || in.next:
		return text + " in favour of " + cmp.Or(in.to, "the next")
	case in.kind == inGuards:
		return text + " " + describeGuards(in.guards)
	}
	return text
}

func describeGuards(r guardsReport) string {
	text := map[bool]string{true: "fit", false: "not fit"}[r.fit]
	if r.stand != 0 {
		text += fmt.Sprintf(", stand at %d", r.stand)
	}
	if r.over != 0 {
		text += fmt.Sprintf(", over %d", r.over)
	}
	return text
}

// describeEffects describes the effects of a step on one line.
func describeEffects(origin time.Time, fx effects) string {
	text := ""
	for _, line := range effectLines(origin, fx) {
		text += "; " + line
	}
	return text
}

// effectLines describes the effects of a step, with times from an origin on.
func effectLines(origin time.Time, fx effects) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if fx.end != nil {
		add("end the context: %v", fx.end)
	}
	for _, n := range fx.notes {
		switch n.event {
		case notePending:
			add("Pending: token %d or more, not before %v", n.token, n.until.Sub(origin))
		case noteElected:
			add("Elected: token %d, good until %v", n.token, n.until.Sub(origin))
		case noteFenced:
			add("Fenced: token %d: %v", n.token, n.err)
		case noteDeposed:
			add("Deposed: token %d: %v", n.token, n.err)
		case noteObserved:
			add("Observed")
		case noteFaulted:
			add("Faulted: %v", n.err)
		}
	}
	if fx.cancel {
		add("give up the request")
	}
	if fx.slot.wanted {
		add("wait for a slot as a %s", [...]string{"reader", "taker", "holder", "leader that has missed a renewal", "sharer"}[fx.slot.rank])
	}
	switch fx.request.kind {
	case reqSettings:
		add("ask for the settings")
	case reqFeed:
		add("open a feed")
	case reqRead:
		add("read")
	case reqWrite:
		as := ""
		if fx.request.marker {
			as = " as a marker"
		}
		add("write on %d%s: %s", fx.request.revision, as, describeRecord(fx.request.rec))
	case reqNone:
	}
	if fx.denied != nil {
		add("denied: %v", fx.denied)
	}
	if fx.done {
		add("done")
	}
	return lines
}
