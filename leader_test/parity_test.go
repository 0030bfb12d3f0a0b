package leader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// The same scripts run on a bucket of an embedded server and on a leadertest.Store, and
// have to write down the same lines.

// operator has the operations on a bucket that its candidates have no part in.
type operator interface {
	put(key, value string) uint64
	del(key string)
	purge(key string) error
	wipe() error // purges the stream
	drop()
	recreate()
	dropRoster()
}

// parity runs a script on one of the two.
type parity struct {
	*testing.T
	operator
	open func(name string) (store leader.Store, cut, restore, close func())

	mu    sync.Mutex
	lines []string
	zero  map[string]uint64 // of each sequence: the revision before the first
}

// bucketKind is a kind of bucket, as it is made on either side.
type bucketKind struct {
	name    string
	real    func(w *world)
	options []leadertest.Option
}

var (
	bucketSealed = bucketKind{"sealed", func(w *world) {
		w.create(leader.BucketConfig{Storage: jetstream.MemoryStorage, Roster: true})
	}, nil}
	bucketExpiring = bucketKind{"with a TTL", func(w *world) {
		w.create(leader.BucketConfig{Storage: jetstream.MemoryStorage, Roster: true, TTL: 10 * time.Second})
	}, []leadertest.Option{leadertest.WithTTL(10 * time.Second)}}
	bucketOrdinary = bucketKind{"ordinary", func(w *world) {
		_, err := w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "E", Storage: jetstream.MemoryStorage})
		w.ok(err)
	}, []leadertest.Option{leadertest.WithoutPurgeProtection()}}
	bucketSmall = bucketKind{"for small values", func(w *world) {
		_, err := w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "E", Storage: jetstream.MemoryStorage, MaxValueSize: 1000})
		w.ok(err)
	}, []leadertest.Option{leadertest.WithoutPurgeProtection(), leadertest.WithMaxValue(1000 - 71)}} // less the header
)

// inParity runs a script on both, for each kind of bucket.
func inParity(t *testing.T, script func(p *parity), kinds ...bucketKind) {
	t.Helper()
	for _, kind := range kinds {
		if kind.name == bucketSmall.name && misses(t, 14, kind.name) { // older ones look at the revision first
			continue
		}
		t.Run(kind.name, func(t *testing.T) {
			var real, kit []string
			bubble(t, func(w *world) {
				kind.real(w)
				p := &parity{T: w.T, operator: &realOperator{w, kind}, zero: map[string]uint64{}, open: func(name string) (leader.Store, func(), func(), func()) {
					cl := w.dial(name)
					return cl.bucket(w.T), cl.cut, cl.open, cl.nc.Close
				}}
				p.begin()
				script(p)
				real = p.written()
			})
			synctest.Test(t, func(t *testing.T) {
				s := leadertest.NewStore(nil, kind.options...)
				p := &parity{T: t, operator: kitOperator{s, leadertest.NewStore(nil, leadertest.WithoutPurgeProtection())}, zero: map[string]uint64{}, open: func(name string) (leader.Store, func(), func(), func()) {
					l := s.Link(name)
					return l, l.Cut, l.Restore, l.Close
				}}
				p.begin()
				script(p)
				kit = p.written()
			})
			if !slices.Equal(real, kit) {
				t.Errorf("what the server (-) and the kit (+) do:\n%s", differences(real, kit))
			}
		})
	}
}

// differences returns the lines of both in order, as diff does, without most of those
// that are in both.
func differences(a, b []string) string {
	common := make([][]int, len(a)+1) // the most lines that a[i:] and b[j:] have in common
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	var out strings.Builder
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			if i+1 < len(a) && j+1 < len(b) && a[i+1] != b[j+1] {
				out.WriteString("  " + a[i] + "\n")
			}
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out.WriteString("- " + a[i] + "\n")
			i++
		default:
			out.WriteString("+ " + b[j] + "\n")
			j++
		}
	}
	return out.String()
}

type realOperator struct {
	*world
	kind bucketKind
}

func (o *realOperator) put(key, value string) uint64 {
	rev := o.write(o.kv(), key, value)
	synctest.Wait() // a feed leaves out an entry when it has a newer one
	return rev
}

func (o *realOperator) del(key string) { o.ok(o.kv().Delete(o.Context(), key)) }

func (o *realOperator) purge(key string) error { return o.kv().Purge(o.Context(), key) }

func (o *realOperator) wipe() error {
	s, err := o.ops.js.Stream(o.Context(), "KV_E")
	o.ok(err)
	return s.Purge(o.Context())
}

