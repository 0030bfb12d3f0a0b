package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// state is the state of an election at one moment.
type state string

const (
	stateLeading  = state(facts.Leading)
	statePending  = state(facts.Pending)
	stateReleased = state(facts.Released)
	stateExpired  = state(facts.Expired)
	stateDeleted  = state(facts.Deleted)
	stateForeign  = state(facts.Foreign)
	stateNever    = state(facts.Never)
)

// held reports whether a candidate of natsleader holds the key.
func (s state) held() bool { return facts.State(s).Held() }

// taken reports whether the key is held, by a candidate or by something else.
func (s state) taken() bool { return s.held() || s == stateForeign }

// electionStatus is the newest revision of an election's key.
type electionStatus struct {
	election string
	entry    backend.Entry
	holder   leader.Holder
	gone     time.Time    // when a key that had a record was found without one; zero: it was not
	note     electionNote // as far as it was read
	released bool         // a watcher saw the key given up in order before its record went
}

func newElectionStatus(election string, e backend.Entry) electionStatus {
	return electionStatus{election: election, entry: e, holder: leader.HolderOf(natskv.KeyValue(e, election))}
}

// idle reports whether the election needs no leader, although its key was deleted.
func (s electionStatus) idle() bool { return s.released || s.note.OneShot }

// at returns the state at a moment of the server's time.
func (s electionStatus) at(now time.Time) state {
	return state(facts.StateOf(s.entry, s.holder, s.gone, now))
}

// remaining is how long the lease keeps other candidates out; negative when it is over.
func (s electionStatus) remaining(now time.Time) time.Duration {
	return s.expires().Sub(now)
}

// expires returns when the lease ends, by the server's clock.
func (s electionStatus) expires() time.Time { return s.holder.Renewed.Add(s.holder.Lease) }

// serverClock is the server's time. This host's clock has no influence on it except by
// its rate.
type serverClock struct {
	server time.Time     // at one instant
	local  time.Duration // the same instant as passed shows it
}

// newServerClock returns the server's time that was read so long ago.
func newServerClock(server time.Time, ago time.Duration) serverClock {
	return serverClock{server, passed() - ago}
}

func (c serverClock) now() time.Time { return c.server.Add(passed() - c.local) }

// passed returns the time since an instant in the past, with the time for which the host was suspended. time.Since does not
// count that on Linux. A test replaces it.
var passed = func() func() time.Duration {
	clock := leader.SystemClock()
	begun := clock.Now()                                          //nolint:forbidigo // a difference
	return func() time.Duration { return clock.Now().Sub(begun) } //nolint:forbidigo // a difference
}()

// inspector looks at the elections of a bucket.
type inspector struct {
	nc       *nats.Conn
	bucket   *leader.Bucket
	mover    backend.Mover // of the connection
	js       jetstream.JetStream
	name     string
	cordoned electionStatus // the key of the cordon, as all has read it
	roster   string         // bucket in which candidates announce themselves; empty: none
	limit    time.Duration  // for one answer
	clock    serverClock
	denials  *denials
	streams  []string // of whose permissions the operations are; nil: all that are missing count
}

// denials hands each permission that is missing on a connection to the operations that go on.
type denials struct {
	mu    sync.Mutex
	going map[chan error][]string // with the streams of the operation
}

// begin returns a channel for the first permission that is missing until end is called. Nil denials know of none.
func (d *denials) begin(streams []string) (denied chan error, end func()) {
	if d == nil {
		return nil, func() {}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.going == nil {
		d.going = make(map[chan error][]string)
	}
	denied = make(chan error, 1)
	d.going[denied] = streams
	return denied, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.going, denied)
	}
}

// handle takes an error of the connection.
func (d *denials) handle(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for denied, streams := range d.going {
		if streams != nil && !slices.ContainsFunc(streams, func(name string) bool { return aboutStream(err, name) }) {
			continue
		}
		select {
		case denied <- err:
		default:
		}
	}
}

// aboutStream reports whether a permission for requests about a stream is missing.
func aboutStream(err error, name string) bool {
	between := func(r rune) bool { return r == '.' || r == '"' }
	return errors.Is(err, nats.ErrPermissionViolation) && slices.Contains(strings.FieldsFunc(err.Error(), between), name)
}

func (s *inspector) close() { s.nc.Close() }

