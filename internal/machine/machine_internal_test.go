package machine

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/golden"
	"github.com/natsleader/natsleader/internal/record"
)

// TestTranscripts_Hold runs the scripts in testdata/machine. A script
// has a line for each input of one candidate. Below it, indented, is the reaction of the
// machine. -update writes the reactions anew, and the difference is the review. A comment
// names the sentence of the protocol that a passage checks.
//
//	begin sealed|ordinary [maxlease=15s] [ttl=20s] [lease=10s] [interval=2s] [pending=3s] [drain=5s] [mintoken=9] [works] [observe] [kvelect] [inherits]
//	                          a new candidate A at 0s, with its settings known and a feed open
//	1.5s tick                 nothing but time, at 1.5s
//	1.5s ack 12               its write is stored at revision 12
//	1.5s refused [15]         with code 10164 or, naming the revision, 10071
//	1.5s unknown|denied       no reply to its request, or a permission violation
//	1.5s read|heard SIGHT     with SIGHT as in: none, 12 marker [B/4 leading lease=15s], 12 foreign [NAME], 12 own/3, 12 B/4 leading lease=15s token=9
//	1.5s settings last=12 ... its settings, as for begin
//	1.5s feed ok|lost
//	1.5s again                a new candidate of the same process begins, with what was seen
//	1.5s resign, stop, abandon, drained, stalled, proclaim VALUE, reconnected, closed
//	1.5s paused 18s           the time of day has run ahead of the clock by 18s
//
// After begin ... works the application begins work with each term. After begin ... window the candidate waits for each slot. After phase=4 its renewals are due
// in that phase of the interval:
//
//	1.5s slot                 it has a slot
//
// A candidate is in a roster after begin ... listed or queued, with turn=1s. If it is not
// in line, it waits for lot=0.5 of all lots:
//
//	1.5s roster [B,C] [rival=B/1s] these stand, and B, which was seen at 1s and is alive, is to lead
//	1.5s resign to=B|next          in favour of B, or of the first in line
//	1.5s heard|read 12 B/4 released next=C,A to=A
//
// After begin ... guarded the candidate has one guard, which has been checked. The
// guard's guard machine is part of the script:
//
//	1.5s guard checked        the guard was checked, and is fit
//	1.5s guard raised 12      it was raised, at revision 12
//	1.5s guard refused [15]
//	1.5s guard unknown
//	1.5s guard read SIGHT     with SIGHT as in: none, 12 marker, 12 foreign, 12 own token=9, 12 B token=9
//	1.5s guard suspect        a write of the term was refused
func TestTranscripts_Hold(t *testing.T) {
	golden.Scripts(t, "machine", func(t *testing.T, file string) {
		var s *script
		golden.Script(t, file, func(line string, words []string) []string {
			if words[0] == "begin" {
				s = &script{t: t, wrote: map[uint64]record.Record{}}
				return s.begin(words[1:])
			}
			check.Must(t, s != nil, "%q comes before begin", line)
			at, err := time.ParseDuration(words[0])
			check.Must(t, err == nil && at >= s.last, "%q: not a time, or one in the past", line)
			s.last = at
			switch words[1] {
			case "again":
				return s.again()
			case "guard":
				return s.happen(Input{Kind: InTick}, s.parseGuard(line, words[2:]))
			}
			return s.happen(s.parse(line, words[1:]), GuardInput{})
		})
	})
}

// script is one candidate in a transcript.
type script struct {
	window bool // slots are granted by the script
	t      *testing.T
	m      Machine
	last   time.Duration            // of the newest input
	wrote  map[uint64]record.Record // own writes by counter
	post   post                     // of the guard, if there is one

	works, begun bool // the application begins work with each term, which no step has found yet

	stands bool      // must be in the roster
	denied time.Time // follows after all others until then
	before Sighting  // what an earlier candidate of the process has read
}

var scriptOrigin = time.Unix(0, 0).UTC()

