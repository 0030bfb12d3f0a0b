package natskv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/hazards"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
)

const (
	// rosterMarkerTTL is how long markers stay: the least that the server takes. Only views
	// that are open at that time receive them.
	rosterMarkerTTL = time.Second
	// viewHeartbeat is the silence after which the server sends a view a heartbeat. The
	// server that has the view's consumer may go away while the connection stays.
	viewHeartbeat = 2 * time.Second
	// lastConsumerHeader is the header of a heartbeat that has the number of the last
	// delivery (nats.go, js.go).
	lastConsumerHeader = "Nats-Last-Consumer"
	// sessionLength is the length of the result of crypto/rand.Text.
	sessionLength = 26
)

// rosterBucket is the bucket in which candidates announce themselves.
type rosterBucket struct {
	api jsapi.Stream
	pre string // prefix of a key's subject in the stream
	put string // prefix of the subject to which a key is written
}

func (r *rosterBucket) open(js jetstream.JetStream, bucket string) {
	name := wire.RosterName(bucket)
	r.pre = "$KV." + name + "."
	r.api.Init(js, "KV_"+name)
	r.put = r.api.PutPrefix(r.pre)
}

// spareLives is after how many of its lives an announcement counts for nothing, although the server keeps it: a server
// that was restarted may forget that messages expire. It is more than one because the clocks of servers differ.
const spareLives = 2

// lifeOf returns the life of an announcement, as announce writes it; 0: it has none.
func lifeOf(h nats.Header) time.Duration {
	seconds, _ := strconv.Atoi(h.Get(jetstream.MsgTTLHeader))
	return max(0, time.Duration(seconds)*time.Second)
}

// validSession reports whether s has the form of a session. That distinguishes sessions
// from the keys of another election, which may have the name of this one, a dot and
// anything.
func validSession(s string) bool {
	return len(s) == sessionLength && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < '2' || r > '7')
	}) < 0
}

// rosterConfig configures the roster of a bucket.
type rosterConfig struct {
	bucket string
	like   jetstream.StreamConfig // configuration of the bucket itself
}

func (c rosterConfig) newStream() jetstream.StreamConfig {
	name := wire.RosterName(c.bucket)
	conf := jetstream.StreamConfig{
		Name: "KV_" + name, Subjects: []string{"$KV." + name + ".>"},
		Description: "natsleader: who stands in the elections of " + c.bucket,
		MaxMsgs:     -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1,
		Storage: c.like.Storage, FirstSeq: jsapi.FirstRevision(), Metadata: map[string]string{wire.RosterOfKey: c.bucket},
	}
	c.apply(&conf)
	return conf
}

// apply sets the settings that the roster rests on, and keeps all others.
func (c rosterConfig) apply(conf *jetstream.StreamConfig) {
	conf.MaxMsgsPerSubject = 1
	conf.AllowDirect = true
	conf.DenyDelete, conf.DenyPurge = true, false
	conf.AllowMsgTTL, conf.AllowRollup = true, true // the server requires roll-ups for markers
	conf.SubjectDeleteMarkerTTL = rosterMarkerTTL   // views receive a marker for a lapse
	conf.Replicas, conf.Placement = c.like.Replicas, c.like.Placement
}

func (c rosterConfig) reshape(old jetstream.StreamConfig) (conf jetstream.StreamConfig, changed bool, err error) {
	conf = old
	c.apply(&conf)
	unfit := func(reason string) error {
		return fmt.Errorf("%w: stream %s exists and %s, so it cannot be the roster", backend.ErrIncompatibleBucket, old.Name, reason)
	}
	switch reason := hazards.Bucket(conf, hazards.Roster, wire.RosterName(c.bucket)).Refusal(); {
	case old.Metadata[wire.RosterOfKey] != c.bucket:
		return conf, false, unfit(fmt.Sprintf("its metadata %s is %q, not %q", wire.RosterOfKey, old.Metadata[wire.RosterOfKey], c.bucket))
	case reason != "":
		return conf, false, unfit(reason)
	case old.DenyPurge:
		return conf, false, unfit("denies purges, which cannot be taken back")
	}
	return conf, !reflect.DeepEqual(conf, old), nil
}

