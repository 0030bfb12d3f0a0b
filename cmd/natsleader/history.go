package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/jsapi"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
)

const historyHelp = `Without an election it shows each change of a leader in the bucket, the newest first. In a
pattern * stands for any text.
Changes of many elections within some seconds, in a deploy for example, are one line.
Trouble has the mark !: a lease ran out, a key was deleted or overwritten, nobody led for a
second or more, or ten seconds or more are not known. A key that a leader gave up in order
was idle for its time if its note says that it is for a one-shot job, or if that is ten leases
or more. If there are too many changes, it reads the newest.

With an election it shows its terms as a time line: the leader, from when to when, its
token, why its term ended, and when nobody led. The bucket must keep a history: see
bucket add --history.

--since takes a duration (6h, 7d), a time (03:12, 2026-11-22 03:12, RFC 3339) or "all".
--at shows who led at one moment, without an election in each one of the bucket.

A time without a zone is local. If clocks were set back and showed it twice, it is
refused, and the error names both moments. Times are shown in the zone of the head. A time
at which that zone had another offset is shown with it.

The end of a lease that was not renewed is when other candidates could follow at the
earliest. The leader itself stops before that, by default at 80% of its lease.

The history can miss what was written while it did not follow the bucket, after an outage for
example. Such a time is shown as not known.

In JSON a span has a state as in status, or unknown. A term has the reason why it ended:
released, expired, deleted, overwritten, replaced (by a record of another holder within
the lease) or unknown.

The exit code is 78 if the bucket keeps no history, 66 if it has nothing
about the election, and with --at 1 if nobody led, and 66 if that is not known. With --at
of several elections it is 1 if nobody led one of them and it was not idle, otherwise 66
if that is not known of one.

  natsleader history --since 1h
  natsleader history --at 03:12
  natsleader history billing --at 03:12
  natsleader history billing --since 7d --json`

type history struct {
	*globals
	election  string         // empty: all, or those that match names
	names     *regexp.Regexp // nil: all
	since, at string
	asJSON    bool
}

func registerHistory(app *fisk.Application, g *globals) {
	h := &history{globals: g}
	cmd := app.Command("history", "Show the leaders of the past").HelpLong(historyHelp)
	cmd.Arg("election", "Election to show, or a pattern with *; all of the bucket by default").HintAction(g.electionNames).StringVar(&h.election)
	cmd.Flag("since", "Begin there; a duration, a time, or all").Default("24h").PlaceHolder("TIME").StringVar(&h.since)
	cmd.Flag("at", "Show only the leader of that moment").PlaceHolder("TIME").StringVar(&h.at)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&h.asJSON)
	cmd.Action(func(*fisk.ParseContext) error { return h.run() })
}

func (h *history) run() error {
	switch {
	case strings.Contains(h.election, "*"):
		var err error
		if h.names, err = patternOf(h.election); err != nil {
			return err
		}
		h.election = ""
	case h.election != "":
		if err := checkElection(h.election); err != nil {
			return err
		}
	}
	now := time.Now()
	from, err := parseMoment(h.since, now)
	if err != nil {
		return usagef("--since %w", err)
	}
	var at time.Time
	if h.at != "" {
		if at, err = parseMoment(h.at, now); err != nil || at.IsZero() {
			return usagef("--at %q is no moment: give a time, or a duration before now", h.at)
		}
		from = at
	}
	if from.After(now) {
		return usagef("%s is in the future", formatZoned(from))
	}
	return h.inspect(func(ctx context.Context, s *inspector) error {
		if h.election == "" {
			return h.readAll(ctx, s, from, at)
		}
		return h.read(ctx, s, from, at)
	})
}