func (s *script) begin(words []string) []string {
	p := Params{ID: "A", Session: "A"}
	var rest []string
	window, works := false, false
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "lease":
			p.Want.Lease = s.duration(value)
		case "interval":
			p.Want.RenewInterval = s.duration(value)
		case "pending":
			p.Want.PendingPeriod = s.duration(value)
		case "drain":
			p.Want.GracePeriod = s.duration(value)
		case "mintoken":
			p.MinToken = s.number(value)
		case "observe":
			p.Observe = true
		case "guarded":
			p.Guarded = true
		case "works":
			works = true
		case "id":
			p.ID = value
		case "listed", "queued":
			p.Listed, p.Orders = true, name == "queued"
		case "lot":
			part, err := strconv.ParseFloat(value, 64)
			check.OK(s.t, err)
			p.Spread = uint32(part * (1 << 32))
		case "turn":
			p.Want.Turn = s.duration(value)
		case "kvelect":
			p.KVElect = true
		case "inherits":
			p.Inherits = true
		case "phase":
			p.Phase = int32(s.number(value))
		case "window":
			window = true
		default:
			rest = append(rest, word)
		}
	}
	s.m, s.window, s.works, s.begun = New(p, ""), false, works, false
	s.post.GuardParams = GuardParams{ID: p.ID, Session: p.Session, Election: "e"}
	s.step(Input{Kind: InTick})
	s.step(Input{Kind: InSettings, Settings: s.settings(rest)})
	s.window = window
	if p.Guarded {
		s.guide(GuardInput{Kind: GuardInTick})
		s.agree()
	}
	lines := s.happen(Input{Kind: InFeed}, GuardInput{})
	if p.Guarded {
		lines = append(lines, s.guide(GuardInput{Kind: GuardInChecked})...)
	}
	return lines
}

// happen runs one line of a script: an input of the candidate, or of its guard.
// Afterwards both agree on it.
func (s *script) happen(in Input, guard GuardInput) []string {
	s.t.Helper()
	lines := s.step(in)
	if !s.m.Guarded {
		return lines
	}
	switch {
	case s.m.done:
		return lines
	case guard.Kind != GuardInTick || in.Kind == InTick:
		lines = append(lines, s.guide(guard)...)
	case in.Kind == InReconnected:
		lines = append(lines, s.guide(GuardInput{Kind: GuardInReconnected})...)
	}
	lines = append(lines, s.agree()...)
	// Only the last deadlines count.
	wakes := map[string]string{}
	said := lines[:0]
	for _, line := range lines {
		if who, at, ok := strings.Cut(line, "wake at "); ok {
			wakes[who] = at
			continue
		}
		said = append(said, line)
	}
	for _, who := range []string{"", "guard: "} {
		if at := wakes[who]; at != "" {
			said = append(said, who+"wake at "+at)
		}
	}
	return said
}

// agree makes the machine and the guard machine agree, as the actor does.
func (s *script) agree() []string {
	var lines []string
	if wish := s.m.desiredGuards(); wish != s.post.Desired {
		lines = s.guide(GuardInput{Kind: GuardInDesired, Desired: wish})
	}
	if r := s.post.report(); r != s.m.guards && !s.m.done {
		lines = append(lines, "guard: "+describeGuards(r))
		lines = append(lines, s.step(Input{Kind: InGuards, Guards: r})...)
		lines = append(lines, s.agree()...)
	}
	return lines
}

// guide steps the guard machine.
func (s *script) guide(in GuardInput) []string {
	in.Jitter = 1 << 31
	fx := s.post.Step(scriptOrigin.Add(s.last), s.m.bucket.timing().Lease, in)
	var lines []string
	for _, line := range guardEffectLines(fx) {
		lines = append(lines, "guard: "+line)
	}
	wake := "guard: wake at "
	if !fx.Wake.IsZero() {
		wake += fx.Wake.Sub(scriptOrigin).String()
	}
	return append(lines, wake)
}

func (s *script) step(in Input) []string {
	in.Jitter = 1 << 31 // pauses in the middle of their range
	in.Works, s.begun = in.Works || s.begun, false
	before, now := s.m.state, scriptOrigin.Add(s.last)
	var fx Effects
	if s.window {
		fx = s.m.Step(now, &in)
	} else {
		fx = s.m.stepAtOnce(now, in)
	}
	if broken := s.m.brokenInvariant(); broken != "" {
		s.t.Errorf("after %s: %s", describeInput(in), broken)
	}
	if fx.Request.Kind == ReqWrite {
		s.wrote[fx.Request.Rec.Counter] = fx.Request.Rec
	}
	var lines []string
	if before != s.m.state {
		s.begun = s.works && s.m.state == StateLeader
		lines = append(lines, fmt.Sprintf("%v -> %v", before, s.m.state))
	}
	lines = append(lines, effectLines(scriptOrigin, fx)...)
	if stands := s.m.competes(now); stands != s.stands {
		s.stands = stands
		lines = append(lines, map[bool]string{true: "it stands", false: "it stands no more"}[stands])
	}
	switch until := s.m.queue.deniedUntil; {
	case until.Equal(s.denied):
	case until.IsZero():
		lines = append(lines, "it counts as denied no more")
	default:
		lines = append(lines, fmt.Sprintf("it counts as denied until %v", until.Sub(scriptOrigin)))
	}
	s.denied = s.m.queue.deniedUntil
	if !fx.Wake.IsZero() {
		lines = append(lines, fmt.Sprintf("wake at %v", fx.Wake.Sub(scriptOrigin)))
	}
	return lines
}

