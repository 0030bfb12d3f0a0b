package leadertest

import (
	"maps"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// fault is one line of a script: what happens to the next n requests.
type fault struct {
	what  what
	n     int // negative: until Heal
	named bool
	err   error
	after time.Duration
}

type what int

const (
	none what = iota
	loseRequest
	loseReply
	applyLate
	refuse
	fails
	staleRead
)

// next takes the fault of the next request of a kind from its script. The lock
// is held.
func (l *Link) next(k kind) fault {
	script := l.scripts[k]
	if len(script) == 0 {
		return fault{}
	}
	f := script[0]
	switch {
	case f.n > 1:
		script[0].n--
	case f.n == 1:
		l.scripts[k] = script[1:]
	}
	return f
}

// script adds a line to the script of a kind.
func (l *Link) script(who string, k kind, f fault) {
	defer l.store.lock("Link." + who)()
	if f.n != 0 {
		l.scripts[k] = append(l.scripts[k], f)
	}
}

// The scripts. Faults of writes form one list. They apply in the order in which they were
// added, each to its n writes. The same holds for reads, settings and watches. Requests of
// a [Guard] and its [Writer] count by their kind, too: a raise and each try of a Writer are
// writes, and a check is a request for the settings.

// PassWrites lets the next n writes succeed.
func (l *Link) PassWrites(n int) { l.script("PassWrites", writes, fault{what: none, n: n}) }

// LoseWrites loses the next n writes on their way to the store. They are not
// applied, and fail with [leader.ErrUnreachable] when their context ends. A
// negative n means until [Link.Heal], here and below.
func (l *Link) LoseWrites(n int) { l.script("LoseWrites", writes, fault{what: loseRequest, n: n}) }

// LoseReplies loses the replies to the next n writes. The writes are applied, but
// fail with [leader.ErrUnreachable] when their context ends.
func (l *Link) LoseReplies(n int) { l.script("LoseReplies", writes, fault{what: loseReply, n: n}) }

// ApplyLate makes the next n writes reach the store only when d has passed,
// whether or not their sender has given up or is cut off by then. Their replies
// are lost as with [Link.LoseReplies].
func (l *Link) ApplyLate(n int, d time.Duration) {
	l.script("ApplyLate", writes, fault{what: applyLate, n: n, after: d})
}

// Refuse makes the store refuse the next n writes, although their condition may hold. If
// named is set, the answer names the last revision of the key, as code 10071 does and
// 10164 does not.
func (l *Link) Refuse(n int, named bool) {
	l.script("Refuse", writes, fault{what: refuse, n: n, named: named})
}

// FailWrites answers the next n writes with err and does not apply them.
func (l *Link) FailWrites(n int, err error) {
	l.script("FailWrites", writes, fault{what: fails, n: n, err: err})
}

// LoseReads loses the next n reads. They fail with [leader.ErrUnreachable] when
// their context ends.
func (l *Link) LoseReads(n int) { l.script("LoseReads", reads, fault{what: loseRequest, n: n}) }

// StaleReads answers the next n reads with the message before the newest, as a
// replica that lags may do.
func (l *Link) StaleReads(n int) { l.script("StaleReads", reads, fault{what: staleRead, n: n}) }

// FailReads answers the next n reads with err.
func (l *Link) FailReads(n int, err error) {
	l.script("FailReads", reads, fault{what: fails, n: n, err: err})
}

// FailSettings answers the next n requests for the settings, or checks of a
// [Guard], with err.
func (l *Link) FailSettings(n int, err error) {
	l.script("FailSettings", settings, fault{what: fails, n: n, err: err})
}

// FailWatches answers the next n tries to open a feed with err.
func (l *Link) FailWatches(n int, err error) {
	l.script("FailWatches", watches, fault{what: fails, n: n, err: err})
}

// LoseFeed loses the next n messages to the link's feeds.
func (l *Link) LoseFeed(n int) {
	defer l.store.lock("Link.LoseFeed")()
	l.feedLoss = n
}

// DeafFeeds makes the link's open feeds deaf for good. The feeds report no error. A
// feed that is opened later works.
func (l *Link) DeafFeeds() {
	defer l.store.lock("Link.DeafFeeds")()
	for _, f := range l.store.feeds {
		if f.link == l {
			f.deaf = true
		}
	}
}

// EndFeeds ends the link's open feeds with err.
func (l *Link) EndFeeds(err error) {
	defer l.store.lock("Link.EndFeeds")()
	l.endFeeds(err)
}

// Delay makes every message to and from this link take d longer from now on:
// a round trip 2d.
func (l *Link) Delay(d time.Duration) {
	defer l.store.lock("Link.Delay")()
	l.delay = d
}

// DelayFeed makes messages to the link's feeds and views take d longer from now
// on, so that replies overtake them.
func (l *Link) DelayFeed(d time.Duration) {
	defer l.store.lock("Link.DelayFeed")()
	l.feedDelay = d
}

// Cut breaks the connection. Messages on their way are lost. Requests, those under way
// included, fail with [leader.ErrUnreachable] at once. Feeds and views receive nothing.
// [Link.Restore] ends the cut.
func (l *Link) Cut() {
	defer l.store.lock("Link.Cut")()
	if !l.closed && !l.cut {
		l.breakOff()
		l.cut = true
		l.rejectAll(l.isCut())
	}
}

// Freeze makes the link a black hole that looks alive. Requests, replies and
// feed messages are held up, and requests fail with [leader.ErrUnreachable] when
// their context ends. [Link.Thaw] delivers the messages that are held up,
// [Link.Restore] drops them.
func (l *Link) Freeze() {
	defer l.store.lock("Link.Freeze")()
	l.frozen = !l.closed && !l.cut
}

// Thaw ends [Link.Freeze]. All messages that were held up arrive now, in order,
// although their senders may have given up. Feeds report no reconnection.
func (l *Link) Thaw() {
	defer l.store.lock("Link.Thaw")()
	l.frozen = false
	for _, arrive := range l.held {
		l.store.time.after(0, arrive)
	}
	l.held = nil
}

// Isolate cuts the server of the link off from all others. The server keeps the connection, and
// answers reads with what is stored now, and requests that are scripted to fail with their error. It
// answers nothing else, feeds and views receive nothing, and a write is never applied. A candidate with [leader.Config].ForceReconnect ends that itself;
// [Link.Restore] does, too.
func (l *Link) Isolate() {
	defer l.store.lock("Link.Isolate")()
	if l.closed || l.cut || l.past != nil {
		return
	}
	l.breakOff()
	l.past = maps.Clone(l.store.keys)
}

// Restore ends [Link.Cut], [Link.Freeze] and [Link.Isolate] with a new connection. Messages that were
// held up are lost, open feeds report [backend.FeedEvent].Reconnected, and views of the
// roster end with [leader.ErrUnreachable]. Restore does nothing to a link that works, or
// that was closed.
func (l *Link) Restore() {
	defer l.store.lock("Link.Restore")()
	l.restore()
}

// Reconnect is [Link.Cut] and [Link.Restore] at the same instant.
func (l *Link) Reconnect() {
	l.Cut()
	l.Restore()
}

// Close closes the connection for good, as the application itself would.
// Requests, those under way included, fail with [leader.ErrConnectionClosed], and
// the feeds and views end with it.
func (l *Link) Close() {
	defer l.store.lock("Link.Close")()
	if l.closed {
		return
	}
	l.breakOff()
	l.endFeeds(leader.ErrConnectionClosed)
	l.endViews(leader.ErrConnectionClosed)
	l.closed = true
	l.rejectAll(leader.ErrConnectionClosed)
}

// Heal ends all faults of the link that can end: scripts, delays, lost feed
// messages, and the faults that [Link.Restore] ends.
func (l *Link) Heal() {
	defer l.store.lock("Link.Heal")()
	clear(l.scripts[:])
	l.delay, l.feedDelay, l.feedLoss = 0, 0, 0
	l.restore()
}

// Requests returns the number of requests on this link. If it stays the same while
// a candidate waits, waiting costs nothing.
func (l *Link) Requests() Requests {
	defer l.store.lock("Link.Requests")()
	return l.asked.requests()
}

// The lock is held below.

func (l *Link) restore() {
	if l.closed || !l.cut && !l.frozen && l.past == nil {
		return
	}
	l.breakOff()
	for _, f := range l.store.feeds {
		if f.link == l {
			f.tell(backend.FeedEvent{Reconnected: true})
		}
	}
	l.store.endWatches(nil, func(o *Link) bool { return o == l })
	l.endViews(unreachable(errReconnected))
	for _, c := range l.store.cordons {
		if c.link == l {
			c.tell(2 * l.oneWay())
		}
	}
}

// breakOff loses all messages on their way, and ends a cut, a freeze or an isolation.
func (l *Link) breakOff() {
	l.epoch++
	l.held = nil
	l.cut, l.frozen, l.past = false, false, nil
	for _, f := range l.store.feeds {
		if f.link == l {
			f.last = time.Time{}
		}
	}
	for _, w := range l.store.watches {
		if w.link == l {
			w.last = time.Time{}
		}
	}
}

func (l *Link) rejectAll(err error) {
	for _, r := range l.store.pending {
		if r.link == l && !r.over {
			r.over = true
			l.store.reject(r, err)
		}
	}
}

func (l *Link) endFeeds(err error) {
	l.store.endWatches(err, func(o *Link) bool { return o == l })
	for _, f := range l.store.feeds {
		if f.link != l {
			continue
		}
		open, deliver := f.open, f.deliver
		f.drop()
		if open {
			l.store.time.after(0, func() { deliver(backend.FeedEvent{Err: err}) })
		}
	}
}
