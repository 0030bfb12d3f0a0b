// Package history tells who led when.
package history

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

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
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
	*front.Globals
	election  string         // empty: all, or those that match names
	names     *regexp.Regexp // nil: all
	since, at string
	asJSON    bool
}

// Register adds the command history.
func Register(app *fisk.Application, g *front.Globals) {
	h := &history{Globals: g}
	cmd := app.Command("history", "Show the leaders of the past").HelpLong(historyHelp)
	cmd.Arg("election", "Election to show, or a pattern with *; all of the bucket by default").HintAction(func() []string { return inspect.ElectionNames(g) }).StringVar(&h.election)
	cmd.Flag("since", "Begin there; a duration, a time, or all").Default("24h").PlaceHolder("TIME").StringVar(&h.since)
	cmd.Flag("at", "Show only the leader of that moment").PlaceHolder("TIME").StringVar(&h.at)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&h.asJSON)
	cmd.Action(func(*fisk.ParseContext) error { return h.run() })
}

func (h *history) run() error {
	switch {
	case strings.Contains(h.election, "*"):
		var err error
		if h.names, err = view.PatternOf(h.election); err != nil {
			return err
		}
		h.election = ""
	case h.election != "":
		if err := inspect.CheckElection(h.election); err != nil {
			return err
		}
	}
	now := time.Now()
	from, err := parseMoment(h.since, now)
	if err != nil {
		return front.Usagef("--since %w", err)
	}
	var at time.Time
	if h.at != "" {
		if at, err = parseMoment(h.at, now); err != nil || at.IsZero() {
			return front.Usagef("--at %q is no moment: give a time, or a duration before now", h.at)
		}
		from = at
	}
	if from.After(now) {
		return front.Usagef("%s is in the future", front.FormatZoned(from))
	}
	return inspect.Do(h.Globals, func(ctx context.Context, s *inspect.Inspector) error {
		if h.election == "" {
			return h.readAll(ctx, s, from, at)
		}
		return h.read(ctx, s, from, at)
	})
}

// readAll prints what has changed in all elections from a moment on, or who led them at a moment if that is not zero.
func (h *history) readAll(ctx context.Context, s *inspect.Inspector, from, at time.Time) error {
	r := Reader{S: s, names: h.names}
	found, err := r.OpenAll(ctx)
	if err != nil {
		return err
	}
	if h.at != "" {
		m, unread := r.readAt(ctx, found, at)
		if unread != nil {
			return unread
		}
		h.print(r.Notes)
		code := m.code()
		return front.ExitIf(code != 0, code, front.PrintResult(h.Out(), h.asJSON, m, front.Columns(m.table(s.Clock.Now()))))
	}
	all, err := r.ReadAll(ctx, found, from)
	if err != nil {
		return err
	}
	h.print(r.Notes)
	return front.PrintResult(h.Out(), h.asJSON, all, front.Columns(all.table(s.Clock.Now())))
}

// print prints notes about what is not certain.
func (h *history) print(notes []string) {
	for _, note := range notes {
		_, _ = fmt.Fprintf(h.Errs(), "natsleader: %s\n", note)
	}
}

// read prints the history from a moment on, or who led at a moment if that is not zero.
func (h *history) read(ctx context.Context, s *inspect.Inspector, from, at time.Time) error {
	r := Reader{S: s}
	p, err := r.OpenFor(ctx, h.election)
	if err != nil {
		return err
	}
	line, err := r.Read(ctx, p, from)
	switch {
	case err != nil:
		return err
	case len(line.Spans) == 0 && s.IsGroup(ctx, h.election):
		return inspect.IsNoElection(h.election)
	}
	h.print(r.Notes)
	if h.at != "" {
		return h.show(line.At(at), at, line.End)
	}
	return front.ExitIf(len(line.Spans) == 0, front.ExitUnknown, front.PrintResult(h.Out(), h.asJSON, line, front.Columns(line.Table(s.Clock.Now()))))
}