func (o *realOperator) drop() { o.ok(o.ops.js.DeleteStream(o.Context(), "KV_E")) }

func (o *realOperator) recreate() {
	if err := o.ops.js.DeleteStream(o.Context(), "KV_E"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		o.ok(err)
	}
	o.kind.real(o.world)
}

func (o *realOperator) dropRoster() { o.ok(o.ops.js.DeleteStream(o.Context(), "KV_E_roster")) }

type kitOperator struct {
	s       *leadertest.Store
	guarded *leadertest.Store
}

func (o kitOperator) put(key, value string) uint64 { return o.s.Put(key, []byte(value)) }
func (o kitOperator) del(key string)               { o.s.Delete(key) }
func (o kitOperator) purge(key string) error       { return o.s.Purge(key) }
func (o kitOperator) wipe() error                  { return o.s.Wipe() }
func (o kitOperator) drop()                        { o.s.Drop() }
func (o kitOperator) recreate()                    { o.s.Recreate() }
func (o kitOperator) dropRoster()                  { o.s.DropRoster() }

// say writes a line down.
func (p *parity) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}

// begin makes revisions count from the current ones of the bucket.
func (p *parity) begin() {
	s, _, _, done := p.open("begin")
	defer done()
	settings := await(p, func(ctx context.Context, reply func(backend.Settings, error)) { s.Backend().Settings(ctx, reply) })
	p.zero["key"] = settings.value.LastRevision
}

// rev returns a revision as it counts in the script. Revisions of the roster count from
// the first that is seen.
func (p *parity) rev(of string, revision uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, begun := p.zero[of]; !begun && revision > 0 {
		p.zero[of] = revision - 1
	}
	if revision <= p.zero[of] {
		return 0
	}
	return revision - p.zero[of]
}

// answerOf is the answer to a request, and the time that it took.
type answerOf[T any] struct {
	value T
	err   error
	took  time.Duration
}

// await makes a request, which may take three seconds.
func await[T any](p *parity, ask func(ctx context.Context, reply func(T, error))) (a answerOf[T]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), 3*time.Second)
	defer cancel()
	done := make(chan struct{})
	began := time.Now()
	ask(ctx, func(v T, err error) {
		a.value, a.err = v, err
		close(done)
	})
	<-done
	a.took = time.Since(began)
	synctest.Wait()
	return a
}

// parityErrors are the errors of events and of calls.
var parityErrors = append([]namedError{
	{leader.ErrInvalidConfig, "invalid"},
	{leader.ErrNotLeader, "not leader"},
	{leader.ErrNoLeader, "no leader"},
	{leader.ErrRequestRefused, "request refused"},
	{leader.ErrNotSucceeded, "not taken"},
	{fence.ErrUnknownOutcome, "unknown outcome"},
	{jetstream.ErrKeyExists, "key exists"},
	{jetstream.ErrKeyRevisionMismatch, "revision mismatch"},
	{jetstream.ErrInvalidKey, "invalid key"},
	{context.DeadlineExceeded, "deadline"},
}, causes...)

// name returns the names of the errors that an error matches.
func (p *parity) name(err error) string {
	if err == nil {
		return "ok"
	}
	var names []string
	var refused *backend.RefusedError
	if errors.As(err, &refused) {
		names = append(names, fmt.Sprintf("refused at %d named=%v", p.rev("key", refused.Actual), refused.Named))
	}
	for _, n := range parityErrors {
		if errors.Is(err, n.err) {
			names = append(names, n.name)
		}
	}
	for _, text := range []string{notStanding, guardTaken, guardDeleted} {
		if text = strings.TrimPrefix(text, "leader: "); strings.Contains(err.Error(), text) {
			names = append(names, text)
		}
	}
	if len(names) == 0 {
		return "another error"
	}
	return strings.Join(names, ", ")
}

// took returns a duration, to the second.
func took(d time.Duration) string { return d.Round(time.Second).String() }

func (p *parity) settings(s leader.Store) backend.Settings {
	a := await(p, s.Backend().Settings)
	v := a.value
	p.say("settings: sealed=%v maxlease=%v ttl=%v limited=%v last=%d, %s after %s",
		v.PurgeProtected, v.MaxLease, v.TTL, v.MaxValue > 0, p.rev("key", v.LastRevision), p.name(a.err), took(a.took))
	return v
}

func (p *parity) sealed() bool {
	s, _, _, done := p.open("sealed")
	defer done()
	return await(p, s.Backend().Settings).value.PurgeProtected
}