// newInspector connects, opens the bucket and asks for the server's time.
func (g *globals) newInspector(ctx context.Context, opts ...nats.Option) (*inspector, error) {
	s, err := g.openInspector(opts...)
	if err != nil {
		return nil, err
	}
	if err := s.within(ctx, s.ask); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// openInspector connects, opens the bucket and requests nothing from it.
func (g *globals) openInspector(opts ...nats.Option) (*inspector, error) {
	var d denials
	nc, js, bucket, err := g.open(append([]nats.Option{
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { d.handle(err) }),
	}, opts...)...)
	if err != nil {
		return nil, err
	}
	mover, _ := bucket.Backend().(backend.Mover) // each Bucket is one
	return &inspector{nc: nc, js: js, bucket: bucket, mover: mover, name: g.bucket, limit: g.timeout, denials: &d}, nil
}

// inspect calls do with an inspector, and closes it afterwards. The bucket need not exist.
func (g *globals) inspect(do func(context.Context, *inspector) error) error {
	s, err := g.openInspector()
	if err != nil {
		return err
	}
	defer s.close()
	return do(context.Background(), s)
}

// inspectBucket is inspect for a bucket that exists.
func (g *globals) inspectBucket(do func(context.Context, *inspector) error) error {
	return g.inspect(func(ctx context.Context, s *inspector) error {
		if err := s.within(ctx, s.ask); err != nil {
			return err
		}
		return do(ctx, s)
	})
}

// within limits the time of an operation, and ends it when a permission turns out to be
// missing, which otherwise looks like silence.
func (s *inspector) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	missing, end := s.denials.begin(s.streams)
	defer end()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	select {
	case err := <-done:
		if errors.Is(err, context.DeadlineExceeded) || refusedWith(err, codeNoMetaLeader) {
			return exitf(exitUnreachable, "JetStream does not answer on %s, which hangs or is cut off, or the cluster has lost its quorum or elects a leader", s.server())
		}
		if refusedWith(err, codeOffline) {
			return exitf(exitUnreachable, "all servers that keep the bucket are away")
		}
		return err
	case denied := <-missing:
		cancel()
		if err := <-done; err == nil {
			return nil // the refusal was about something else
		}
		return fmt.Errorf("%w: %w", leader.ErrPermission, denied)
	}
}

// answer is within, for an operation that returns a value.
func answer[T any](ctx context.Context, s *inspector, ask func(context.Context) (T, error)) (value T, err error) {
	err = s.within(ctx, func(ctx context.Context) (err error) {
		value, err = ask(ctx)
		return err
	})
	return value, err
}

// info returns the state of the bucket's stream, and an error if the bucket does not exist.
func (s *inspector) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	stream, err := s.js.Stream(ctx, "KV_"+s.name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("%w: %w", leader.ErrNoBucket, err)
	case err != nil:
		return nil, err
	}
	return stream.CachedInfo(), nil
}