// readAll prints what has changed in all elections from a moment on, or who led them at a moment if that is not zero.
func (h *history) readAll(ctx context.Context, s *inspector, from, at time.Time) error {
	r := historyReader{s: s, names: h.names}
	found, err := r.openAll(ctx)
	if err != nil {
		return err
	}
	if h.at != "" {
		m, unread := r.readAt(ctx, found, at)
		if unread != nil {
			return unread
		}
		h.print(r.notes)
		code := m.code()
		return exitIf(code != 0, code, printResult(h.out(), h.asJSON, m, columns(m.table(s.clock.now()))))
	}
	all, err := r.readAll(ctx, found, from)
	if err != nil {
		return err
	}
	h.print(r.notes)
	return printResult(h.out(), h.asJSON, all, columns(all.table(s.clock.now())))
}

// print prints notes about what is not certain.
func (h *history) print(notes []string) {
	for _, note := range notes {
		_, _ = fmt.Fprintf(h.errs(), "natsleader: %s\n", note)
	}
}

// read prints the history from a moment on, or who led at a moment if that is not zero.
func (h *history) read(ctx context.Context, s *inspector, from, at time.Time) error {
	r := historyReader{s: s}
	p, err := r.openFor(ctx, h.election)
	if err != nil {
		return err
	}
	line, err := r.read(ctx, p, from)
	switch {
	case err != nil:
		return err
	case len(line.Spans) == 0 && s.isGroup(ctx, h.election):
		return isNoElection(h.election)
	}
	h.print(r.notes)
	if h.at != "" {
		return h.show(line.at(at), at, line.end)
	}
	return exitIf(len(line.Spans) == 0, exitUnknown, printResult(h.out(), h.asJSON, line, columns(line.table(s.clock.now()))))
}

// show prints who led at a moment.
func (h *history) show(x span, at, now time.Time) error {
	code := exitFailed
	if x.State == "" || x.State == stateUnknown {
		code = exitUnknown
	}
	return exitIf(x.State != stateLeading, code, printResult(h.out(), h.asJSON, x, []string{x.sentence(h.election, at, now)}))
}

// parseMoment returns the moment that a text names, the zero time for "all".
func parseMoment(text string, now time.Time) (time.Time, error) {
	if text == "all" {
		return time.Time{}, nil
	}
	if d, err := fisk.ParseDuration(text); err == nil {
		if d < 0 {
			return time.Time{}, fmt.Errorf("%q is negative", text)
		}
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, shownWithOffset} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if wall, err := time.Parse(layout, text); err == nil {
			return onlyMoment(wall, now)
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			y, m, d := now.Date()
			wall := time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
			_, offset := now.Zone()
			today := append(momentsOf(wall, now.Location()), wall.Add(-time.Duration(offset)*time.Second)) // as if it were not set
			if today[0].After(now) {
				wall = wall.AddDate(0, 0, -1) // of yesterday
			}
			return onlyMoment(wall, now)
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither a duration, as 6h or 7d, nor a time, as 03:12 or \"2026-11-22 03:12\"", text)
}

