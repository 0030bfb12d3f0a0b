// Package inspect reads what a bucket and its servers say about elections.
package inspect

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
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// serverClock is the server's time. This host's clock has no influence on it except by
// its rate.
type serverClock struct {
	server time.Time     // at one instant
	local  time.Duration // the same instant as passed shows it
}

// NewServerClock returns the server's time that was read so long ago.
func NewServerClock(server time.Time, ago time.Duration) serverClock {
	return serverClock{server, passed() - ago}
}

func (c serverClock) Now() time.Time { return c.server.Add(passed() - c.local) }

// passed returns the time since an instant in the past, with the time for which the host was suspended. time.Since does not
// count that on Linux. A test replaces it.
var passed = func() func() time.Duration {
	clock := leader.SystemClock()
	begun := clock.Now()                                          //nolint:forbidigo // a difference
	return func() time.Duration { return clock.Now().Sub(begun) } //nolint:forbidigo // a difference
}()

// Inspector looks at the elections of a bucket.
type Inspector struct {
	Nc       *nats.Conn
	Bucket   *leader.Bucket
	mover    backend.Mover // of the connection
	Js       jetstream.JetStream
	Name     string
	Cordoned facts.ElectionStatus // the key of the cordon, as all has read it
	Roster   string               // bucket in which candidates announce themselves; empty: none
	History  string               // stream that keeps the history, as the bucket names it; empty: none
	TTL      time.Duration        // after which the bucket drops a key; 0: never
	Limit    time.Duration        // for one answer
	Clock    serverClock
	Denials  *denials
	Streams  []string // of whose permissions the operations are; nil: all that are missing count
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

// handle takes an error of the connection. No operation fails because it may not end its consumer, which is asked for when
// the next one has perhaps begun.
func (d *denials) handle(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) || strings.Contains(err.Error(), ".CONSUMER.DELETE.") {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for denied, streams := range d.going {
		if streams != nil && !slices.ContainsFunc(streams, func(name string) bool { return AboutStream(err, name) }) {
			continue
		}
		select {
		case denied <- err:
		default:
		}
	}
}

// AboutStream reports whether a permission for requests about a stream is missing.
func AboutStream(err error, name string) bool {
	between := func(r rune) bool { return r == '.' || r == '"' }
	return errors.Is(err, nats.ErrPermissionViolation) && slices.Contains(strings.FieldsFunc(err.Error(), between), name)
}

// Close closes the connection.
func (s *Inspector) Close() { s.Nc.Close() }

// New connects, opens the bucket and asks for the server's time.
func New(ctx context.Context, g *front.Globals, opts ...nats.Option) (*Inspector, error) {
	s, err := openInspector(g, opts...)
	if err != nil {
		return nil, err
	}
	if err := s.Within(ctx, s.Ask); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// openInspector connects, opens the bucket and requests nothing from it.
func openInspector(g *front.Globals, opts ...nats.Option) (*Inspector, error) {
	var d denials
	nc, js, bucket, err := g.Open(append([]nats.Option{
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { d.handle(err) }),
	}, opts...)...)
	if err != nil {
		return nil, err
	}
	mover, _ := bucket.Backend().(backend.Mover) // each Bucket is one
	return &Inspector{Nc: nc, Js: js, Bucket: bucket, mover: mover, Name: g.Bucket, Limit: g.Timeout, Denials: &d}, nil
}

// Do calls do with an inspector, and closes it afterwards. The bucket need not exist.
func Do(g *front.Globals, do func(context.Context, *Inspector) error) error {
	s, err := openInspector(g)
	if err != nil {
		return err
	}
	defer s.Close()
	return do(context.Background(), s)
}

// DoExisting is inspect for a bucket that exists.
func DoExisting(g *front.Globals, do func(context.Context, *Inspector) error) error {
	return Do(g, func(ctx context.Context, s *Inspector) error {
		if err := s.Within(ctx, s.Ask); err != nil {
			return err
		}
		return do(ctx, s)
	})
}

// Within limits the time of an operation, and ends it when a permission turns out to be
// missing, which otherwise looks like silence.
func (s *Inspector) Within(whole context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(whole, s.Limit)
	defer cancel()
	missing, end := s.Denials.begin(s.Streams)
	defer end()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	select {
	case err := <-done:
		silent := errors.Is(err, context.DeadlineExceeded) || front.RefusedWith(err, front.CodeNoMetaLeader)
		x, ofOne := errors.AsType[streamError](err)
		took, answered := time.Duration(0), false
		if ofOne && silent {
			took, answered = s.answers(whole)
		}
		if answered && took > s.Limit/slowAnswer {
			return front.Exitf(front.ExitUnreachable, "stream %s has not answered all within %v: answers are slow, one took %v; set a longer --timeout", x.stream, s.Limit, took.Round(time.Millisecond))
		}
		if answered {
			return front.Exitf(front.ExitUnreachable, "stream %s does not answer: it has no leader, or a server of it hangs; natsleader doctor shows which", x.stream)
		}
		if silent && s.disabled(whole) {
			return front.Exitf(front.ExitUnreachable, "JetStream is not enabled for the account of this connection on %s", s.server())
		}
		if silent {
			return front.Exitf(front.ExitUnreachable, "JetStream does not answer on %s, which hangs or is cut off, or the cluster has lost its quorum or elects a leader", s.server())
		}
		if front.RefusedWith(err, front.CodeOffline) {
			if ofOne && x.stream != s.stream() {
				return front.Exitf(front.ExitUnreachable, "all servers that keep stream %s are away", x.stream)
			}
			return front.Exitf(front.ExitUnreachable, "all servers that keep the bucket are away")
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

// streamError is the error of a request about one stream.
type streamError struct {
	error
	stream string
}

func (e streamError) Unwrap() error { return e.error }

// AboutOne returns the error of a request about one stream. If that is silence, Within can blame the stream.
func AboutOne(stream string, err error) error {
	if err == nil {
		return nil
	}
	return streamError{err, stream}
}

// slowAnswer is which part of the time of an operation one answer takes at most, unless the connection is too slow for an
// operation of several.
const slowAnswer = 8

// answers reports whether JetStream answers about the bucket, and how long that took. It takes up to half the time of an operation.
func (s *Inspector) answers(ctx context.Context) (took time.Duration, answered bool) {
	if s.Js == nil {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, s.Limit/2)
	defer cancel()
	begun := time.Now()
	_, err := s.Info(ctx)
	return time.Since(begun), err == nil || errors.Is(err, leader.ErrNoBucket)
}

// For returns an inspector whose operations have time for some answers, one after the other.
func (s *Inspector) For(answers int) *Inspector {
	longer := *s
	longer.Limit *= time.Duration(answers)
	return &longer
}

// disabled reports whether the server says that the account may not use JetStream. It answers no other request then.
func (s *Inspector) disabled(ctx context.Context) bool {
	if s.Nc == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, s.Limit/OfOne) // the server of the connection answers by itself
	defer cancel()
	var answer struct{ Error *jetstream.APIError }
	reply, err := s.Nc.RequestWithContext(ctx, jsapi.APIPrefix(s.Js.Options())+"INFO", nil)
	return err == nil && json.Unmarshal(reply.Data, &answer) == nil && answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeJetStreamNotEnabledForAccount
}

// How often a read is sent at most. One of many records is no cheap request, and takes its time on a slow link.
const (
	OfOne  = 16
	OfMany = 4
)

// Again reads what any replica of the stream may be asked for. One that hangs does not answer for minutes, until the others give
// it up, so Again asks up to tries times in equal parts of the limit, and takes the first answer. ask is for one read: several
// all have to be answered by a replica that does not hang. Calls of ask run side by side, so it changes nothing.
func Again[T any](ctx context.Context, s *Inspector, stream string, tries int, ask func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, s.Limit)
	defer cancel()
	answers := make(chan answer, tries)
	next := time.NewTicker(max(1, s.Limit/time.Duration(tries)))
	defer next.Stop()
	for sent := 0; ; {
		if sent++; sent <= tries {
			go func() {
				value, err := ask(ctx)
				answers <- answer{value, err}
			}()
		}
		select {
		case first := <-answers:
			return first.value, AboutOne(stream, first.err)
		case <-next.C:
		}
	}
}

// Patient returns the bucket, with reads of a key that go on while a replica hangs.
func (s *Inspector) Patient() leader.Store {
	return backend.NewSeal[backend.Store](patient{s.Bucket.Backend(), s})
}

type patient struct {
	backend.Store
	s *Inspector
}

// Get implements [backend.Store].
func (p patient) Get(ctx context.Context, key string, reply func(backend.Entry, error)) {
	go func() {
		reply(Again(ctx, p.s, p.s.stream(), OfOne, func(ctx context.Context) (backend.Entry, error) {
			return backend.Await(func(reply func(backend.Entry, error)) { p.Store.Get(ctx, key, reply) })
		}))
	}()
}

// Answer is within, for an operation that returns a value.
func Answer[T any](ctx context.Context, s *Inspector, ask func(context.Context) (T, error)) (value T, err error) {
	err = s.Within(ctx, func(ctx context.Context) (err error) {
		value, err = ask(ctx)
		return err
	})
	return value, err
}

// stream is the name of the bucket's stream.
func (s *Inspector) stream() string { return "KV_" + s.Name }

// Info returns the state of the bucket's stream, and an error if the bucket does not exist.
func (s *Inspector) Info(ctx context.Context) (*jetstream.StreamInfo, error) {
	stream, err := s.Js.Stream(ctx, s.stream())
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("%w: %w", leader.ErrNoBucket, err)
	case err != nil:
		return nil, err
	}
	return stream.CachedInfo(), nil
}

// Domain returns the JetStream domain of the bucket, or an empty string if there is none or no answer. It asks only if the
// connection or the context names a domain.
func (s *Inspector) Domain(ctx context.Context) string {
	api := jsapi.APIPrefix(s.Js.Options())
	if s.Nc.ConnectedDomain() == "" && api == jetstream.DefaultAPIPrefix {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, s.Limit)
	defer cancel()
	var info struct {
		Domain string `json:"domain"`
	}
	if reply, err := s.Nc.RequestWithContext(ctx, api+"STREAM.INFO.KV_"+s.Name, nil); err == nil {
		_ = json.Unmarshal(reply.Data, &info) // an answer that is not understood names no domain
	}
	return info.Domain
}

// ErrNoMajority is wrapped in the error of majority.
var ErrNoMajority = errors.New("it is cut off from the others, or the cluster has lost its quorum or elects a leader")

// server names the server of the connection.
func (s *Inspector) server() string {
	if s.Nc == nil || !s.Nc.IsConnected() {
		return "the server"
	}
	return fmt.Sprintf("%s (%s)", s.Nc.ConnectedServerName(), s.Nc.ConnectedAddr())
}

// Majority returns an error if the state of the bucket's stream does not show that it has a majority of its servers.
func (s *Inspector) Majority(info *jetstream.StreamInfo) error {
	err := jsapi.Majority(info)
	if err == nil {
		return nil
	}
	why := strings.TrimPrefix(err.Error(), leader.ErrUnreachable.Error()+": ")
	return front.Exitf(front.ExitUnreachable, "%s sees no majority of the servers of bucket %s: %s; %w", s.server(), s.Name, why, ErrNoMajority)
}

// Ask learns the server's time, whether the bucket exists, and whether a majority of its servers keeps it. Without one,
// what a server answers may be long over.
func (s *Inspector) Ask(ctx context.Context) error {
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	s.Clock = NewServerClock(info.TimeStamp, 0)
	s.Roster, s.TTL = info.Config.Metadata[wire.RosterKey], info.Config.MaxAge
	s.History = info.Config.Metadata[facts.HistoryKey]
	return s.Majority(info)
}

// One reads one election, with the permissions of an observer.
func (s *Inspector) One(ctx context.Context, election string) (facts.ElectionStatus, error) {
	entry, err := backend.Await(func(reply func(backend.Entry, error)) { s.Patient().Backend().Get(ctx, election, reply) })
	return facts.NewElectionStatus(election, entry), err
}

// Look connects, and reads one election. The caller closes the inspector.
func Look(ctx context.Context, g *front.Globals, election string) (*Inspector, facts.ElectionStatus, error) {
	if err := CheckElection(election); err != nil {
		return nil, facts.ElectionStatus{}, err
	}
	s, err := New(ctx, g)
	if err != nil {
		return nil, facts.ElectionStatus{}, err
	}
	x, err := Answer(ctx, s, func(ctx context.Context) (facts.ElectionStatus, error) { return s.One(ctx, election) })
	if err != nil {
		s.Close()
	}
	return s, x, err
}

// All reads all elections, each with its note.
func (s *Inspector) All(ctx context.Context) ([]facts.ElectionStatus, error) {
	all, err := s.Keys(ctx)
	return withNotes(all), err
}

// Keys reads the newest revision of every key through one consumer.
func (s *Inspector) Keys(ctx context.Context) ([]facts.ElectionStatus, error) {
	kv, err := s.Js.KeyValue(ctx, s.Name)
	if err != nil {
		return nil, AboutOne(s.stream(), err)
	}
	entries, err := entriesOf(ctx, kv)
	all := make([]facts.ElectionStatus, 0, len(entries))
	for _, e := range entries {
		if x := facts.NewElectionStatus(e.Key(), natskv.EntryOf(e)); e.Key() != wire.CordonKey {
			all = append(all, x)
		} else {
			s.Cordoned = x
		}
	}
	return all, AboutOne(s.stream(), err)
}

// Announced returns what the roster holds, each with its key as the session.
func (s *Inspector) Announced(ctx context.Context) ([]backend.Announcement, error) {
	b, ofNATS := s.Bucket.Backend().(*natskv.Bucket) // each Bucket is one
	if s.Roster == "" || !ofNATS {
		return nil, leader.ErrNoRoster
	}
	return Again(ctx, s, "KV_"+s.Roster, OfMany, b.Announced)
}

// entriesOf reads the newest entry of every key of a bucket, in the order of the keys. If
// the last of the initial entries of a watch has just expired, the watch never reports
// that there are no more. So entriesOf begins again when the watch is silent.
func entriesOf(ctx context.Context, kv jetstream.KeyValue) ([]jetstream.KeyValueEntry, error) {
	for silence := 500 * time.Millisecond; ; silence *= 2 {
		status, err := kv.Status(ctx)
		if err != nil {
			return nil, err
		}
		keys := 0
		if status.History() == 1 { // each value is that of another key
			keys = int(status.Values())
		}
		w, end, err := opened(ctx, ctx, func(life context.Context) (jetstream.KeyWatcher, error) { return kv.WatchAll(life) })
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
			return nil, fmt.Errorf("%w: not all keys came in time: %w", leader.ErrUnreachable, ctx.Err())
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

// Watch follows one election, or all of them if there is no name, until end is called or
// ctx ends. The current entries of the keys come first, and then nil. The time for the
// opening is limited.
func (s *Inspector) Watch(ctx context.Context, election string) (w jetstream.KeyWatcher, end context.CancelFunc, err error) {
	failed := s.Within(ctx, func(limited context.Context) error {
		w, end, err = opened(limited, ctx, func(life context.Context) (jetstream.KeyWatcher, error) {
			kv, failed := s.Js.KeyValue(life, s.Name)
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

// CheckElection applies the rules of KV keys, so that no wildcard and no empty
// part reaches the server.
func CheckElection(name string) error {
	fit := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-/_=.", r)
	}
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !fit(r) }) ||
		strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") {
		return front.Usagef("election %q may contain only letters, digits and -/_=., and no empty part", name)
	}
	if of, ok := strings.CutPrefix(name, facts.NotePrefix); ok {
		return front.Usagef("%s is no election, but the key of a note: see natsleader note %s", name, of)
	}
	if name == wire.CordonKey {
		return front.Usagef("%s is the key of the cordon: see natsleader drain", name)
	}
	return nil
}

func electionsIn(all []facts.ElectionStatus) (names []string) {
	for _, x := range all {
		if CheckElection(x.Election) == nil { // others may write any key, and shells take any byte
			names = append(names, x.Election)
		}
	}
	return names
}

// NamesToShow completes the name of an election or a group.
func NamesToShow(g *front.Globals) []string {
	return Complete(g, "names", func(ctx context.Context, s *Inspector) ([]string, error) {
		all, err := s.All(ctx)
		return append(electionsIn(all), GroupsIn(all)...), err
	})
}

// quiet is how long a tool that follows elections waits for a sign of a majority of the servers, as a
// candidate does at a lease of 15 s.
var quiet = wire.Quiet(wire.DefaultLease, wire.RenewInterval(wire.DefaultLease))

// Heard takes the answer to a request for the state of the stream. If none has shown a majority for too
// long, the connection moves to another server.
func (s *Inspector) Heard(info *jetstream.StreamInfo, err error) error {
	if err == nil {
		err = s.Majority(info)
	}
	switch code := front.CodeOf(err); {
	case err == nil || code == front.ExitBucket:
		s.mover.Signed()
	case code != front.ExitDenied && !errors.Is(err, context.Canceled):
		s.mover.Move(quiet, func(string) bool { return true })
	}
	return err
}

// StreamLeader names the leader of a stream, where there is one.
func StreamLeader(info *jetstream.StreamInfo) string {
	if info.Cluster == nil {
		return ""
	}
	return info.Cluster.Leader
}