// isMissing asks the server whether the roster, which was made once, is gone. Without the
// permission to ask, it returns false.
func (r *rosterBucket) isMissing(ctx context.Context) bool {
	ctx, cancel := deadline.Within(ctx, time.Second)
	defer cancel()
	_, err := r.api.Info(ctx)
	return errors.Is(err, backend.ErrNoBucket)
}

// Announce implements [backend.Roster]. It is one request, and never sent twice. Only if it has
// no responders, the server is asked whether there is a roster.
func (b *Bucket) Announce(ctx context.Context, election, session string, entry []byte, life time.Duration, reply func(revision uint64, err error)) {
	go func() {
		done, err := b.roster.api.Turn(ctx)
		if err != nil {
			reply(0, err)
			return
		}
		defer done()
		reply(b.roster.announce(ctx, election, session, entry, life))
	}()
}

func (r *rosterBucket) announce(ctx context.Context, election, session string, entry []byte, life time.Duration) (uint64, error) {
	if !validSession(session) {
		return 0, fmt.Errorf("%w: session %q is not %d of A-Z and 2-7", backend.ErrInvalidConfig, session, sessionLength)
	}
	m := &nats.Msg{Subject: r.put + election + "." + session, Data: entry, Header: nats.Header{}}
	if entry == nil {
		life = rosterMarkerTTL
		m.Header.Set(jsapi.KVOperation, "PURGE") // unlike after a DEL, no other marker follows
	}
	m.Header.Set(jetstream.MsgTTLHeader, strconv.FormatInt(int64(max(wholeSeconds(life), time.Second)/time.Second), 10))
	revision, err := r.api.Store(ctx, m)
	var api *jetstream.APIError
	refused := errors.As(err, &api)
	switch {
	case refused && int(api.ErrorCode) == jsapi.CodeMessageTTLDisabled:
		return 0, fmt.Errorf("%w: %w", backend.ErrNoRoster, err)
	case errors.Is(err, nats.ErrNoResponders):
		// There is no stream, or it has no leader.
		if _, asked := r.api.Info(ctx); asked != nil {
			err = asked
		}
	}
	return revision, r.named(err)
}

// named replaces ErrNoBucket, which is about the roster here, by ErrRosterGone.
func (r *rosterBucket) named(err error) error {
	if errors.Is(err, backend.ErrNoBucket) {
		return fmt.Errorf("%w: there is no stream %s", backend.ErrRosterGone, r.api.Name)
	}
	return err
}

// wholeSeconds rounds d up.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// View implements [backend.Roster] with a consumer of the election's keys, in memory, on a
// server that NATS chooses. The view ends when the consumer is silent for some seconds.
// Stop waits for a running call of deliver.
func (b *Bucket) View(ctx context.Context, election string, deliver func(backend.Announcement), reply func(backend.Feed, error)) {
	b.view(ctx, jetstream.ConsumerConfig{FilterSubject: b.roster.pre + election + ".*"}, deliver, reply)
}

// Announced returns the announcements in all elections in the order of their keys, each with the election, a dot and the session
// as its session. What others have written is no announcement, and under a key that no candidate has it is empty.
func (b *Bucket) Announced(ctx context.Context) (all []backend.Announcement, err error) {
	stands := make(map[string]backend.Announcement)
	done := make(chan error, 2) // the view is complete, and then may end
	feed, err := backend.Await(func(reply func(backend.Feed, error)) {
		b.view(ctx, jetstream.ConsumerConfig{FilterSubject: b.roster.pre + ">"}, func(a backend.Announcement) {
			if a.Complete || a.Err != nil {
				done <- a.Err
			} else if stands[a.Session] = a; a.Entry == nil {
				delete(stands, a.Session)
			}
		}, reply)
	})
	if err != nil {
		return nil, err
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		err = fmt.Errorf("%w: not all of the roster came in time: %w", backend.ErrUnreachable, ctx.Err())
	}
	feed.Stop() // and then nothing is delivered
	for _, key := range slices.Sorted(maps.Keys(stands)) {
		all = append(all, stands[key])
	}
	return all, err
}