// parse reads an input.
func (s *script) parse(line string, words []string) Input {
	s.t.Helper()
	word, rest := words[0], words[1:]
	reply := func(kind InputKind, of RequestKind, in Input) Input {
		if s.m.flight.req.Kind != of {
			s.t.Errorf("%q: nothing like that was asked", line)
			return Input{Kind: InTick}
		}
		in.Kind = kind
		return in
	}
	switch word {
	case "tick":
		return Input{Kind: InTick}
	case "slot":
		check.That(s.t, s.m.flight.slot == slotWaits, "%q: it has not asked for a slot", line)
		return Input{Kind: InSlot}
	case "ack":
		return reply(InWritten, ReqWrite, Input{Revision: s.number(rest[0])})
	case "refused":
		return reply(InWritten, ReqWrite, Input{Err: s.refusal(rest)})
	case "unknown", "denied":
		kind, ok := replyKinds[s.m.flight.req.Kind]
		check.Must(s.t, ok, "%q: nothing was asked", line)
		return Input{Kind: kind, Err: map[string]error{"unknown": backend.ErrUnreachable, "denied": backend.ErrPermission}[word]}
	case "read":
		return reply(InRead, ReqRead, Input{Observed: s.sight(rest), Before: s.before})
	case "heard":
		return Input{Kind: InHeard, Observed: s.sight(rest)}
	case "settings":
		return reply(InSettings, ReqSettings, Input{Settings: s.settings(rest)})
	case "feed":
		if rest[0] == "lost" {
			return Input{Kind: InFeedLost, Err: errors.New("the subscription has ended")}
		}
		return reply(InFeed, ReqFeed, Input{})
	case "resign":
		if of, ok := s.termOf(rest); ok {
			return Input{Kind: InResign, Term: of}
		}
		to, _ := strings.CutPrefix(strings.Join(rest, ""), "to=")
		if to == "next" {
			return Input{Kind: InResign, Next: true}
		}
		return Input{Kind: InResign, To: to}
	case "roster":
		return Input{Kind: InRoster, Roster: s.roster(rest)}
	case "abandon":
		return Input{Kind: InAbandon}
	case "drained", "worked", "stalled", "loop", "unloop", "stop", "works":
		return s.parseWork(word, rest)
	case "proclaim":
		of, _ := s.termOf(rest[1:])
		return Input{Kind: InProclaim, Value: rest[0], Term: of}
	case "paused":
		return Input{Kind: InPaused, By: s.duration(rest[0])}
	case "reconnected":
		return Input{Kind: InReconnected}
	case "closed":
		return Input{Kind: InClosed}
	}
	s.t.Fatalf("%q is not understood", line)
	return Input{}
}

// parseGuard reads an input of the guard.
func (s *script) parseGuard(line string, words []string) GuardInput {
	s.t.Helper()
	asked := s.post.op
	in, of := GuardInput{}, GuardNone
	switch words[0] {
	case "suspect":
		return GuardInput{Kind: GuardInSuspect}
	case "checked":
		in.Kind, of = GuardInChecked, GuardCheck
	case "raised":
		in.Kind, of, in.Revision = GuardInRaised, GuardRaise, s.number(words[1])
	case "refused":
		in.Kind, of, in.Err = GuardInRaised, GuardRaise, s.refusal(words[1:])
	case "unknown":
		in.Kind, of, in.Err = guardInKinds[asked.Kind], asked.Kind, backend.ErrUnreachable
	case "read":
		in.Kind, of, in.Observed = GuardInRead, GuardRead, s.guardSight(words[1:])
	default:
		s.t.Fatalf("%q is not understood", line)
	}
	check.That(s.t, asked.Kind == of && of != GuardNone, "%q: nothing like that was asked", line)
	return in
}

