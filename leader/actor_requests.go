package leader

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// requester sends the requests of the machine to the store, one at a time, and has the feed
// that they open. The replies go to the mailbox.
type requester struct {
	c      *Candidate
	place  backend.Place   // in the window
	values context.Context //nolint:containedctx // the values that every request carries

	asked  time.Duration      // when the request in flight, or the last, was sent, since the candidate began
	cancel context.CancelFunc // of the request in flight; nil if there is none
	writes struct {           // the context of one write after another, until one is given up
		ctx    context.Context //nolint:containedctx // made anew, it would be much of what a renewal costs
		cancel context.CancelFunc
	}
	opening         *opening // nil: there was none, or the machine has what it asked for
	feed            backend.Feed
	own             []byte // how the own session looks in a record
	feedNumber      uint32
	skipsOwnRecords atomic.Bool // own records that the feed delivers change nothing
}

// isOwnRecord reports whether a message of the feed is an own record that changes nothing. Each
// renewal comes back as one, and need not wake the candidate. A message that is left out
// while the candidate ceases to lead costs no more than one that the feed has lost.
func (r *requester) isOwnRecord(e backend.FeedEvent) bool {
	return r.skipsOwnRecords.Load() && e.Err == nil && !e.Reconnected && !e.Entry.Marker && bytes.Contains(e.Entry.Value, r.own)
}

// cancellable returns a context for a request. r.cancel ends it.
func (r *requester) cancellable(kind machine.RequestKind) context.Context {
	if kind != machine.ReqWrite {
		ctx, cancel := context.WithCancel(r.values)
		r.cancel = cancel
		return ctx
	}
	if w := &r.writes; w.ctx == nil || w.ctx.Err() != nil {
		w.ctx, w.cancel = context.WithCancel(r.values)
	}
	r.cancel = r.writes.cancel
	return r.writes.ctx
}

// send hands a request to the store. server is the server's time, in Unix nanoseconds; 0: not known. bucket is nil for an observer, which
// may create none, and in memory.
func (r *requester) send(req machine.Request, now time.Duration, server int64, bucket *natskv.Bucket) {
	if r.foretell(req.Kind, now, bucket) || r.take(req.Kind) {
		return
	}
	if bucket != nil && r.opens(req.Kind) {
		r.open(now, bucket)
		if r.take(req.Kind) {
			return
		}
	}
	ctx, box := r.cancellable(req.Kind), &r.c.box
	r.asked = now
	switch req.Kind {
	case machine.ReqSettings:
		settings := r.c.store.Settings
		if bucket != nil {
			settings = bucket.SettingsEnsured
		}
		settings(ctx, func(s backend.Settings, err error) {
			box.put(mail{in: machine.Input{Kind: machine.InSettings, Settings: s, Err: err}})
		})
	case machine.ReqFeed:
		r.feedNumber++
		number, instead := r.feedNumber, r.feed
		r.feed = nil
		r.c.store.Watch(ctx, r.c.election, instead, r.deliver(number), func(f backend.Feed, err error) {
			if !box.put(mail{in: machine.Input{Kind: machine.InFeed, Err: err}, feed: f}) && f != nil {
				f.Stop() // the candidate has ended without waiting any longer
			}
		})
	case machine.ReqRead:
		r.c.store.Get(ctx, r.c.election, func(e backend.Entry, err error) {
			box.put(mail{in: machine.Input{Kind: machine.InRead, Err: err}, entry: e})
		})
	case machine.ReqWrite:
		update := r.c.store.Update
		if req.Marker {
			update = r.c.store.Mark
		}
		value := req.Rec.Encode(server)
		stored := r.leaves(&req, value, server, bucket)
		update(ctx, r.c.election, value, req.Revision, func(revision uint64, err error) {
			if err == nil && stored != nil {
				stored(revision)
			}
			box.put(mail{in: machine.Input{Kind: machine.InWritten, Revision: revision, Err: err}})
		})
	case machine.ReqNone:
	}
}

// deliver returns what takes the events of a feed.
func (r *requester) deliver(number uint32) func(backend.FeedEvent) {
	return func(e backend.FeedEvent) {
		if !r.isOwnRecord(e) {
			r.c.box.put(feedMail(e, number))
		}
	}
}

// answered releases the context and the slot of the request in flight. Its reply has arrived
// now.
func (r *requester) answered(in *machine.Input, foretold bool, s *machine.Status, now time.Duration) {
	if foretold {
		r.cancel = nil
		r.c.window.Return(&r.place, backend.Reply{})
		return
	}
	if in.Kind != machine.InWritten { // the next write uses it, too
		r.cancel()
	}
	r.cancel = nil
	if r.foresight() == nil && (in.Kind == machine.InRead || in.Kind == machine.InWritten || in.Err != nil) { // the machine has what it needs, or asks again
		r.closeOpening()
	}
	r.c.window.Return(&r.place, ending(in.Err, s.Holds, now-r.asked, wire.RenewWait(s.Times.OrDefault().RenewInterval)))
}

// ending returns what the window learns from the end of a request: its time, a loss, or nothing.
// One replica may hang on reads while the others are prompt. A holder reads from the stream's
// leader, which should reply at once.
func ending(err error, holds bool, took, limit time.Duration) backend.Reply {
	switch {
	case err == nil || errors.Is(err, backend.ErrRefused):
		return backend.Reply{Took: max(took, 1), Limit: limit}
	case holds && errors.Is(err, ErrUnreachable):
		return backend.Reply{Took: max(took, 1), Limit: limit, Lost: true}
	default:
		return backend.Reply{}
	}
}

// keep keeps the feed that was opened for a candidate.
func (r *requester) keep(f backend.Feed, id, session string) {
	r.feed = f
	if f, ok := f.(*natskv.Feed); ok {
		f.Identify(id, session)
	}
}

// end releases what the requests have used. None is in flight any more, or no candidate
// waits for it.
func (r *requester) end() {
	if r.writes.cancel != nil {
		r.writes.cancel()
	}
	r.closeOpening()
	if r.feed != nil {
		r.feed.Stop()
	}
	r.c.window.Leave(&r.place)
}

// decoded returns the entry as the feed has decoded it, or nil.
func decoded(e backend.FeedEvent) *record.Observation {
	s, _ := e.Decoded.(*record.Observation)
	return s
}

func feedMail(e backend.FeedEvent, number uint32) mail {
	m := mail{in: machine.Input{Kind: machine.InHeard}, entry: e.Entry, seen: decoded(e), from: number}
	switch {
	case errors.Is(e.Err, ErrConnectionClosed):
		m.in.Kind = machine.InClosed
	case e.Err != nil:
		m.in.Kind, m.in.Err = machine.InFeedLost, e.Err
	case e.Reconnected:
		m.in.Kind = machine.InReconnected
	}
	return m
}