// view opens a view of the subjects of a consumer, which are those of keys.
func (b *Bucket) view(ctx context.Context, of jetstream.ConsumerConfig, deliver func(backend.Announcement), reply func(backend.Feed, error)) {
	go func() {
		done, err := b.roster.api.Turn(ctx)
		if err != nil {
			reply(nil, err)
			return
		}
		defer done()
		v := &View{roster: &b.roster, deliver: deliver, gate: make(chan struct{}), until: make(map[string]lapse), swept: deadline.Elapsed(), whole: of.FilterSubject == b.roster.pre+">"}
		v.begin = sync.OnceFunc(func() { close(v.gate) })
		empty, err := jsapi.InTime(ctx, &b.roster.api, func() (empty bool, err error) {
			if empty, err = v.open(ctx, of); err != nil {
				v.Stop()
			}
			return empty, err
		}, func(bool) { v.Stop() })
		if err != nil {
			reply(nil, b.roster.named(err))
			return
		}
		reply(v, nil)
		if empty {
			v.completed()
		}
		v.begin()
	}()
}

// View is an open view of a roster.
type View struct {
	roster  *rosterBucket
	deliver func(backend.Announcement)
	gate    chan struct{} // closed by begin, when the caller of Stands has the view
	begin   func()
	stop    sync.Once
	whole   bool // of all elections, with what no candidate has written

	jsapi.Subscription
	consumer string
	status   chan nats.Status
	ended    chan struct{} // closed when the goroutine of guard has ended
	heard    atomic.Bool   // the consumer has sent something lately

	opened time.Time // by the clock of the consumer's server

	// Used by the subscription's goroutine only:
	last  uint64           // number of the last delivery
	until map[string]lapse // of each session that stands
	swept time.Duration    // when the view was last looked through for announcements that are over

	mu       sync.Mutex // held during deliver: one call at a time, and none after Stop
	complete bool
	over     bool
}

// lapse is the end of an announcement that the server does not remove.
type lapse struct {
	revision uint64
	at       time.Duration // see deadline.Elapsed
}

// open opens the view, and reports whether the roster has no such entry.
func (v *View) open(ctx context.Context, of jetstream.ConsumerConfig) (empty bool, err error) {
	r := v.roster
	if err = r.api.Opened(); err != nil {
		return false, err
	}
	// Listen before any subscription is made, so that no reconnection is missed.
	v.status, v.ended = r.api.Conn.StatusChanged(nats.CONNECTED, nats.CLOSED), make(chan struct{})
	v.heard.Store(true)
	go v.guard()
	own := strings.TrimRight(of.FilterSubject, "*>")
	of.IdleHeartbeat = viewHeartbeat
	info, err := r.api.Follow(ctx, &v.Subscription, of,
		func(name string) { v.consumer = name },
		func(m *nats.Msg, meta *nats.MsgMetadata) { v.hear(m, meta, own) })
	if err != nil {
		return false, err
	}
	v.opened = info.TimeStamp
	return info.NumPending == 0 && info.Delivered.Consumer == 0, nil
}

// hear handles a message from the consumer.
func (v *View) hear(m *nats.Msg, meta *nats.MsgMetadata, own string) {
	<-v.gate
	v.heard.Store(true)
	defer v.sweep()
	switch {
	case meta == nil:
		v.beat(m)
		return
	case !v.follows(meta.Sequence.Consumer - 1):
		return
	}
	v.last++
	session, ok := strings.CutPrefix(m.Subject, own)
	if valid := validSession(session[strings.LastIndexByte(session, '.')+1:]); ok && (valid || v.whole) {
		e := jsapi.NewEntry(meta.Sequence.Stream, meta.Timestamp, m.Header, m.Data)
		a := backend.Announcement{Session: session, Revision: e.Revision}
		switch {
		case !v.stands(a, e, lifeOf(m.Header)):
		case valid:
			a.Entry = append([]byte{}, e.Value...) // not nil: an empty entry is no withdrawal
		default:
			a.Entry = []byte{} // whatever it holds: no candidate has such a key
		}
		v.tell(a)
	}
	if meta.NumPending == 0 {
		v.completed()
	}
}