// show prints who led at a moment.
func (h *history) show(x Span, at, now time.Time) error {
	code := front.ExitFailed
	if x.State == "" || x.State == StateUnknown {
		code = front.ExitUnknown
	}
	return front.ExitIf(x.State != facts.Leading, code, front.PrintResult(h.Out(), h.asJSON, x, []string{x.sentence(h.election, at, now)}))
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
	for _, layout := range []string{time.RFC3339Nano, front.ShownWithOffset} {
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
		return time.Time{}, fmt.Errorf("%s was twice, because clocks were set back: give %q or %q", shown, all[0].Format(front.ShownWithOffset), all[1].Format(front.ShownWithOffset))
	}
	return all[0], nil
}

// Reader reads the history of a bucket.
type Reader struct {
	S      *inspect.Inspector
	stream jetstream.Stream
	info   *jetstream.StreamInfo
	blind  bool           // the bucket was not read
	gone   bool           // the bucket does not exist, so only the history has the newest records
	Notes  []string       // about what is not certain
	behind time.Duration  // for how long the history misses a record, at least
	names  *regexp.Regexp // of elections and groups; nil: all
	Most   time.Duration  // of reading about one election; 0: as long as it takes
}

// The errors of a bucket whose changes are not recorded.
var (
	ErrNoHistory = errors.New("keeps no history")
	ErrLost      = errors.New("is lost")
)

// open finds the stream, and calls newest, which reads the newest records from the bucket itself: the history may
// lag behind. The bucket may be gone.
func (r *Reader) open(ctx context.Context, newest func(context.Context) error) error {
	name := facts.HistoryStream(r.S.Name)
	err := r.S.Within(ctx, func(ctx context.Context) error {
		stream, err := r.S.Js.Stream(ctx, name)
		if err == nil {
			r.stream, r.info = stream, stream.CachedInfo()
			r.S.Clock = inspect.NewServerClock(r.info.TimeStamp, 0)
		}
		return inspect.AboutOne(name, err)
	})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	known := false // whether the bucket keeps a history
	unread := r.S.Within(ctx, func(ctx context.Context) error {
		if unasked := r.S.Ask(ctx); unasked != nil {
			return unasked
		}
		known = true
		return newest(ctx)
	})
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) && (!known || errors.Is(unread, leader.ErrNoBucket)):
		return unread
	case errors.Is(err, jetstream.ErrStreamNotFound) && r.S.History == name:
		return front.ExitError{Code: front.ExitBucket, Err: fmt.Errorf("the history of bucket %s %w: stream %s does not exist; `natsleader bucket add %s --history 30d` makes it", r.S.Name, ErrLost, name, r.S.Name)}
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return front.ExitError{Code: front.ExitBucket, Err: fmt.Errorf("bucket %s %w: `natsleader bucket add %s --history 30d` lets it begin", r.S.Name, ErrNoHistory, r.S.Name)}
	case r.info.Config.Metadata[inspect.HistoryOfKey] != r.S.Name:
		return front.ExitError{Code: front.ExitBucket, Err: fmt.Errorf("stream %s is no history of bucket %s", name, r.S.Name)}
	case errors.Is(unread, leader.ErrNoBucket):
		r.gone = true
		r.Note("bucket %s does not exist any more: this is what its history has kept", r.S.Name)
	case unread != nil:
		r.blind = true
		r.Note("the bucket itself was not read, so the newest changes may be missing: %s", front.ErrorText(unread))
	}
	return nil
}

// Note adds a note about what the history does not have.
func (r *Reader) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// copied is a record in the history. The zero value: none.
type copied struct {
	facts.ElectionStatus
	message uint64
	alone   bool // what came right before it is not known
}

// misses reports whether something is missing between two records. Nothing is if both numbers grow alike.
func (x copied) misses(next copied) bool {
	return x.message != 0 && (next.alone || next.Entry.Revision-x.Entry.Revision != next.message-x.message)
}

// sameTerm reports whether two records are of the same term. Then all between them are, too.
func (x copied) sameTerm(y copied) bool {
	return x.Holder.State == leader.HolderLeading && y.Holder.State == leader.HolderLeading &&
		x.Holder.Token == y.Holder.Token && x.Holder.ID == y.Holder.ID
}