// domain returns the JetStream domain of the bucket, or an empty string if there is none or no answer. It asks only if the
// connection or the context names a domain.
func (s *inspector) domain(ctx context.Context) string {
	api := jsapi.APIPrefix(s.js.Options())
	if s.nc.ConnectedDomain() == "" && api == jetstream.DefaultAPIPrefix {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	var info struct {
		Domain string `json:"domain"`
	}
	if reply, err := s.nc.RequestWithContext(ctx, api+"STREAM.INFO.KV_"+s.name, nil); err == nil {
		_ = json.Unmarshal(reply.Data, &info) // an answer that is not understood names no domain
	}
	return info.Domain
}

// errNoMajority is wrapped in the error of majority.
var errNoMajority = errors.New("it is cut off from the others, or the cluster has lost its quorum or elects a leader")

// server names the server of the connection.
func (s *inspector) server() string {
	if s.nc == nil || !s.nc.IsConnected() {
		return "the server"
	}
	return fmt.Sprintf("%s (%s)", s.nc.ConnectedServerName(), s.nc.ConnectedAddr())
}

// majority returns an error if the state of the bucket's stream does not show that it has a majority of its servers.
func (s *inspector) majority(info *jetstream.StreamInfo) error {
	err := jsapi.Majority(info)
	if err == nil {
		return nil
	}
	why := strings.TrimPrefix(err.Error(), leader.ErrUnreachable.Error()+": ")
	return exitf(exitUnreachable, "%s sees no majority of the servers of bucket %s: %s; %w", s.server(), s.name, why, errNoMajority)
}

// ask learns the server's time, whether the bucket exists, and whether a majority of its servers keeps it. Without one,
// what a server answers may be long over.
func (s *inspector) ask(ctx context.Context) error {
	info, err := s.info(ctx)
	if err != nil {
		return err
	}
	s.clock = newServerClock(info.TimeStamp, 0)
	s.roster = info.Config.Metadata[wire.RosterKey]
	return s.majority(info)
}

// one reads one election, with the permissions of an observer.
func (s *inspector) one(ctx context.Context, election string) (electionStatus, error) {
	type answer struct {
		entry backend.Entry
		err   error
	}
	answers := make(chan answer, 1)
	s.bucket.Backend().Get(ctx, election, func(e backend.Entry, err error) { answers <- answer{e, err} })
	got := <-answers
	return newElectionStatus(election, got.entry), got.err
}

// look connects, and reads one election. The caller closes the inspector.
func (g *globals) look(ctx context.Context, election string) (*inspector, electionStatus, error) {
	if err := checkElection(election); err != nil {
		return nil, electionStatus{}, err
	}
	s, err := g.newInspector(ctx)
	if err != nil {
		return nil, electionStatus{}, err
	}
	x, err := answer(ctx, s, func(ctx context.Context) (electionStatus, error) { return s.one(ctx, election) })
	if err != nil {
		s.close()
	}
	return s, x, err
}

// all reads all elections, each with its note.
func (s *inspector) all(ctx context.Context) ([]electionStatus, error) {
	all, err := s.keys(ctx)
	return withNotes(all), err
}

// keys reads the newest revision of every key through one consumer.
func (s *inspector) keys(ctx context.Context) ([]electionStatus, error) {
	kv, err := s.js.KeyValue(ctx, s.name)
	if err != nil {
		return nil, err
	}
	entries, err := entriesOf(ctx, kv, "keys")
	all := make([]electionStatus, 0, len(entries))
	for _, e := range entries {
		if x := newElectionStatus(e.Key(), natskv.EntryOf(e)); e.Key() != wire.CordonKey {
			all = append(all, x)
		} else {
			s.cordoned = x
		}
	}
	return all, err
}

// entriesOf reads the newest entry of every key of a bucket, in the order of the keys. If
// the last of the initial entries of a watch has just expired, the watch never reports
// that there are no more. So entriesOf begins again when the watch is silent.
func entriesOf(ctx context.Context, kv jetstream.KeyValue, what string, opts ...jetstream.WatchOpt) ([]jetstream.KeyValueEntry, error) {
	for silence := 500 * time.Millisecond; ; silence *= 2 {
		status, err := kv.Status(ctx)
		if err != nil {
			return nil, err
		}
		keys := 0
		if status.History() == 1 { // each value is that of another key
			keys = int(status.Values())
		}
		w, end, err := opened(ctx, ctx, func(life context.Context) (jetstream.KeyWatcher, error) { return kv.WatchAll(life, opts...) })
		if err != nil {
			return nil, err
		}
		entries, complete := initial(ctx, w, keys, silence)
		_ = w.Stop() // it may have gone with the connection
		end()
		switch {
		case complete:
			return slices.SortedFunc(maps.Values(entries), func(a, b jetstream.KeyValueEntry) int { return strings.Compare(a.Key(), b.Key()) }), nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: not all %s came in time: %w", leader.ErrUnreachable, what, ctx.Err())
		}
	}
}

// initial returns the newest of the initial entries of a watch, and whether the watch has reported all of them.
// The watch counts what it has received. A key that changes meanwhile may come twice, and then the watch reports
// the end before another key. So initial reads on until it has as many keys as the bucket had, or the watch is
// silent.
func initial(ctx context.Context, w jetstream.KeyWatcher, keys int, silence time.Duration) (entries map[string]jetstream.KeyValueEntry, complete bool) {
	entries = make(map[string]jetstream.KeyValueEntry)
	for {
		select {
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return entries, false
			case e == nil:
				complete = true
			case entries[e.Key()] == nil || entries[e.Key()].Revision() < e.Revision():
				entries[e.Key()] = e
			}
			if complete && len(entries) >= keys {
				return entries, true
			}
		case <-time.After(silence):
			return entries, complete
		case <-ctx.Done():
			return entries, false
		}
	}
}

// watch follows one election, or all of them if there is no name, until end is called or
// ctx ends. The current entries of the keys come first, and then nil. The time for the
// opening is limited.
func (s *inspector) watch(ctx context.Context, election string) (w jetstream.KeyWatcher, end context.CancelFunc, err error) {
	failed := s.within(ctx, func(limited context.Context) error {
		w, end, err = opened(limited, ctx, func(life context.Context) (jetstream.KeyWatcher, error) {
			kv, failed := s.js.KeyValue(life, s.name)
			switch {
			case failed != nil:
				return nil, failed
			case election == "":
				return kv.WatchAll(life)
			default:
				return kv.Watch(life, election)
			}
		})
		return err
	})
	return w, end, failed
}

