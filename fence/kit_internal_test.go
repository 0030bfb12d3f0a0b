package fence

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/jsapi"
)

// desk is a bucket B and a stream S in a bubble. The test plays the servers that keep them, so
// it decides about each reply. The bucket's guard stands at revision 1.
type desk struct {
	*testing.T
	term
	s       *server.Server
	js      jetstream.JetStream
	nc      *nats.Conn // of the writers
	replier *nats.Conn
	bucket  *Bucket
	w       *BucketWriter
	zero    time.Time

	mu      sync.Mutex
	rule    func(m *nats.Msg, nth int) []byte // the reply; nil: as a stream replies
	tries   int                               // to write, single or batch; the rule has their number, or 0
	got     []*nats.Msg                       // writes, in the order of their arrival
	asked   []string                          // the API requests
	conf    jetstream.StreamConfig
	cluster *jetstream.ClusterInfo
	last    uint64
	stored  map[string]stored
	ids     map[string]uint64
	batches map[string][]*nats.Msg
}

// stored is the last message of a subject.
type stored struct {
	Sequence uint64    `json:"seq"`
	Header   []byte    `json:"hdrs"`
	Data     []byte    `json:"data"`
	Time     time.Time `json:"time"`
}

// silence is the reply of a rule that lets no reply be sent.
var silence = []byte("no reply")

// The users of the server. The writer may not write the key denied. The mute one may not ask for
// versions, and the deaf one hears no replies.
var users = []*server.User{
	{Username: "replier"},
	{Username: "writer", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$KV.B.denied"}}}},
	{Username: "mute", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$SYS.>"}}}},
	{Username: "deaf", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"_INBOX.>"}}}},
}

// dial connects as a user.
func (d *desk) dial(user string) *nats.Conn {
	d.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(d.s), nats.UserInfo(user, ""), nats.NoEcho(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	d.ok(err)
	return nc
}

// atDesk runs a test with a bucket that has so many replicas.
func atDesk(t *testing.T, replicas int, f func(d *desk)) {
	t.Helper()
	runtime.GC() // nats.go's pool of timers must not get from one bubble to another: two
	runtime.GC() // collections empty it
	synctest.Test(t, func(t *testing.T) {
		d := &desk{T: t, stored: map[string]stored{}, ids: map[string]uint64{}, batches: map[string][]*nats.Msg{}}
		s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, ServerName: "me", Users: users})
		d.ok(err)
		s.Start()
		defer time.Sleep(time.Minute) // what is tried again ends, because the connection is closed
		defer s.WaitForShutdown()
		defer s.Shutdown()
		d.s = s
		d.nc = d.dial("writer")
		defer func() { d.nc.Close() }() // a test may have taken another user
		d.replier = d.dial("replier")
		defer d.replier.Close()
		for _, subject := range []string{">", "$SYS.REQ.ACCOUNT.PING.STATZ"} {
			_, err = d.replier.Subscribe(subject, d.serve)
			d.ok(err)
		}
		d.ok(d.replier.Flush())
		d.js, err = jetstream.New(d.nc)
		d.ok(err)
		d.bucket, err = OpenBucket(d.js, "B")
		d.ok(err)
		d.conf = jetstream.StreamConfig{Name: "KV_B", Subjects: []string{"$KV.B.>"}, Replicas: replicas, AllowAtomicPublish: true, Metadata: map[string]string{"_nats.ver": "2.12.4"}}
		d.term = term{revision: 1, moved: make(chan struct{}), over: make(chan struct{}), value: []byte("mine")}
		d.put("$KV.B.natsleader.guard", "mine", nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"0"}})
		_, err = d.bucket.settings(t.Context())
		d.ok(err)
		d.w = &BucketWriter{b: d.bucket, l: &writeQueue{s: &d.bucket.guardedStream, f: &d.term}}
		d.zero, d.asked = time.Now(), nil
		f(d)
	})
}

func (d *desk) ok(err error) {
	d.Helper()
	check.OK(d, err)
}

// follow sets the rule for the replies from now on.
func (d *desk) follow(rule func(m *nats.Msg, nth int) []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rule, d.tries = rule, 0
}