// refusal reads the revision of a refusal that names one.
func (s *script) refusal(words []string) error {
	s.t.Helper()
	if len(words) == 0 {
		return refusal(false, 0)
	}
	return refusal(true, s.number(words[0]))
}

// guardSight reads an entry of the guard.
func (s *script) guardSight(words []string) record.GuardObservation {
	s.t.Helper()
	if words[0] == "none" {
		return record.GuardObservation{Kind: record.EntryNothing}
	}
	found := record.GuardObservation{Revision: s.number(words[0])}
	switch words[1] {
	case "marker":
		found.Kind = record.EntryMarker
	case "foreign":
		found.Kind = record.EntryForeign
	default:
		token, isToken := strings.CutPrefix(words[2], "token=")
		check.Must(s.t, isToken, "%v has no token", words)
		found.Kind = record.EntryRecord
		found.Rec = record.Guard{Format: record.Format, Election: "e", Token: s.number(token), ID: words[1], Session: words[1]}
		if words[1] == "own" {
			found.Rec.ID, found.Rec.Session = s.m.ID, s.m.Session
		}
	}
	return found
}

// sight reads an entry of the key.
func (s *script) sight(words []string) record.Observation {
	s.t.Helper()
	if words[0] == "none" {
		return record.Observation{Kind: record.EntryNothing}
	}
	found := record.Observation{Revision: s.number(words[0]), Kind: record.EntryRecord, Created: int64(s.last)}
	session, counter, _ := strings.Cut(words[1], "/")
	switch session {
	case "marker":
		return s.marker(words)
	case "foreign":
		found.Kind, found.Rec.Value = record.EntryForeign, strings.Join(words[2:], " ")
		return found
	case "own":
		rec, ok := s.wrote[s.number(counter)]
		check.Must(s.t, ok, "%v was never written", words)
		found.Rec = rec
		return found
	}
	found.Rec = record.Record{ID: session, Session: session, Counter: s.number(counter), Lease: 15 * time.Second}
	for _, word := range words[2:] {
		name, value, isPair := strings.Cut(word, "=")
		switch {
		case name == "lease":
			found.Rec.Lease = s.duration(value)
		case name == "token":
			found.Rec.Token = s.number(value)
		case name == "least":
			found.Rec.Least = s.number(value)
		case name == "next":
			found.Rec.Next = record.LineOf(strings.Split(value, ","))
		case name == "to":
			found.Rec.To = value
		case name == "value":
			found.Rec.Value = value
		case name == "after":
			found.Rec.Last = record.Last{ID: value, Token: 1, Value: "of " + value}.Pack()
		case name == "never-led":
			found.Rec.NeverLed = true
		case isPair:
			s.t.Fatalf("%q is not understood", word)
		default:
			for p, text := range record.PhaseNames {
				if text == word {
					found.Rec.Phase = p
				}
			}
		}
	}
	check.Must(s.t, found.Rec.Phase != record.PhaseNone, "%v has no phase", words)
	return found
}

// roster reads a report of the roster.
func (s *script) roster(words []string) (r RosterReport) {
	s.t.Helper()
	for _, word := range words {
		if rival, ok := strings.CutPrefix(word, "rival="); ok {
			session, since, _ := strings.Cut(rival, "/")
			r.Preemptor.Session, r.Preemptor.Since = session, scriptOrigin.Add(s.duration(since))
			continue
		}
		r.Line = record.LineOf(strings.Split(word, ","))
	}
	return r
}

func (s *script) settings(words []string) backend.Settings {
	s.t.Helper()
	var set backend.Settings
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "sealed":
			set.PurgeProtected = true
		case "ordinary":
		case "maxlease":
			set.MaxLease = s.duration(value)
		case "ttl":
			set.TTL = s.duration(value)
		case "last":
			set.LastRevision = s.number(value)
		default:
			s.t.Fatalf("%q is not understood", word)
		}
	}
	return set
}

func (s *script) duration(text string) time.Duration {
	s.t.Helper()
	d, err := time.ParseDuration(text)
	check.OK(s.t, err)
	return d
}

func (s *script) number(text string) uint64 {
	s.t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	check.OK(s.t, err)
	return n
}
