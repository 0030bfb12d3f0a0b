package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/leader"
)

// historyLag is how far the history may be behind the bucket without a note.
const historyLag = 5 * time.Second

// read reads what was written from a moment on, and the state at that moment.
func (r *historyReader) read(ctx context.Context, from time.Time) (timeline, error) {
	b := timelineBuilder{election: r.election, from: from}
	if !from.IsZero() {
		x, found, err := r.asOf(ctx, from)
		switch {
		case err != nil:
			return timeline{}, err
		case found:
			b.add(x)
		}
	}
	if err := r.follow(ctx, from, &b); err != nil {
		return timeline{}, err
	}
	if x := r.newest; x.entry.Revision > b.last.entry.Revision {
		if behind := r.s.clock.now().Sub(x.entry.Created); behind > historyLag {
			r.note("the history is %s or more behind the bucket: changes before %s may be missing", formatAge(behind), formatTime(x.entry.Created))
		}
		b.add(x)
	}
	return b.finish(r.s.clock.now()), nil
}

// historyOf returns a message of the history as a revision of the bucket. The source header is
// the server's: its last value counts, because the writer of a record may have set one, too.
// direct says that a direct get has returned the message.
func historyOf(election string, at time.Time, h nats.Header, data []byte, direct bool) (electionStatus, error) {
	fields := strings.Fields(jsapi.LastValue(h, "Nats-Stream-Source"))
	if len(fields) < 2 {
		return electionStatus{}, fmt.Errorf("a message of the history has no source: %q", h)
	}
	revision, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return electionStatus{}, fmt.Errorf("a message of the history has no sequence: %w", err)
	}
	return newElectionStatus(election, jsapi.SourcedEntry(revision, at, h, data, direct)), nil
}

// asOf reads the newest record of the election that the history had at a moment.
func (r *historyReader) asOf(ctx context.Context, at time.Time) (x electionStatus, found bool, err error) {
	request, err := json.Marshal(struct {
		Subjects []string  `json:"multi_last"`
		UpTo     time.Time `json:"up_to_time"`
	}{[]string{r.subject()}, at.UTC()})
	if err != nil {
		return x, false, err
	}
	var m *nats.Msg
	err = r.s.within(ctx, func(ctx context.Context) (err error) {
		subject := jsapi.APIPrefix(r.s.js.Options()) + "DIRECT.GET." + r.info.Config.Name
		m, err = r.s.nc.RequestWithContext(ctx, subject, request) // an end of the batch follows, which is dropped
		return err
	})
	if err != nil {
		return x, false, err
	}
	switch status := m.Header.Get("Status"); status {
	case "":
	case "404":
		return x, false, nil
	default:
		return x, false, fmt.Errorf("%w: the history of that moment cannot be read: %s %s", leader.ErrUnreachable, printable(status), printable(m.Header.Get("Description")))
	}
	created, err := time.Parse(time.RFC3339Nano, jsapi.LastValue(m.Header, jetstream.TimeStampHeaer))
	if err != nil {
		return x, false, err
	}
	x, err = historyOf(r.election, created, m.Header, m.Data, true)
	return x, err == nil, err
}

func (r *historyReader) subject() string { return "$KV." + r.s.name + "." + r.election }

// follow reads the messages of the election from a moment on, until there are no more. The
// time for each is limited, and not the time for all: there may be millions.
func (r *historyReader) follow(ctx context.Context, from time.Time, b *timelineBuilder) error {
	conf := jetstream.OrderedConsumerConfig{FilterSubjects: []string{r.subject()}}
	if !from.IsZero() {
		conf.DeliverPolicy, conf.OptStartTime = jetstream.DeliverByStartTimePolicy, &from
	}
	var messages jetstream.MessagesContext
	pending := uint64(0)
	err := r.s.within(ctx, func(ctx context.Context) error {
		consumer, err := r.stream.OrderedConsumer(ctx, conf)
		if err != nil {
			return err
		}
		pending = consumer.CachedInfo().NumPending
		if pending > 0 {
			messages, err = consumer.Messages(jetstream.PullMaxMessages(4096))
		}
		return err
	})
	if err != nil || pending == 0 {
		return err
	}
	defer messages.Stop()
	for {
		var m jetstream.Msg
		err := r.s.within(ctx, func(ctx context.Context) (err error) {
			m, err = messages.Next(jetstream.NextContext(ctx))
			return err
		})
		if err != nil {
			return fmt.Errorf("%w: reading the history: %w", leader.ErrUnreachable, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		x, err := historyOf(r.election, meta.Timestamp, m.Headers(), m.Data(), false)
		if err != nil {
			return err
		}
		b.add(x)
		if meta.NumPending == 0 {
			return nil
		}
	}
}