// momentsOf returns when clocks in a zone show a time: never where they were set ahead, twice where they were set back.
func momentsOf(wall time.Time, zone *time.Location) (all []time.Time) {
	near := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), zone)
	begin, end := near.ZoneBounds()
	for _, in := range []time.Time{begin.Add(-1), near, end} {
		_, offset := in.Zone()
		t := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		if _, is := t.Zone(); is == offset && !slices.ContainsFunc(all, t.Equal) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// onlyMoment returns the one moment at which clocks here have shown a time.
func onlyMoment(wall, now time.Time) (time.Time, error) {
	all, shown := momentsOf(wall, now.Location()), wall.Format(time.DateTime)
	switch {
	case len(all) == 0:
		return time.Time{}, fmt.Errorf("%s was never: clocks were set ahead over it; give a time before or after", shown)
	case len(all) > 1 && !all[1].After(now):
		return time.Time{}, fmt.Errorf("%s was twice, because clocks were set back: give %q or %q", shown, all[0].Format(shownWithOffset), all[1].Format(shownWithOffset))
	}
	return all[0], nil
}

// historyReader reads the history of a bucket.
type historyReader struct {
	s      *inspector
	stream jetstream.Stream
	info   *jetstream.StreamInfo
	blind  bool           // the bucket was not read
	notes  []string       // about what is not certain
	behind time.Duration  // for how long the history misses a record, at least
	names  *regexp.Regexp // of elections and groups; nil: all
	most   time.Duration  // of reading about one election; 0: as long as it takes
}

var errNoHistory = errors.New("keeps no history")

// open finds the stream, and calls newest, which reads the newest records from the bucket itself: the history may
// lag behind. The bucket may be gone.
func (r *historyReader) open(ctx context.Context, newest func(context.Context) error) error {
	name := historyStream(r.s.name)
	err := r.s.within(ctx, func(ctx context.Context) error {
		stream, err := r.s.js.Stream(ctx, name)
		if err == nil {
			r.stream, r.info = stream, stream.CachedInfo()
			r.s.clock = newServerClock(r.info.TimeStamp, 0)
		}
		return err
	})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	unread := r.s.within(ctx, func(ctx context.Context) error {
		if unasked := r.s.ask(ctx); unasked != nil {
			return unasked
		}
		return newest(ctx)
	})
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) && errors.Is(unread, leader.ErrNoBucket):
		return unread
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return exitError{exitBucket, fmt.Errorf("bucket %s %w: `natsleader bucket add %s --history 30d` lets it begin", r.s.name, errNoHistory, r.s.name)}
	case r.info.Config.Metadata[historyOfKey] != r.s.name:
		return exitError{exitBucket, fmt.Errorf("stream %s is no history of bucket %s", name, r.s.name)}
	case errors.Is(unread, leader.ErrNoBucket):
		r.note("bucket %s does not exist any more: this is what its history has kept", r.s.name)
	case unread != nil:
		r.blind = true
		r.note("the bucket itself was not read, so the newest changes may be missing: %s", errorText(unread))
	}
	return nil
}

func (r *historyReader) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// copied is a record in the history. The zero value: none.
type copied struct {
	electionStatus
	message uint64
	alone   bool // what came right before it is not known
}

// misses reports whether something is missing between two records. Nothing is if both numbers grow alike.
func (x copied) misses(next copied) bool {
	return x.message != 0 && (next.alone || next.entry.Revision-x.entry.Revision != next.message-x.message)
}

// sameTerm reports whether two records are of the same term. Then all between them are, too.
func (x copied) sameTerm(y copied) bool {
	return x.holder.State == leader.HolderLeading && y.holder.State == leader.HolderLeading &&
		x.holder.Token == y.holder.Token && x.holder.ID == y.holder.ID
}

// past is what was read about an election, from now back to a moment. It has the first and the last record of each term,
// and each other record.
type past struct {
	election string
	newest   electionStatus // in the bucket; revision 0: not known
	first    copied         // the last one of the history before the moment
	read     []copied       // the newest first
	complete bool           // up to the first
	cut      bool           // newest is not the newest in the bucket, but the last that was asked for
}

// historyLag is how far the history may be behind the bucket without a note.
const historyLag = 5 * time.Second

// openFor is open for one election.
func (r *historyReader) openFor(ctx context.Context, election string) (*past, error) {
	p := past{election: election}
	return &p, r.open(ctx, func(ctx context.Context) (err error) {
		p.newest, err = r.s.one(ctx, election)
		return err
	})
}