// past is what was read about an election, from now back to a moment. It has the first and the last record of each term,
// and each other record.
type past struct {
	Election string
	Newest   facts.ElectionStatus // in the bucket; revision 0: not known
	first    copied               // the last one of the history before the moment
	read     []copied             // the newest first
	complete bool                 // up to the first
	cut      bool                 // newest is not the newest in the bucket, but the last that was asked for
	lags     bool                 // newer records than those that were read may be in the history, and are not in the bucket
}

// Lag is how far the history may be behind the bucket without a note.
const Lag = 5 * time.Second

// OpenFor is open for one election.
func (r *Reader) OpenFor(ctx context.Context, election string) (*past, error) {
	p := past{Election: election}
	return &p, r.open(ctx, func(ctx context.Context) (err error) {
		p.Newest, err = r.S.One(ctx, election)
		return err
	})
}

// Read reads what was written about an election from a moment on, and the state at that moment.
func (r *Reader) Read(ctx context.Context, p *past, from time.Time) (line Timeline, err error) {
	subjects := []string{r.subject(p.Election)}
	if !from.IsZero() {
		p.first, err = r.get(ctx, p.Election, LastRecords{Subjects: subjects, UpToTime: from.UTC()})
	}
	var last copied
	if err == nil {
		err = r.last(ctx, subjects, []*past{p}, func(x copied) { last = x })
	}
	begun := time.Now()
	for p.begin(last); err == nil && !p.complete; err = r.back(ctx, []*past{p}) {
		if r.Most > 0 && time.Since(begun) >= r.Most {
			from = r.leaveOut(p)
			break
		}
	}
	if err != nil {
		return Timeline{}, err
	}
	return r.Line(p, from), nil
}

// last reads the last record of each of some elections. Of a bucket that is gone, a replica of the history that lags does not
// show what its records were in the end.
func (r *Reader) last(ctx context.Context, subjects []string, of []*past, take func(copied)) error {
	upTo, err := r.each(ctx, LastRecords{Subjects: subjects}, take)
	if err != nil || !r.gone || upTo == 0 || upTo >= r.info.State.LastSeq {
		return err
	}
	for _, p := range of {
		p.lags = true
	}
	if note := "a server that lags behind the others has answered, so the newest changes may be missing: ask again"; !slices.Contains(r.Notes, note) {
		r.Note("%s", note)
	}
	return nil
}

// leaveOut notes that not all was read, and returns since when all is known. The past is the one that is known least.
func (r *Reader) leaveOut(p *past) time.Time {
	from := p.reached().Add(1) // where two changes are of that time, one may not be read
	r.Note("there are too many changes to read all: those before %s are left out", front.FormatZoned(from))
	return from
}

