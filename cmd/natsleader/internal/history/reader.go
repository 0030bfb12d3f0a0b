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

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/internal/jsapi"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

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
	whole    bool                 // the history has nothing older
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
	if err == nil {
		err = r.beyond(ctx, p)
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
	x := p.Newest
	for i, y := range slices.Backward(p.read) {
		written := x.Entry.Created // by the server, when a copy of what has no date may be late
		if st := y.At(y.Entry.Created); i == 0 && (st == facts.Foreign || st == facts.Deleted) && y.Entry.Revision == x.Entry.Revision && written.Before(y.Entry.Created) {
			y.Entry.Created = written
		}
		b.add(y.ElectionStatus, last.misses(y))
		last = y
	}
	switch {
	case x.Entry.Revision == b.last.Entry.Revision && x.Entry.Created.After(b.last.Entry.Created):
		b.last.Entry.Created = x.Entry.Created // the server's own word, if the writer's clock was behind
	case r.lost() && !x.Entry.Created.After(r.begins()): // its copy, too
	case x.Entry.Revision > b.last.Entry.Revision:
		if behind := r.S.Clock.Now().Sub(x.Entry.Created); behind > max(Lag, r.behind) {
			r.behind = behind
			r.Note("the history is %s or more behind the bucket: changes before %s may be missing", front.FormatAge(behind), front.FormatZoned(x.Entry.Created))
		}
	}
	b.add(x, last.Entry.Revision+1 != x.Entry.Revision)
	t := b.finish(r.S.Clock.Now())
	r.dates(p, &t)
	return t
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
	return forEach(some, func(p *past) error { return r.search(ctx, p, guesses[p.Election]) })
}

// forEach reads about some elections at once.
func forEach(some []*past, read func(*past) error) error {
	var reads sync.WaitGroup
	failed := make([]error, len(some))
	for i, p := range some {
		reads.Go(func() { failed[i] = read(p) })
	}
	reads.Wait()
	return cmp.Or(failed...) // one outage fails them all
}

// mostBeyond is how many records of an election that were written before a moment are read.
const mostBeyond = 64

// beyond reads the records before the oldest that was read, back to one that is dated: a key that nobody led may have been
// written again and again, and only the first of these records shows since when nobody led.
func (r *Reader) beyond(ctx context.Context, p *past) error {
	p.whole = p.complete && p.first.message == 0
	for n := 0; n < mostBeyond && p.complete && !p.whole && len(p.read) > 0; n++ {
		x := p.read[len(p.read)-1]
		if st := x.At(x.Entry.Created); st == facts.Leading || st == facts.Released {
			return nil
		}
		y := copied{}
		if x.message > 1 {
			var err error
			if y, err = r.get(ctx, p.Election, LastRecords{Subjects: []string{r.subject(p.Election)}, UpTo: x.message - 1}); err != nil {
				return err
			}
		}
		if p.whole = y.message == 0; !p.whole {
			p.read = append(p.read, y)
		}
	}
	return nil
}

// lost reports whether the history has lost its first records to its limits.
func (r *Reader) lost() bool { return r.info.State.FirstSeq > 1 }

// begins returns since when the history has all.
func (r *Reader) begins() time.Time {
	switch st := r.info.State; {
	case !r.lost():
		return r.info.Created
	case st.Msgs == 0:
		return st.LastTime
	default:
		return st.FirstTime
	}
}

// settled is how long after its first record a history has copied what the bucket had before.
const settled = time.Minute

// dates sets what a time line knows of its begin. A key that has been written since the history began had no value before.
func (r *Reader) dates(p *past, t *Timeline) {
	t.begins, t.expires = r.begins(), r.S.TTL > 0
	if len(t.Spans) == 0 {
		return
	}
	x := &t.Spans[0]
	switch {
	case r.lost():
		t.begins = t.begins.Add(cmp.Or(x.Lease, wire.DefaultLease)) // a lease of then is over
	case p.whole && x.Since.Sub(r.info.State.FirstTime) > settled:
		x.Before = false
	}
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
	UpTo     uint64    `json:"up_to_seq,omitempty"` // a message of the history
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
	m, err := answer(ctx, r, inspect.OfOne, func(ctx context.Context) (*nats.Msg, error) {
		return r.S.Nc.RequestWithContext(ctx, r.direct(), request) // an end of the batch may follow, which is dropped
	})
	if err != nil {
		return x, err
	}
	return r.copyOf(election, m)
}

// answer returns the answer of a replica of the history.
func answer[T any](ctx context.Context, r *Reader, tries int, ask func(context.Context) (T, error)) (T, error) {
	return inspect.Answer(ctx, r.S, func(ctx context.Context) (T, error) { return inspect.Again(ctx, r.S, r.info.Config.Name, tries, ask) })
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