// read reads what was written about an election from a moment on, and the state at that moment.
func (r *historyReader) read(ctx context.Context, p *past, from time.Time) (line timeline, err error) {
	subjects := []string{r.subject(p.election)}
	if !from.IsZero() {
		p.first, err = r.get(ctx, p.election, lastRecords{Subjects: subjects, UpToTime: from.UTC()})
	}
	var last copied
	if err == nil {
		last, err = r.get(ctx, p.election, lastRecords{Subjects: subjects})
	}
	begun := time.Now()
	for p.begin(last); err == nil && !p.complete; err = r.back(ctx, []*past{p}) {
		if r.most > 0 && time.Since(begun) >= r.most {
			from = r.leaveOut(p)
			break
		}
	}
	if err != nil {
		return timeline{}, err
	}
	return r.line(p, from), nil
}

// leaveOut notes that not all was read, and returns since when all is known. The past is the one that is known least.
func (r *historyReader) leaveOut(p *past) time.Time {
	from := p.reached().Add(1) // where two changes are of that time, one may not be read
	r.note("there are too many changes to read all: those before %s are left out", formatZoned(from))
	return from
}

// line returns the time line of what was read.
func (r *historyReader) line(p *past, from time.Time) timeline {
	b := timelineBuilder{election: p.election, from: from, blind: r.blind}
	var last copied
	for _, x := range slices.Backward(p.read) {
		b.add(x.electionStatus, last.misses(x))
		last = x
	}
	x := p.newest
	switch {
	case x.entry.Revision == b.last.entry.Revision && x.entry.Created.After(b.last.entry.Created):
		b.last.entry.Created = x.entry.Created // the server's own word, if the writer's clock was behind
	case x.entry.Revision > b.last.entry.Revision:
		if behind := r.s.clock.now().Sub(x.entry.Created); behind > max(historyLag, r.behind) {
			r.behind = behind
			r.note("the history is %s or more behind the bucket: changes before %s may be missing", formatAge(behind), formatZoned(x.entry.Created))
		}
	}
	b.add(x, last.entry.Revision+1 != x.entry.Revision)
	return b.finish(r.s.clock.now())
}

// begin takes the last record of the history.
func (p *past) begin(last copied) {
	if p.complete = last.message == 0; !p.complete {
		p.add(last)
	}
}

// add takes a record before those that were read.
func (p *past) add(x copied) {
	if x.message <= p.first.message { // another replica has answered before
		x = p.first
	}
	p.read = append(p.read, x)
	if p.complete = x.message == p.first.message; !p.complete && x.sameTerm(p.first) {
		p.read, p.complete = append(p.read, p.first), true
	}
}

// back reads the records before the oldest that was read, of each of some elections: the first of its term, and the last
// before that. Renewals, of which there may be a million, are not read. A record says since when its term is, so one request
// finds what was before all of these terms. A request for one election costs the server as much.
func (r *historyReader) back(ctx context.Context, some []*past) error {
	at, subjects, guesses := some[0].reached(), []string{}, make(map[string]copied)
	for _, p := range some {
		if t := p.reached(); t.Before(at) {
			at = t
		}
		subjects = append(subjects, r.subject(p.election))
	}
	err := r.each(ctx, lastRecords{Subjects: subjects, UpToTime: at.UTC()}, func(x copied) { guesses[x.election] = x })
	if err != nil {
		return err
	}
	var searches sync.WaitGroup
	failed := make([]error, len(some))
	for i, p := range some {
		searches.Go(func() { failed[i] = r.search(ctx, p, guesses[p.election]) })
	}
	searches.Wait()
	return cmp.Or(failed...) // one outage fails them all
}