// serve replies to a request.
func (d *desk) serve(m *nats.Msg) {
	if strings.HasPrefix(m.Subject, "_INBOX.") {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	nth := 0
	if strings.HasPrefix(m.Subject, "$JS.API.") || strings.HasPrefix(m.Subject, "$SYS.") {
		d.asked = append(d.asked, m.Subject)
	} else {
		d.got = append(d.got, m)
		if len(d.got) > 5000 { // it would never end, and no time passes
			d.Errorf("more and more writes of %s", m.Subject)
			go d.nc.Close()
		}
		if m.Header.Get(batchIDHeader) == "" || m.Header.Get(batchCommitHeader) != "" {
			d.tries++
			nth = d.tries
		}
	}
	var reply []byte
	if d.rule != nil {
		reply = d.rule(m, nth)
	}
	if reply == nil {
		reply = d.apply(m)
	}
	if m.Reply != "" && string(reply) != string(silence) {
		_ = m.Respond(reply)
	}
}

// apply does what a stream does with a message, and returns its reply. d is locked.
func (d *desk) apply(m *nats.Msg) []byte {
	switch {
	case strings.HasPrefix(m.Subject, "$SYS."):
		return silence
	case strings.HasPrefix(m.Subject, "$JS.API.STREAM.INFO."):
		return encode(map[string]any{"config": d.conf, "cluster": d.cluster})
	case strings.HasPrefix(m.Subject, "$JS.API.STREAM.MSG.GET."):
		var req struct {
			Subject string `json:"last_by_subj"`
		}
		_ = json.Unmarshal(m.Data, &req)
		if e, ok := d.stored[req.Subject]; ok {
			return encode(map[string]any{"message": e})
		}
		return refusal(404, jsapi.CodeNoMessage, "no message found")
	}
	id := m.Header.Get(batchIDHeader)
	if id == "" {
		return d.store([]*nats.Msg{m})
	}
	batch := append(d.batches[id], m)
	d.batches[id] = batch
	switch {
	case m.Header.Get(batchSequenceHeader) != strconv.Itoa(len(batch)):
		return refusal(400, jsapi.CodeBatchIncomplete, "atomic publish batch is incomplete")
	case m.Header.Get(batchCommitHeader) == "":
		return []byte{}
	}
	return d.store(batch)
}

// store stores messages if their conditions hold, and returns the reply. d is locked.
func (d *desk) store(batch []*nats.Msg) []byte {
	for _, m := range batch {
		seq, ok := d.ids[m.Header.Get(jetstream.MsgIDHeader)]
		switch {
		case ok && len(batch) > 1:
			return known
		case ok:
			return encode(map[string]any{"stream": d.conf.Name, "seq": seq, "duplicate": true})
		}
		want := m.Header.Get(jetstream.ExpectedLastSubjSeqHeader)
		on := m.Header.Get(jetstream.ExpectedLastSubjSeqSubjHeader)
		if on == "" {
			on = m.Subject
		}
		if now := d.stored[on].Sequence; want != "" && want != strconv.FormatUint(now, 10) {
			return refusal(400, 10071, "wrong last sequence: "+strconv.FormatUint(now, 10))
		}
	}
	for _, m := range batch {
		d.put(m.Subject, string(m.Data), m.Header)
		if id := m.Header.Get(jetstream.MsgIDHeader); id != "" {
			d.ids[id] = d.last
		}
	}
	return encode(map[string]any{"stream": d.conf.Name, "seq": d.last})
}

// put stores a message whatever its conditions. d is locked, or nothing is sent.
func (d *desk) put(subject, data string, h nats.Header) {
	d.last++
	text := "NATS/1.0\r\n"
	for name, values := range h {
		for _, v := range values {
			text += name + ": " + v + "\r\n"
		}
	}
	d.stored[subject] = stored{d.last, []byte(text + "\r\n"), []byte(data), d.zero}
}

// have stores a message whatever its conditions, and returns its sequence.
func (d *desk) have(subject, data string) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.put(subject, data, nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"0"}})
	return d.last
}

