package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

const (
	// lookEvery is the time from one look at the bucket to the next. A feed is silent when
	// its server hangs and when the bucket is deleted, so the feed alone proves nothing.
	lookEvery = 2 * time.Second
	// lookLimit is how long the server may take to answer a look.
	lookLimit = 2 * time.Second
	// countEvery is the time from one count of the candidates that stand to the next. It reads all keys of the roster.
	countEvery = 10 * time.Second
	// streamsEvery is the time from one look at the streams of the history and of the roster to the next.
	streamsEvery = 30 * time.Second
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
	streams map[string]streamState // beside the bucket, by what they keep; nil: not asked for
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
func (w *watcher) request(ctx context.Context, limit time.Duration, opening bool) (r look) {
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r.info, r.err = answer(asking, w.s, w.s.info)
	r.at = time.Now()
	r.err = w.s.heard(r.info, r.err)
	if r.err == nil && opening {
		r.feed, r.end, r.err = w.s.watch(ctx, w.election)
	}
	return r
}

// count adds to a look who has announced itself in the roster.
func (w *watcher) count(ctx context.Context, r *look) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	of := &inspector{js: w.s.js, roster: r.info.Config.Metadata[wire.RosterKey]}
	who, err := answer(ctx, w.s, of.announced)
	if err == nil {
		r.who = &who
	}
	r.deny = errors.Is(err, leader.ErrPermission)
}

// streamState is what is known of a stream that a bucket has beside its own.
type streamState int8

const (
	streamLed        streamState = iota + 1
	streamLeaderless             // or it is gone
	streamUnread                 // a permission is missing, so it is not asked for again
)

// streamsBeside returns the names of the streams that a bucket has beside its own, by what they keep.
func streamsBeside(conf jetstream.StreamConfig) map[string]string {
	all := make(map[string]string)
	if name := conf.Metadata[historyKey]; name != "" {
		all["history"] = name
	}
	if name := conf.Metadata[wire.RosterKey]; name != "" {
		all["roster"] = "KV_" + name
	}
	return all
}

// askStreams adds to a look what is known of the streams beside the bucket, one after the other: a denial ends all that
// is asked at that time. was is what was known before.
func (w *watcher) askStreams(ctx context.Context, r *look, was map[string]streamState) {
	r.streams = make(map[string]streamState)
	for what, name := range streamsBeside(r.info.Config) {
		if was[what] == streamUnread {
			r.streams[what] = streamUnread
			continue
		}
		limited, cancel := context.WithTimeout(ctx, lookLimit/2)
		stream, err := answer(limited, w.s, func(ctx context.Context) (jetstream.Stream, error) { return w.s.js.Stream(ctx, name) })
		cancel()
		switch {
		case errors.Is(err, leader.ErrPermission):
			r.streams[what] = streamUnread
		case err != nil, stream.CachedInfo().Cluster != nil && streamLeader(stream.CachedInfo()) == "":
			r.streams[what] = streamLeaderless
		default:
			r.streams[what] = streamLed
		}
	}
}

// open opens a feed that begins with the current entries of all keys.
func (w *watcher) open(ctx context.Context) error {
	if x := w.elections[w.election]; x != nil { // the feed of one election has no note
		x.now.note = w.s.noteOf(ctx, w.election)
		w.notes[w.election] = x.now.note
	}
	r := w.look(ctx, w.s.limit, true)
	if r.err == nil {
		w.install(r)
	}
	return r.err
}

// install replaces the feed.
func (w *watcher) install(r look) {
	w.learn(r)
	w.seamless = w.feed != nil && w.complete && w.behind == 0 && w.streamAt == streamLeader(r.info) && w.created.Equal(r.info.Created)
	w.closeFeed()
	w.feed, w.end, w.opened, w.complete = r.feed, r.end, r.info.TimeStamp, false
	w.seen, w.behind, w.streamAt, w.created = r.info.State.LastSeq, 0, streamLeader(r.info), r.info.Created
}

// learn takes the server's time and the settings of the bucket from a look.
func (w *watcher) learn(r look) {
	w.s.clock = newServerClock(r.info.TimeStamp, time.Since(r.at))
	w.bucket.see(r.info.Config)
	w.info = r.info
	if r.who != nil || r.info.Config.Metadata[wire.RosterKey] == "" {
		w.who = r.who
	}
	if r.deny {
		w.counts = false
	}
	if r.streams != nil {
		w.streams = r.streams
	}
}

func streamLeader(info *jetstream.StreamInfo) string {
	if info.Cluster == nil {
		return ""
	}
	return info.Cluster.Leader
}

// lookAgain begins a look when one is due, and handles the result of the one in flight.
func (w *watcher) lookAgain(ctx context.Context) error {
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
	opening := w.feed == nil || w.leaseOver()
	since := time.Since(w.looked)
	if opening && since > reopen || since > lookEvery {
		w.looked = time.Now()
		life, cancel := context.WithCancel(ctx)
		l := &looking{opening: opening, done: make(chan look, 1), cancel: cancel}
		w.looking = l
		count := w.counts && time.Since(w.counted) > countEvery
		if count {
			w.counted = w.looked
		}
		asks, was := w.asks && time.Since(w.asked) > streamsEvery, w.streams
		if asks {
			w.asked = w.looked
		}
		go func() {
			r := w.look(life, lookLimit, l.opening)
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
func (w *watcher) leaseOver() bool {
	now := w.s.clock.now()
	for _, x := range w.elections {
		if w.complete && x.as.held() {
			if over := x.now.expires(); over.Before(now) && over.After(w.opened) {
				return true
			}
		}
	}
	return false
}

// lookedAt handles the result of a look.
func (w *watcher) lookedAt(r look, opening bool) error {
	switch {
	case errors.Is(r.err, leader.ErrNoBucket):
		w.closeFeed()
		w.complete = true
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
func (w *watcher) check(r look) {
	w.learn(r)
	last := r.info.State.LastSeq
	moved := streamLeader(r.info) != w.streamAt // the feed's consumer may have been on the server that failed
	anew := !r.info.Created.Equal(w.created)    // the bucket was deleted, and the consumer with it
	switch {
	case w.feed == nil:
	case moved || anew || w.behind > w.seen && w.seen == w.seenBefore:
		w.seamless = false
		w.closeFeed()
		w.looked = time.Time{} // open another at once
	case w.complete:
		w.behind = 0
		if last <= w.seen || w.election != "" { // of one election, the bucket's last revision tells nothing
			w.fresh = r.info.TimeStamp
		} else {
			w.behind, w.seenBefore = last, w.seen
		}
		w.recovered()
	}
}