// search finds the first record of the term of the oldest that was read, and the one before it. The guess is that one, if
// nothing was written since, and the history was not late.
func (r *historyReader) search(ctx context.Context, p *past, guess copied) error {
	x := p.read[len(p.read)-1]
	before, begin := p.first, x
	switch {
	case guess.sameTerm(x) && guess.message < x.message:
		begin = guess
	case guess.message > before.message && guess.message < x.message:
		before = guess
	}
	for end := begin.message; ; {
		y, err := r.next(ctx, p.election, before.message+1)
		if err != nil {
			return err
		}
		if y.sameTerm(x) && y.message < begin.message {
			begin = y
		}
		if y.message == 0 || y.message >= begin.message {
			begin.alone = y.message != begin.message // a replica that lags has answered
			break
		}
		before = y
		middle := before.message + (end-before.message)/2
		switch y, err = r.next(ctx, p.election, middle); {
		case err != nil:
			return err
		case y.sameTerm(x) && y.message < begin.message:
			begin, end = y, middle
		case y.message >= begin.message:
			end = middle
		case y.message > before.message:
			before = y
		}
	}
	if begin.message == x.message {
		p.read = p.read[:len(p.read)-1]
	}
	p.read = append(p.read, begin)
	if before.message == 0 {
		p.complete = true // the history begins there
		return nil
	}
	p.add(before)
	return nil
}

// historyOf returns a message of the history as a revision of the bucket. The source header is
// the server's: its last value counts, because the writer of a record may have set one, too.
//
// The copy may be late, and has the time at which it was stored. The record itself says when it was written.
func historyOf(election string, at time.Time, h nats.Header, data []byte) (electionStatus, error) {
	fields := strings.Fields(jsapi.LastValue(h, "Nats-Stream-Source"))
	if len(fields) < 2 {
		return electionStatus{}, fmt.Errorf("a message of the history has no source: %q", h)
	}
	revision, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return electionStatus{}, fmt.Errorf("a message of the history has no sequence: %w", err)
	}
	x := newElectionStatus(election, jsapi.SourcedEntry(revision, at, h, data))
	deleted := x.entry.Marker && x.holder.State != leader.HolderReleased // it may keep the record that was deleted
	if written := records.WrittenAt(data); !deleted && !written.IsZero() && written.Before(at) {
		x.entry.Created = written
		x = newElectionStatus(election, x.entry)
	}
	return x, nil
}

// lastRecords asks for the last record of each of some elections.
type lastRecords struct {
	Subjects []string  `json:"multi_last"`
	UpToTime time.Time `json:"up_to_time,omitzero"`
}

// next reads the first record of the election from a message of the history on.
func (r *historyReader) next(ctx context.Context, election string, message uint64) (copied, error) {
	return r.get(ctx, election, struct {
		From    uint64 `json:"seq"`
		Subject string `json:"next_by_subj"`
	}{message, r.subject(election)})
}

// get reads one record of an election. The zero value: there is none.
func (r *historyReader) get(ctx context.Context, election string, what any) (x copied, err error) {
	request, err := json.Marshal(what)
	if err != nil {
		return x, err
	}
	m, err := answer(ctx, r.s, func(ctx context.Context) (*nats.Msg, error) {
		return r.s.nc.RequestWithContext(ctx, r.direct(), request) // an end of the batch may follow, which is dropped
	})
	if err != nil {
		return x, err
	}
	return r.copyOf(election, m)
}

// copyOf returns the record of a message. The zero value: the message says that there is none.
func (r *historyReader) copyOf(election string, m *nats.Msg) (x copied, err error) {
	switch status := m.Header.Get("Status"); status {
	case "":
	case "404":
		return x, nil
	default:
		return x, fmt.Errorf("%w: the history cannot be read: %s %s", leader.ErrUnreachable, printable(status), printable(m.Header.Get("Description")))
	}
	created, err := time.Parse(time.RFC3339Nano, jsapi.LastValue(m.Header, jetstream.TimeStampHeaer))
	if err != nil {
		return x, err
	}
	message, err := strconv.ParseUint(jsapi.LastValue(m.Header, jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return x, err
	}
	status, err := historyOf(election, created, m.Header, m.Data)
	return copied{electionStatus: status, message: message}, err
}

func (r *historyReader) direct() string {
	return jsapi.APIPrefix(r.s.js.Options()) + "DIRECT.GET." + r.info.Config.Name
}

func (r *historyReader) subject(election string) string { return "$KV." + r.s.name + "." + election }
