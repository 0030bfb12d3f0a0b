package leadertest

import (
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

// script adds a line.
func (l *Link) script(who string, k kind, f fault) {
	l.store.lock("Link." + who)
	defer l.store.mu.Unlock()
	if f.n != 0 {
		l.scripts[k] = append(l.scripts[k], f)
	}
}

// The scripts. Faults of writes form one list, worked off in the order in which
// they were added, each for its n writes; the same holds for reads, settings
// and watches. What a [Guard] and its [Writer] ask counts as what they ask of the
// store: a raise and each try of a Writer are writes, a check asks for the settings.

// PassWrites lets the next n writes succeed.
func (l *Link) PassWrites(n int) { l.script("PassWrites", writes, fault{what: none, n: n}) }

// LoseWrites lets the next n writes vanish on their way to the store: they are
// not applied, and answered with [leader.ErrUnreachable] when their context
// ends. A negative n means until [Link.Heal], here and below.
func (l *Link) LoseWrites(n int) { l.script("LoseWrites", writes, fault{what: loseRequest, n: n}) }

// LoseReplies lets the next n writes be applied but answered only with
// [leader.ErrUnreachable], when their context ends.
func (l *Link) LoseReplies(n int) { l.script("LoseReplies", writes, fault{what: loseReply, n: n}) }

// ApplyLate lets the next n writes reach the store only when d has passed,
// whether or not their sender has given up or is cut off by then. Their replies
// are lost as with [Link.LoseReplies].
func (l *Link) ApplyLate(n int, d time.Duration) {
	l.script("ApplyLate", writes, fault{what: applyLate, n: n, after: d})
}

// Refuse lets the next n writes be refused although their condition may hold.
// Named tells whether the answer names the last revision of the key, as code
// 10071 does and 10164 does not.
func (l *Link) Refuse(n int, named bool) {
	l.script("Refuse", writes, fault{what: refuse, n: n, named: named})
}

// FailWrites answers the next n writes with err and does not apply them.
func (l *Link) FailWrites(n int, err error) {
	l.script("FailWrites", writes, fault{what: fails, n: n, err: err})
}

// LoseReads lets the next n reads vanish; they are answered with
// [leader.ErrUnreachable] when their context ends.
func (l *Link) LoseReads(n int) { l.script("LoseReads", reads, fault{what: loseRequest, n: n}) }

// StaleReads answers the next n reads with the message before the newest, as a
// replica that lags may do.
func (l *Link) StaleReads(n int) { l.script("StaleReads", reads, fault{what: staleRead, n: n}) }

// FailReads answers the next n reads with err.
func (l *Link) FailReads(n int, err error) {
	l.script("FailReads", reads, fault{what: fails, n: n, err: err})
}

// FailSettings answers the next n questions for the settings, or checks of a
// [Guard], with err.
func (l *Link) FailSettings(n int, err error) {
	l.script("FailSettings", settings, fault{what: fails, n: n, err: err})
}

// FailWatches answers the next n tries to open a feed with err.
func (l *Link) FailWatches(n int, err error) {
	l.script("FailWatches", watches, fault{what: fails, n: n, err: err})
}

// LoseFeed lets the next n messages to the link's feeds get lost.
func (l *Link) LoseFeed(n int) {
	l.store.lock("Link.LoseFeed")
	defer l.store.mu.Unlock()
	l.feedLoss = n
}

// DeafFeeds makes the link's open feeds deaf for good, without telling them. A
// feed that is opened later hears.
func (l *Link) DeafFeeds() {
	l.store.lock("Link.DeafFeeds")
	defer l.store.mu.Unlock()
	for _, f := range l.store.feeds {
		if f.link == l {
			f.deaf = true
		}
	}
}

// EndFeeds ends the link's open feeds and tells them err.
func (l *Link) EndFeeds(err error) {
	l.store.lock("Link.EndFeeds")
	defer l.store.mu.Unlock()
	l.endFeeds(err)
}

// Delay makes every message to and from this link take d longer from now on:
// a round trip 2d.
func (l *Link) Delay(d time.Duration) {
	l.store.lock("Link.Delay")
	defer l.store.mu.Unlock()
	l.delay = d
}

// DelayFeed makes what the link's feeds and views are told take d longer from now
// on, so that replies overtake it.
func (l *Link) DelayFeed(d time.Duration) {
	l.store.lock("Link.DelayFeed")
	defer l.store.mu.Unlock()
	l.feedDelay = d
}

// Cut breaks the connection. What is on its way is lost; requests, those under
// way included, are answered with [leader.ErrUnreachable] at once; feeds and views
// hear nothing. [Link.Restore] ends it.
func (l *Link) Cut() {
	l.store.lock("Link.Cut")
	defer l.store.mu.Unlock()
	if !l.closed && !l.cut {
		l.breakOff()
		l.cut = true
		l.rejectAll(l.isCut())
	}
}

// Freeze makes the link a black hole that looks alive: requests, replies and
// feed messages are held up, and requests are answered with
// [leader.ErrUnreachable] when their context ends. [Link.Thaw] lets go what is
// held up, [Link.Restore] drops it.
func (l *Link) Freeze() {
	l.store.lock("Link.Freeze")
	defer l.store.mu.Unlock()
	l.frozen = !l.closed && !l.cut
}

// Thaw ends [Link.Freeze]: all that was held up arrives now, in order, although
// its senders may have given up. Nobody notices a reconnection.
func (l *Link) Thaw() {
	l.store.lock("Link.Thaw")
	defer l.store.mu.Unlock()
	l.frozen = false
	for _, arrive := range l.held {
		l.store.time.after(0, arrive)
	}
	l.held = nil
}

// Restore ends [Link.Cut] and [Link.Freeze] with a new connection: what was
// held up is lost, open feeds hear [backend.FeedEvent].Reconnected, and views of the
// roster end with [leader.ErrUnreachable]. It does nothing to a link that works, or that was closed.
func (l *Link) Restore() {
	l.store.lock("Link.Restore")
	defer l.store.mu.Unlock()
	l.restore()
}

// Reconnect is [Link.Cut] and [Link.Restore] at the same instant.
func (l *Link) Reconnect() {
	l.Cut()
	l.Restore()
}

// Close closes the connection for good, as the application itself would:
// requests, those under way included, are answered with
// [leader.ErrConnectionClosed], and so end the feeds and views.
func (l *Link) Close() {
	l.store.lock("Link.Close")
	defer l.store.mu.Unlock()
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
// messages, and what [Link.Restore] ends.
func (l *Link) Heal() {
	l.store.lock("Link.Heal")
	defer l.store.mu.Unlock()
	clear(l.scripts[:])
	l.delay, l.feedDelay, l.feedLoss = 0, 0, 0
	l.restore()
}

// Requests returns what was asked on this link. Waiting costs nothing if it
// stays the same.
func (l *Link) Requests() Requests {
	l.store.lock("Link.Requests")
	defer l.store.mu.Unlock()
	return l.asked
}

// The lock is held below.

func (l *Link) restore() {
	if l.closed || !l.cut && !l.frozen {
		return
	}
	l.breakOff()
	for _, f := range l.store.feeds {
		if f.link == l {
			f.tell(backend.FeedEvent{Reconnected: true})
		}
	}
	l.endViews(unreachable(errReconnected))
}

// breakOff loses all that is on its way and ends a cut or a freeze.
func (l *Link) breakOff() {
	l.epoch++
	l.held = nil
	l.cut, l.frozen = false, false
	for _, f := range l.store.feeds {
		if f.link == l {
			f.last = time.Time{}
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
