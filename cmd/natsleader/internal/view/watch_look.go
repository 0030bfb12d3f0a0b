package view

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

const (
	// LookEvery is the time from one look at the bucket to the next. A feed is silent when
	// its server hangs and when the bucket is deleted, so the feed alone proves nothing.
	LookEvery = 2 * time.Second
	// LookLimit is how long the server may take to answer a look.
	LookLimit = 2 * time.Second
	// countEvery is the time from one count of the candidates that stand to the next. It reads all keys of the roster.
	countEvery = 10 * time.Second
	// StreamsEvery is the time from one look at the streams of the history and of the roster to the next.
	StreamsEvery = 30 * time.Second
	// vanishedEvery is the least time for which a feed is kept from which keys are gone. A message that was purged or has
	// expired, a marker for example, goes without another one.
	vanishedEvery = 30 * time.Second
	// reopen is the least time from one attempt to open a feed to the next.
	reopen = time.Second
)

// look is the result of a look at the bucket.
type look struct {
	info    *jetstream.StreamInfo
	at      time.Time            // when the info came, by this host
	feed    jetstream.KeyWatcher // opened after the info; nil: none was asked for
	end     context.CancelFunc   // of the feed
	err     error
	who     *announced             // nil: not counted
	deny    bool                   // the roster may not be read
	streams map[string]StreamState // beside the bucket, by what they keep; nil: not asked for
}

// looking is a look in flight. It never blocks the watcher.
type looking struct {
	opening bool
	done    chan look
	cancel  context.CancelFunc
}

// abandon ends a look, and a feed that it still opens.
func (l *looking) abandon() {
	l.cancel()
	go func() {
		if r := <-l.done; r.feed != nil {
			_ = r.feed.Stop() // nobody reads it
			r.end()
		}
	}()
}

// request asks for the state of the bucket's stream, and then opens a feed if opening.
func (w *Watcher) request(ctx context.Context, limit time.Duration, opening bool) (r look) {
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r.info, r.err = inspect.Answer(asking, w.S, w.S.Info)
	r.at = time.Now()
	r.err = w.S.Heard(r.info, r.err)
	if r.err == nil && opening {
		r.feed, r.end, r.err = w.S.Watch(ctx, w.election)
	}
	return r
}

// count adds to a look who has announced itself in the roster.
func (w *Watcher) count(ctx context.Context, r *look) {
	ctx, cancel := context.WithTimeout(ctx, LookLimit)
	defer cancel()
	of := &inspect.Inspector{Bucket: w.S.Bucket, Roster: r.info.Config.Metadata[wire.RosterKey], Limit: LookLimit}
	who, err := inspect.Answer(ctx, w.S, func(ctx context.Context) (announced, error) { return readAnnounced(ctx, of) })
	if err == nil {
		r.who = &who
	}
	r.deny = errors.Is(err, leader.ErrPermission)
}

// StreamState is what is known of a stream that a bucket has beside its own.
type StreamState int8

// The states of such a stream. One that may not be read is not asked for again.
const (
	StreamLed        StreamState = iota + 1
	streamLeaderless             // or it is gone
	StreamUnread                 // a permission is missing
)

// streamsBeside returns the names of the streams that a bucket has beside its own, by what they keep.
func streamsBeside(conf jetstream.StreamConfig) map[string]string {
	all := make(map[string]string)
	if name := conf.Metadata[facts.HistoryKey]; name != "" {
		all["history"] = name
	}
	if name := conf.Metadata[wire.RosterKey]; name != "" {
		all["roster"] = "KV_" + name
	}
	return all
}

// askStreams adds to a look what is known of the streams beside the bucket, one after the other: a denial ends all that
// is asked at that time. was is what was known before.
func (w *Watcher) askStreams(ctx context.Context, r *look, was map[string]StreamState) {
	r.streams = make(map[string]StreamState)
	for what, name := range streamsBeside(r.info.Config) {
		if was[what] == StreamUnread {
			r.streams[what] = StreamUnread
			continue
		}
		limited, cancel := context.WithTimeout(ctx, LookLimit/2)
		stream, err := inspect.Answer(limited, w.S, func(ctx context.Context) (jetstream.Stream, error) { return w.S.Js.Stream(ctx, name) })
		cancel()
		switch {
		case errors.Is(err, leader.ErrPermission):
			r.streams[what] = StreamUnread
		case err != nil, stream.CachedInfo().Cluster != nil && inspect.StreamLeader(stream.CachedInfo()) == "":
			r.streams[what] = streamLeaderless
		default:
			r.streams[what] = StreamLed
		}
	}
}