// opened opens a watch, which lives until end is called or ctx ends. limited has the deadline of the opening. For a while
// a cluster may place the consumer of a watch on a server that has crashed, which never makes it. So opened makes up to
// four attempts, and is more patient with each.
func opened(limited, ctx context.Context, open func(context.Context) (jetstream.KeyWatcher, error)) (jetstream.KeyWatcher, context.CancelFunc, error) {
	until, _ := limited.Deadline()
	for patience := time.Until(until) / 8; ; patience *= 2 {
		life, end := context.WithCancel(ctx)
		attempt, cancel := context.WithTimeout(limited, patience)
		intime := context.AfterFunc(attempt, end)
		w, err := open(life)
		late := !intime()
		cancel()
		if err == nil && !late {
			return w, end, nil
		}
		end()
		if err == nil {
			_ = w.Stop()
		}
		if limited.Err() != nil { // of life, it is always that it was canceled
			return nil, end, limited.Err()
		}
		if !late {
			return nil, end, err
		}
	}
}

// checkElection applies the rules of KV keys, so that no wildcard and no empty
// part reaches the server.
func checkElection(name string) error {
	fit := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-/_=.", r)
	}
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !fit(r) }) ||
		strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") {
		return usagef("election %q may contain only letters, digits and -/_=., and no empty part", name)
	}
	if of, ok := strings.CutPrefix(name, notePrefix); ok {
		return usagef("%s is no election, but the key of a note: see natsleader note %s", name, of)
	}
	if name == wire.CordonKey {
		return usagef("%s is the key of the cordon: see natsleader drain", name)
	}
	return nil
}

// complete returns words of a kind for the shell, or none if they do not come soon. fisk asks twice for the same ones.
func (g *globals) complete(what string, list func(context.Context, *inspector) ([]string, error)) []string {
	if words, known := g.words[what]; known || g.words == nil {
		return words
	}
	g.words[what] = nil
	const soon = time.Second
	g.timeout = min(g.timeout, soon)
	s, err := g.openInspector(nats.Timeout(soon))
	if err != nil {
		return nil
	}
	defer s.close()
	g.words[what], _ = answer(context.Background(), s, func(ctx context.Context) ([]string, error) { return list(ctx, s) })
	return g.words[what]
}

// electionNames completes the name of an election.
func (g *globals) electionNames() []string {
	return g.complete("elections", func(ctx context.Context, s *inspector) ([]string, error) {
		all, err := s.all(ctx)
		return electionsIn(all), err
	})
}

func electionsIn(all []electionStatus) (names []string) {
	for _, x := range all {
		if checkElection(x.election) == nil { // others may write any key, and shells take any byte
			names = append(names, x.election)
		}
	}
	return names
}

// namesToShow completes the name of an election or a group.
func (g *globals) namesToShow() []string {
	return g.complete("names", func(ctx context.Context, s *inspector) ([]string, error) {
		all, err := s.all(ctx)
		return append(electionsIn(all), groupsIn(all)...), err
	})
}

// bucketNames completes the name of a bucket.
func (g *globals) bucketNames() []string {
	return g.complete("buckets", func(ctx context.Context, s *inspector) ([]string, error) {
		var names []string
		all, err := s.buckets(ctx)
		for _, b := range all {
			if jsapi.CheckBucketName(b.Name) == nil { // others may name streams as they like
				names = append(names, b.Name)
			}
		}
		return names, err
	})
}

// quiet is how long a tool that follows elections waits for a sign of a majority of the servers, as a
// candidate does at a lease of 15 s.
var quiet = wire.Quiet(wire.DefaultLease, wire.RenewInterval(wire.DefaultLease))

// heard takes the answer to a request for the state of the stream. If none has shown a majority for too
// long, the connection moves to another server.
func (s *inspector) heard(info *jetstream.StreamInfo, err error) error {
	if err == nil {
		err = s.majority(info)
	}
	switch code := codeOf(err); {
	case err == nil || code == exitBucket:
		s.mover.Signed()
	case code != exitDenied && !errors.Is(err, context.Canceled):
		s.mover.Move(quiet, func(string) bool { return true })
	}
	return err
}
