package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/jsapi"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
)

const historyHelp = `It shows the terms of an election as a time line: the leader, from when to when, its
token, why its term ended, and when nobody led. The bucket must keep a history: see
bucket add --history.

--since takes a duration (6h, 7d), a time (03:12, 2026-11-22 03:12, RFC 3339) or "all".
A time without a zone is local. --at shows the leader of one moment.

The end of a lease that was not renewed is when other candidates could follow at the
earliest. The leader itself stops before that, by default at 80% of its lease.

The history can miss what was written while it did not follow the bucket, after an outage for
example. Such a time is shown as not known.

The exit code is 78 if the bucket keeps no history, 66 if it has nothing
about the election, and with --at 1 if nobody led, and 66 if that is not known.

  natsleader history billing --at 03:12
  natsleader history billing --since 7d --json`

type history struct {
	*globals
	election  string
	since, at string
	asJSON    bool
}

func registerHistory(app *fisk.Application, g *globals) {
	h := &history{globals: g}
	cmd := app.Command("history", "Show the leaders of the past").HelpLong(historyHelp)
	cmd.Arg("election", "Election to show").Required().HintAction(g.electionNames).StringVar(&h.election)
	cmd.Flag("since", "Begin there; a duration, a time, or all").Default("24h").PlaceHolder("TIME").StringVar(&h.since)
	cmd.Flag("at", "Show only the leader of that moment").PlaceHolder("TIME").StringVar(&h.at)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&h.asJSON)
	cmd.Action(func(*fisk.ParseContext) error { return h.run() })
}

func (h *history) run() error {
	if err := checkElection(h.election); err != nil {
		return err
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
		return usagef("%s is in the future", formatTime(from))
	}
	return h.inspect(func(ctx context.Context, s *inspector) error { return h.read(ctx, s, from, at) })
}

// read prints the history from a moment on, or who led at a moment if that is not zero.
func (h *history) read(ctx context.Context, s *inspector, from, at time.Time) error {
	r := historyReader{s: s, election: h.election}
	if err := r.open(ctx); err != nil {
		return err
	}
	line, err := r.read(ctx, from)
	switch {
	case err != nil:
		return err
	case len(line.Spans) == 0 && s.isGroup(ctx, h.election):
		return isNoElection(h.election)
	}
	for _, note := range r.notes {
		_, _ = fmt.Fprintf(h.errs(), "natsleader: %s\n", note)
	}
	if h.at != "" {
		return h.show(line.at(at), at, line.end)
	}
	return exitIf(len(line.Spans) == 0, exitUnknown, printResult(h.out(), h.asJSON, line, columns(line.table())))
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
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			y, m, d := now.Date()
			t = time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location())
			if t.After(now) {
				t = t.AddDate(0, 0, -1) // of yesterday
			}
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither a duration, as 6h or 7d, nor a time, as 03:12 or \"2026-11-22 03:12\"", text)
}

// historyReader reads the history of one election.
type historyReader struct {
	s        *inspector
	election string
	stream   jetstream.Stream
	info     *jetstream.StreamInfo
	newest   electionStatus // in the bucket; revision 0: not known
	copied   copied         // the last copy that was read
	blind    bool           // the bucket was not read
	missed   bool           // something is missing before it
	notes    []string       // about what is not certain
}

var errNoHistory = errors.New("keeps no history")