func (p *parity) entry(e backend.Entry) string {
	age := "never"
	if !e.Created.IsZero() {
		age = time.Since(e.Created).Round(time.Second).String()
	}
	return fmt.Sprintf("%d %.20q marker=%v %s ago", p.rev("key", e.Revision), e.Value, e.Marker, age)
}

func (p *parity) get(s leader.Store, key string) backend.Entry {
	a := await(p, func(ctx context.Context, reply func(backend.Entry, error)) { s.Backend().Get(ctx, key, reply) })
	p.say("get %.20q: %s, %s after %s", key, p.entry(a.value), p.name(a.err), took(a.took))
	return a.value
}

func (p *parity) update(s leader.Store, key, value string, at uint64) uint64 {
	return p.write("update", s.Backend().Update, key, value, at)
}

func (p *parity) mark(s leader.Store, key, value string, at uint64) uint64 {
	return p.write("mark", s.Backend().Mark, key, value, at)
}

// parityWrite is a method of a store that writes.
type parityWrite func(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error))

func (p *parity) write(how string, to parityWrite, key, value string, at uint64) uint64 {
	a := await(p, func(ctx context.Context, reply func(uint64, error)) { to(ctx, key, []byte(value), at, reply) })
	p.say("%s %.20q to %.20q at %d: %d, %s after %s",
		how, key, value, p.rev("key", at), p.rev("key", a.value), p.name(a.err), took(a.took))
	return a.value
}

// watch opens a feed, and writes down its events.
func (p *parity) watch(s leader.Store, key, name string) (stop func()) {
	a := await(p, func(ctx context.Context, reply func(backend.Feed, error)) {
		s.Backend().Watch(ctx, key, nil, func(e backend.FeedEvent) {
			switch {
			case e.Err != nil:
				p.say("  [%s] ends: %s", name, p.name(e.Err))
			case e.Reconnected:
				p.say("  [%s] reconnected", name)
			default:
				p.say("  [%s] hears %s", name, p.entry(e.Entry))
			}
		}, reply)
	})
	return p.opened("watch", key, a)
}

// opened writes down how a feed was opened.
func (p *parity) opened(what, key string, a answerOf[backend.Feed]) (stop func()) {
	p.say("%s %.20q: %s after %s", what, key, p.name(a.err), took(a.took))
	return func() {
		if a.value != nil {
			a.value.Stop()
		}
	}
}

func (p *parity) announce(s leader.Store, election, session, entry string, life time.Duration) {
	var data []byte
	if entry != "" {
		data = []byte(entry)
	}
	a := await(p, func(ctx context.Context, reply func(uint64, error)) {
		s.Backend().Announce(ctx, election, session, data, life, reply)
	})
	p.say("announce %.20q %.3s %.20q: %d, %s after %s", election, session, entry, p.rev("roster", a.value), p.name(a.err), took(a.took))
}

// stands opens a view, and writes down its announcements.
func (p *parity) stands(s leader.Store, election, name string) (stop func()) {
	a := await(p, func(ctx context.Context, reply func(backend.Feed, error)) {
		s.Backend().View(ctx, election, func(a backend.Announcement) {
			switch {
			case a.Err != nil:
				p.say("  [%s] ends: %s", name, p.name(a.Err))
			case a.Complete:
				p.say("  [%s] complete", name)
			default:
				p.say("  [%s] sees %.3s %q at %d", name, a.Session, a.Entry, p.rev("roster", a.Revision))
			}
		}, reply)
	})
	return p.opened("stands", election, a)
}

// pass lets time pass.
func (p *parity) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	p.say("%v later", d)
}

// result writes down the result of a call.
func (p *parity) result(what string, call func() error) {
	began := time.Now()
	err := call()
	d := time.Since(began)
	synctest.Wait()
	p.say("%s: %s after %s", what, p.name(err), took(d))
}

// written returns the lines that were written down. Lines of several feeds that follow
// one another are in the order of the feeds' names, because it is not specified which
// feed is first.
func (p *parity) written() []string {
	feed := func(line string) string {
		name, _, _ := strings.Cut(line, "] ")
		return name
	}
	for from := 0; from < len(p.lines); from++ {
		to := from
		for to < len(p.lines) && strings.HasPrefix(p.lines[to], "  [") {
			to++
		}
		slices.SortStableFunc(p.lines[from:to], func(a, b string) int { return strings.Compare(feed(a), feed(b)) })
		from = to
	}
	return p.lines
}