// came returns the writes that have come since it was called before: key=value.
func (d *desk) came() string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, m := range d.got {
		all = append(all, strings.TrimPrefix(m.Subject, "$KV.B.")+"="+string(m.Data))
	}
	d.got, d.asked = nil, nil
	return strings.Join(all, " ")
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// refusal is the reply with an error of the JetStream API.
func refusal(code, number int, text string) []byte {
	return encode(map[string]any{"error": jetstream.APIError{Code: code, ErrorCode: jetstream.ErrorCode(number), Description: text}})
}

// The replies of a server that has stored a message with the same ID, that does not lead the
// stream, and that finds a condition which does not hold and does not name the sequence.
var (
	known   = refusal(400, jsapi.CodeBatchDuplicate, "batch publish contains duplicate message id")
	notNow  = refusal(503, jsapi.CodeClusterNotAvailable, "JetStream system temporarily unavailable")
	refused = refusal(400, 10164, "wrong last sequence")
)

const guardSubject = "$KV.B.natsleader.guard"

// named is the refusal that names a sequence.
func named(sequence string) []byte { return refusal(400, 10071, "wrong last sequence: "+sequence) }

// streamWriter returns a writer of messages to the bucket's stream.
func (d *desk) streamWriter() *StreamWriter {
	d.Helper()
	s := check.Got(OpenStream(d.js, "KV_B", guardSubject))(d)
	check.OK(d, check.Err(s.settings(d.Context())))
	return &StreamWriter{s: s, l: &writeQueue{s: &s.guardedStream, f: &d.term}}
}

// call is a write that was begun.
type call struct {
	d     *desk
	ended bool
	err   error
	after time.Duration
}

// begin begins a write, and returns when it waits for something.
func (d *desk) begin(f func() error) *call {
	c := &call{d: d}
	go func() {
		err := f()
		d.mu.Lock()
		defer d.mu.Unlock()
		c.ended, c.err, c.after = true, err, time.Since(d.zero)
	}()
	synctest.Wait()
	return c
}

// is fails the test unless the call has ended at that time with that error. A nil error is success.
func (c *call) is(at time.Duration, want error) {
	c.d.Helper()
	synctest.Wait()
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	check.Must(c.d, c.ended && c.after == at && errors.Is(c.err, want),
		"ended %v after %v, want %v: %v, want %v", c.ended, c.after, at, c.err, want)
}

// until lets time pass until d.
func (d *desk) until(at time.Duration) {
	d.Helper()
	now := time.Since(d.zero)
	check.Must(d, at >= now, "it is %v already, and not %v", now, at)
	time.Sleep(at - time.Since(d.zero))
	synctest.Wait()
}

// term implements [backend.Fence]: a term whose guard has the value "mine".
type term struct {
	lock     sync.Mutex
	revision uint64
	moved    chan struct{}
	passed   bool
	suspects int
	over     chan struct{}
	value    []byte
	watch    func(text string) // is called when the guard moves or is reported; nil: is not
}

func (f *term) watched(text string) {
	if f.watch != nil {
		f.watch(text)
	}
}

func (f *term) Current() (uint64, <-chan struct{}) {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.revision, f.moved
}

func (f *term) Move(revision uint64, anew bool) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if revision > f.revision || anew {
		f.revision = revision
		f.watched(fmt.Sprintf("the guard is at %d", revision))
		close(f.moved)
		f.moved = make(chan struct{})
	}
}

func (f *term) Judge(e backend.Entry) backend.GuardStatus {
	own, _ := f.Current()
	switch {
	case 0 < e.Revision && e.Revision < own:
		return backend.GuardOlder
	case string(e.Value) == "mine":
		f.Move(e.Revision, false)
		return backend.GuardStill
	case string(e.Value) == "taken":
		return backend.GuardTaken
	case string(e.Value) == "later":
		f.lock.Lock()
		defer f.lock.Unlock()
		f.passed = true
		return backend.GuardLater
	}
	return backend.GuardNot
}

func (f *term) Passed() bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.passed
}

func (f *term) Suspect() {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.suspects++
	f.watched("the guard is reported")
}

func (f *term) Over() <-chan struct{}        { return f.over }
func (f *term) Value() []byte                { return f.value }
func (f *term) Shared(create func() any) any { return create() }