// open opens a feed that begins with the current entries of all keys.
func (w *Watcher) open(ctx context.Context) error {
	if x := w.Elections[w.election]; x != nil { // the feed of one election has no note
		x.Now.Note = w.S.NoteOf(ctx, w.election)
		w.notes[w.election] = noted{Note: x.Now.Note}
	}
	r := w.look(ctx, w.S.Limit, true)
	if r.err == nil {
		w.install(r)
	}
	return r.err
}

// install replaces the feed.
func (w *Watcher) install(r look) {
	w.learn(r)
	w.seamless = w.Feed != nil && w.Complete && w.behind == 0 && w.streamAt == inspect.StreamLeader(r.info) && w.created.Equal(r.info.Created)
	w.closeFeed()
	w.Feed, w.end, w.opened, w.Complete, w.vanished = r.feed, r.end, r.info.TimeStamp, false, false
	w.seen, w.behind, w.streamAt, w.created = r.info.State.LastSeq, 0, inspect.StreamLeader(r.info), r.info.Created
}

// learn takes the server's time and the settings of the bucket from a look.
func (w *Watcher) learn(r look) {
	w.S.Clock = inspect.NewServerClock(r.info.TimeStamp, time.Since(r.at))
	w.bucket.See(r.info.Config)
	w.Info = r.info
	if r.who != nil || r.info.Config.Metadata[wire.RosterKey] == "" {
		w.who = r.who
	}
	if r.deny {
		w.counts = false
	}
	if r.streams != nil {
		w.Streams = r.streams
	}
}

// lookAgain begins a look when one is due, and handles the result of the one in flight.
func (w *Watcher) lookAgain(ctx context.Context) error {
	if w.looking != nil {
		select {
		case r := <-w.looking.done:
			opening := w.looking.opening
			w.looking = nil
			return w.lookedAt(r, opening)
		default:
			return nil
		}
	}
	opening := w.Feed == nil || w.leaseOver() || w.vanished
	since := time.Since(w.looked)
	if opening && since > reopen || since > LookEvery {
		w.looked = time.Now()
		life, cancel := context.WithCancel(ctx)
		l := &looking{opening: opening, done: make(chan look, 1), cancel: cancel}
		w.looking = l
		count := w.counts && time.Since(w.counted) > countEvery
		if count {
			w.counted = w.looked
		}
		asks, was := w.asks && time.Since(w.asked) > StreamsEvery, w.Streams
		if asks {
			w.asked = w.looked
		}
		go func() {
			r := w.look(life, LookLimit, l.opening)
			if count && r.err == nil {
				w.count(life, &r)
			}
			if asks && r.err == nil {
				w.askStreams(life, &r, was)
			}
			l.done <- r
		}()
	}
	return nil
}

// leaseOver reports whether a lease has ended since the feed was opened. A feed may be
// deaf, so the end of a lease is reported only after a second look, through a feed that
// was opened when the lease was over.
func (w *Watcher) leaseOver() bool {
	now := w.S.Clock.Now()
	for _, x := range w.Elections {
		if w.Complete && x.As.Held() {
			if over := x.Now.Expires(); over.Before(now) && over.After(w.opened) {
				return true
			}
		}
	}
	return false
}

// lookedAt handles the result of a look.
func (w *Watcher) lookedAt(r look, opening bool) error {
	if r.err != nil {
		w.Info = nil
	}
	switch {
	case errors.Is(r.err, leader.ErrNoBucket):
		w.closeFeed()
		w.Complete = true
		w.failing(w.gone())
		return w.report(w.all()...)
	case errors.Is(r.err, context.Canceled):
		return nil
	case r.err != nil:
		w.failing(r.err)
		return nil
	case opening:
		w.install(r)
		return nil
	}
	w.check(r)
	return nil
}

// check compares the feed with what the server says. A feed that has not delivered
// anything from one look to the next, although the bucket had more, is deaf.
func (w *Watcher) check(r look) {
	w.learn(r)
	last := r.info.State.LastSeq
	moved := inspect.StreamLeader(r.info) != w.streamAt // the feed's consumer may have been on the server that failed
	anew := !r.info.Created.Equal(w.created)            // the bucket was deleted, and the consumer with it
	switch {
	case w.Feed == nil:
	case moved || anew || w.behind > w.seen && w.seen == w.seenBefore:
		w.seamless = false
		w.closeFeed()
		w.looked = time.Time{} // open another at once
	case w.Complete:
		w.behind = 0
		w.vanished = w.maps != nil && last <= w.seen && r.info.TimeStamp.Sub(w.opened) > vanishedEvery && uint64(w.keys()) > r.info.State.NumSubjects //nolint:gosec // a number of keys
		if last <= w.seen || w.election != "" {                                                                                                       // of one election, the bucket's last revision tells nothing
			w.Fresh = r.info.TimeStamp
		} else {
			w.behind, w.seenBefore = last, w.seen
		}
		w.recovered()
	}
}