// stands reports whether an announcement counts, and remembers until when. Its age when the view was opened is by the clocks
// of servers. From then on the time of this host counts.
func (v *View) stands(a backend.Announcement, e backend.Entry, life time.Duration) bool {
	age := max(0, v.opened.Sub(e.Created))
	delete(v.until, a.Session)
	if e.Marker || life > 0 && age >= spareLives*life {
		return false
	}
	if life > 0 {
		v.until[a.Session] = lapse{a.Revision, deadline.Elapsed() + spareLives*life - age}
	}
	return true
}

// sweep withdraws the announcements that are over, at most once in each heartbeat.
func (v *View) sweep() {
	now := deadline.Elapsed()
	if now < v.swept+viewHeartbeat {
		return
	}
	v.swept = now
	for session, over := range v.until {
		if now >= over.at {
			delete(v.until, session)
			v.tell(backend.Announcement{Session: session, Revision: over.revision})
		}
	}
}

// beat handles a heartbeat, which is sent when there is nothing to deliver.
func (v *View) beat(m *nats.Msg) {
	last, err := strconv.ParseUint(m.Header.Get(lastConsumerHeader), 10, 64)
	if err == nil && v.follows(last) {
		v.completed() // the last entry that was to be delivered may have lapsed before
	}
}

// follows reports whether the last delivery has that number, and ends the view if not.
func (v *View) follows(last uint64) bool {
	if last == v.last {
		return true
	}
	v.tell(backend.Announcement{Err: fmt.Errorf("%w: the view of the roster has missed something", backend.ErrUnreachable)})
	return false
}

func (v *View) completed() { v.tell(backend.Announcement{Complete: true}) }

// tell delivers an announcement, unless the view is over. It delivers Complete once.
func (v *View) tell(a backend.Announcement) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over || a.Complete && v.complete {
		return
	}
	v.over, v.complete = a.Err != nil, v.complete || a.Complete
	v.deliver(a)
}

// guard ends the view when the consumer is silent, or when the connection was lost and
// perhaps the consumer with it.
func (v *View) guard() {
	defer close(v.ended)
	for v.wait() {
	}
}

// wait waits until there is something to check, checks it, and reports whether to call it
// again.
func (v *View) wait() bool {
	patience, cancel := deadline.Within(context.Background(), 3*viewHeartbeat)
	defer cancel()
	var err error
	select {
	case s, ok := <-v.status:
		switch {
		case s == nats.CLOSED || v.roster.api.Conn.IsClosed():
			// nats.go drops a status that a full channel does not take.
			err = backend.ErrConnectionClosed
		case ok:
			err = fmt.Errorf("%w: the connection was lost, and perhaps the consumer with it", backend.ErrUnreachable)
		}
		if !ok {
			return false // stopped
		}
	case <-patience.Done():
		if !v.heard.Swap(false) {
			err = fmt.Errorf("%w: the consumer of the roster is silent", backend.ErrUnreachable)
		}
	}
	if err != nil {
		<-v.gate
		v.tell(backend.Announcement{Err: err})
	}
	return true
}

// Stop implements [backend.Feed]. It waits neither for a reply nor for the connection's lock.
func (v *View) Stop() {
	v.stop.Do(func() {
		v.mu.Lock()
		v.over = true
		v.mu.Unlock()
		v.begin()
		jsapi.Soon(v.end)
	})
}

// end releases the resources of the view.
func (v *View) end() {
	v.Close()
	v.roster.api.DeleteConsumer(v.consumer)
	if v.status != nil {
		v.roster.api.Conn.RemoveStatusListener(v.status) // closes it
		<-v.ended
	}
}