// open finds the stream, and reads the newest record from the bucket itself: the history may
// lag behind. The bucket may be gone.
func (r *historyReader) open(ctx context.Context) error {
	name := historyStream(r.s.name)
	err := r.s.within(ctx, func(ctx context.Context) (err error) {
		if r.stream, err = r.s.js.Stream(ctx, name); err == nil {
			r.info = r.stream.CachedInfo()
			r.s.clock = serverClock{server: r.info.TimeStamp, local: time.Now()}
		}
		return err
	})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	newest, unread := answer(ctx, r.s, func(ctx context.Context) (electionStatus, error) {
		if err := r.s.ask(ctx); err != nil {
			return electionStatus{}, err
		}
		return r.s.one(ctx, r.election)
	})
	r.newest = newest
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

// copied says which revision of the bucket the history has as which message. Between two messages nothing is missing if
// both numbers grow alike.
type copied struct{ revision, message uint64 }

// misses reports whether something is missing between the last copy that was read and this one.
func (r *historyReader) misses(next copied) bool {
	last := r.copied
	r.copied = next
	return last.revision != 0 && next.revision-last.revision != next.message-last.message
}

// historyLag is how far the history may be behind the bucket without a note.
const historyLag = 5 * time.Second

// read reads what was written from a moment on, and the state at that moment.
func (r *historyReader) read(ctx context.Context, from time.Time) (timeline, error) {
	b := timelineBuilder{election: r.election, from: from, blind: r.blind}
	x, found, err := r.first(ctx, from)
	for err == nil && found {
		b.add(x, r.missed)
		if err = r.skip(ctx, x, &b); err == nil {
			x, found, err = r.next(ctx, r.copied.message+1)
		}
	}
	if err != nil {
		return timeline{}, err
	}
	if x := r.newest; x.entry.Revision > b.last.entry.Revision {
		if behind := r.s.clock.now().Sub(x.entry.Created); behind > historyLag {
			r.note("the history is %s or more behind the bucket: changes before %s may be missing", formatAge(behind), formatTime(x.entry.Created))
		}
		b.add(x, r.copied.revision+1 != x.entry.Revision)
	}
	return b.finish(r.s.clock.now()), nil
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

// first reads the newest record of the election that the history had at a moment, or else the first one after it.
func (r *historyReader) first(ctx context.Context, at time.Time) (x electionStatus, found bool, err error) {
	if !at.IsZero() {
		x, found, err = r.get(ctx, struct {
			Subjects []string  `json:"multi_last"`
			UpTo     time.Time `json:"up_to_time"`
		}{[]string{r.subject()}, at.UTC()})
	}
	if err != nil || found {
		return x, found, err
	}
	return r.next(ctx, 1)
}

// next reads the first record of the election from a message of the history on.
func (r *historyReader) next(ctx context.Context, message uint64) (x electionStatus, found bool, err error) {
	return r.get(ctx, struct {
		From    uint64 `json:"seq"`
		Subject string `json:"next_by_subj"`
	}{message, r.subject()})
}

// skip goes on to the last record of the term that a record belongs to, and adds it. It searches: where two records are of
// the same term, so are those between them, which are renewals. There may be a million.
func (r *historyReader) skip(ctx context.Context, x electionStatus, b *timelineBuilder) error {
	if x.holder.State != leader.HolderLeading {
		return nil
	}
	last := r.copied
	for step, ahead := uint64(1), true; step > 0; {
		y, found, err := r.next(ctx, last.message+step)
		if err != nil {
			return err
		}
		if found && y.holder.State == leader.HolderLeading && y.holder.Token == x.holder.Token {
			x, last = y, r.copied
		} else {
			ahead = false
		}
		if ahead {
			step *= 2
		} else {
			step /= 2
		}
	}
	r.copied = last
	b.add(x, false)
	return nil
}

// get reads one record of the election.
func (r *historyReader) get(ctx context.Context, what any) (x electionStatus, found bool, err error) {
	request, err := json.Marshal(what)
	if err != nil {
		return x, false, err
	}
	m, err := answer(ctx, r.s, func(ctx context.Context) (*nats.Msg, error) {
		subject := jsapi.APIPrefix(r.s.js.Options()) + "DIRECT.GET." + r.info.Config.Name
		return r.s.nc.RequestWithContext(ctx, subject, request) // an end of the batch may follow, which is dropped
	})
	if err != nil {
		return x, false, err
	}
	switch status := m.Header.Get("Status"); status {
	case "":
	case "404":
		return x, false, nil
	default:
		return x, false, fmt.Errorf("%w: the history cannot be read: %s %s", leader.ErrUnreachable, printable(status), printable(m.Header.Get("Description")))
	}
	created, err := time.Parse(time.RFC3339Nano, jsapi.LastValue(m.Header, jetstream.TimeStampHeaer))
	if err != nil {
		return x, false, err
	}
	message, err := strconv.ParseUint(jsapi.LastValue(m.Header, jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return x, false, err
	}
	if x, err = historyOf(r.election, created, m.Header, m.Data); err != nil {
		return x, false, err
	}
	r.missed = r.misses(copied{x.entry.Revision, message})
	return x, true, nil
}

func (r *historyReader) subject() string { return "$KV." + r.s.name + "." + r.election }