// Line returns the time line of what was read.
func (r *Reader) Line(p *past, from time.Time) Timeline {
	b := timelineBuilder{election: p.Election, from: from, blind: r.blind || p.lags}
	var last copied
	for _, x := range slices.Backward(p.read) {
		b.add(x.ElectionStatus, last.misses(x))
		last = x
	}
	x := p.Newest
	switch {
	case x.Entry.Revision == b.last.Entry.Revision && x.Entry.Created.After(b.last.Entry.Created):
		b.last.Entry.Created = x.Entry.Created // the server's own word, if the writer's clock was behind
	case x.Entry.Revision > b.last.Entry.Revision:
		if behind := r.S.Clock.Now().Sub(x.Entry.Created); behind > max(Lag, r.behind) {
			r.behind = behind
			r.Note("the history is %s or more behind the bucket: changes before %s may be missing", front.FormatAge(behind), front.FormatZoned(x.Entry.Created))
		}
	}
	b.add(x, last.Entry.Revision+1 != x.Entry.Revision)
	return b.finish(r.S.Clock.Now())
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
func (r *Reader) back(ctx context.Context, some []*past) error {
	at, subjects, guesses := some[0].reached(), []string{}, make(map[string]copied)
	for _, p := range some {
		if t := p.reached(); t.Before(at) {
			at = t
		}
		subjects = append(subjects, r.subject(p.Election))
	}
	_, err := r.each(ctx, LastRecords{Subjects: subjects, UpToTime: at.UTC()}, func(x copied) { guesses[x.Election] = x })
	if err != nil {
		return err
	}
	var searches sync.WaitGroup
	failed := make([]error, len(some))
	for i, p := range some {
		searches.Go(func() { failed[i] = r.search(ctx, p, guesses[p.Election]) })
	}
	searches.Wait()
	return cmp.Or(failed...) // one outage fails them all
}

// search finds the first record of the term of the oldest that was read, and the one before it. The guess is that one, if
// nothing was written since, and the history was not late.
func (r *Reader) search(ctx context.Context, p *past, guess copied) error {
	x := p.read[len(p.read)-1]
	before, begin := p.first, x
	switch {
	case guess.sameTerm(x) && guess.message < x.message:
		begin = guess
	case guess.message > before.message && guess.message < x.message:
		before = guess
	}
	for end := begin.message; ; {
		y, err := r.next(ctx, p.Election, before.message+1)
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
		switch y, err = r.next(ctx, p.Election, middle); {
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
func historyOf(election string, at time.Time, h nats.Header, data []byte) (facts.ElectionStatus, error) {
	fields := strings.Fields(jsapi.LastValue(h, "Nats-Stream-Source"))
	if len(fields) < 2 {
		return facts.ElectionStatus{}, fmt.Errorf("a message of the history has no source: %q", h)
	}
	revision, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return facts.ElectionStatus{}, fmt.Errorf("a message of the history has no sequence: %w", err)
	}
	x := facts.NewElectionStatus(election, jsapi.SourcedEntry(revision, at, h, data))
	deleted := x.Entry.Marker && x.Holder.State != leader.HolderReleased // it may keep the record that was deleted
	if written := records.WrittenAt(data); !deleted && !written.IsZero() && written.Before(at) {
		x.Entry.Created = written
		x = facts.NewElectionStatus(election, x.Entry)
	}
	return x, nil
}

// LastRecords asks for the last record of each of some elections.
type LastRecords struct {
	Subjects []string  `json:"multi_last"`
	UpToTime time.Time `json:"up_to_time,omitzero"`
}

// next reads the first record of the election from a message of the history on.
func (r *Reader) next(ctx context.Context, election string, message uint64) (copied, error) {
	return r.get(ctx, election, struct {
		From    uint64 `json:"seq"`
		Subject string `json:"next_by_subj"`
	}{message, r.subject(election)})
}

// get reads one record of an election. The zero value: there is none.
func (r *Reader) get(ctx context.Context, election string, what any) (x copied, err error) {
	request, err := json.Marshal(what)
	if err != nil {
		return x, err
	}
	m, err := answer(ctx, r, func(ctx context.Context) (*nats.Msg, error) {
		return r.S.Nc.RequestWithContext(ctx, r.direct(), request) // an end of the batch may follow, which is dropped
	})
	if err != nil {
		return x, err
	}
	return r.copyOf(election, m)
}

// answer returns the answer of a replica of the history.
func answer[T any](ctx context.Context, r *Reader, ask func(context.Context) (T, error)) (T, error) {
	return inspect.Answer(ctx, r.S, func(ctx context.Context) (T, error) { return inspect.Again(ctx, r.S, r.info.Config.Name, ask) })
}

// copyOf returns the record of a message. The zero value: the message says that there is none.
func (r *Reader) copyOf(election string, m *nats.Msg) (x copied, err error) {
	switch status := m.Header.Get("Status"); status {
	case "":
	case "404":
		return x, nil
	default:
		return x, fmt.Errorf("%w: the history cannot be read: %s %s", leader.ErrUnreachable, front.Printable(status), front.Printable(m.Header.Get("Description")))
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
	return copied{ElectionStatus: status, message: message}, err
}

func (r *Reader) direct() string {
	return jsapi.APIPrefix(r.S.Js.Options()) + "DIRECT.GET." + r.info.Config.Name
}

func (r *Reader) subject(election string) string { return "$KV." + r.S.Name + "." + election }
