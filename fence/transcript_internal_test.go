package fence

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/leader"
)

var updateTranscripts = flag.Bool("update", false, "rewrite the transcripts in testdata")

// TestTranscripts_Hold runs the scripts in testdata. A line is an action. The lines below it,
// indented, are what happened until nothing moved any more: the messages that came to the server, its
// reads, the moves of the guard, and the ends of the calls. Each has its time. At one instant the ends
// of calls are last. -update writes these lines anew, and the difference is the review.
//
//	desk [replicas=3] [user=deaf] [shows=14]  a new term, with its guard at revision 1 and the key k at 2.
//	                          Of equal events at one line, three are shown, or so many
//	a put k=1 [within=3s]     the call a begins; also create, delete, purge, and update k=1 last=2.
//	                          x*9 is a value of 9 bytes
//	a put k=1 and put j=2     one batch
//	a publish k=1 [Nats-Msg-Id=mine] [and ...]  by a StreamWriter, with headers if there are any
//	a check, read, raise last=0  the call a of the guard by a candidate
//	cancel a [taken]          the context of a ends, and before a notices that, its write, the first in
//	                          line, is taken, sent, acknowledged or rejected
//	wait 5s
//	reply KIND WORD...        the replies from now on, the last of them to all others. KIND is writes
//	                          (single messages and ends of batches), parts (the other messages of
//	                          batches), reads, settings, or the key of a write. WORD is ok, silence,
//	                          nobody, hold, or the name of a reply; stored+WORD stores the message first
//	answer k [WORD]           the reply to the oldest held write of k
//	store k=1 [HEADER=VALUE]  a client writes the key; copied: with the headers of the held write of it,
//	                          as the server copies it
//	drop k                    the key has no message any more
//	raise                     the candidate raises the guard again
//	over, passed              the term ends, or is known to be passed by a later one
//	config [replicas=3] [batches=no] [window=4s] [ttl=yes]  the stream is changed. settings reads that
//	behind [head=4098] [bytes=9]  the queue has written so much since the guard moved
//	queue                     shows what the queue knows about the stream
//	close, shutdown           of the connection, of the server
//
// At the end of a desk the queue is idle. If the connection is open, the queue takes a batch at once.
func TestTranscripts_Hold(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	check.Must(t, err == nil && len(files) != 0, "no transcripts: %v", err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want := string(check.Got(os.ReadFile(file))(t))
			desks := strings.Split(want, "\ndesk")
			for i := range desks[1:] {
				desks[i+1] = transcript(t, desks[i+1])
			}
			got := strings.Join(desks, "\ndesk")
			if *updateTranscripts {
				check.OK(t, os.WriteFile(file, []byte(got), 0o666))
				return
			}
			wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
			for i := range min(len(wants), len(gots)) {
				around := strings.Join(gots[max(0, i-6):min(len(gots), i+8)], "\n")
				check.Must(t, gots[i] == wants[i], "%s:%d differs; it is now\n%s", file, i+1, around)
			}
			check.Must(t, len(wants) == len(gots), "%s has %d lines, want %d", file, len(gots), len(wants))
		})
	}
}

// script is a desk with the replies of a script, which records what happens.
type script struct {
	*desk
	replies map[string][]string // by kind
	count   map[string]int      // of messages of a kind since its replies were set
	held    []*nats.Msg
	parts   map[string][]string // of the batches whose end has not come
	names   map[string]string   // A, B, ... in place of random names
	cancels map[string]context.CancelFunc
	open    map[string]bool // calls that have not ended
	stream  *StreamWriter

	log    sync.Mutex
	events []event
	shows  int // the number of equal events at one line of the script that are written down
}

// event is something that happened. The ends of calls have a name.
type event struct {
	at         time.Duration
	text, call string
}

// transcript runs the actions of one desk, and returns them with what happens now.
func transcript(t *testing.T, text string) string {
	t.Helper()
	first, rest, _ := strings.Cut(text, "\n")
	out := []string{first}
	name, _, _ := strings.Cut(rest, "\n") // a comment
	options := settingsOf(strings.Fields(first))
	replicas, _ := strconv.Atoi(options["replicas"])
	atDesk(t, max(1, replicas), func(d *desk) {
		s := &script{
			desk: d, replies: map[string][]string{}, count: map[string]int{}, parts: map[string][]string{},
			names: map[string]string{}, cancels: map[string]context.CancelFunc{}, open: map[string]bool{},
			shows: 3,
		}
		if n, err := strconv.Atoi(options["shows"]); err == nil {
			s.shows = n
		}
		if user := options["user"]; user != "" {
			d.nc.Close()
			d.nc = d.dial(user)
			d.bucket = check.Got(OpenBucket(check.Got(jetstream.New(d.nc))(d), "B"))(d)
			d.bucket.api.Known.Store(&d.conf)
			d.w = &BucketWriter{b: d.bucket, l: &writeQueue{s: &d.bucket.guardedStream, f: &d.term}}
		}
		d.have("$KV.B.k", "old")
		d.watch = func(text string) { s.happened(text, "") }
		d.follow(s.rule)
		for line := range strings.SplitSeq(rest, "\n") {
			if strings.HasPrefix(line, "  ") {
				continue // what happened before
			}
			out = append(out, line)
			if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
				s.act(words)
				out = append(out, s.news()...)
			}
		}
		s.idle(name)
	})
	return strings.Join(out, "\n")
}

// idle fails the test unless all calls have ended in time, and the queue is as if nothing had been
// written.
func (s *script) idle(name string) {
	s.Helper()
	s.follow(nil)
	time.Sleep(6 * time.Second)
	synctest.Wait()
	check.That(s, len(s.open) == 0, "%s: calls that have not ended: %v", name, s.open)
	for _, cancel := range s.cancels {
		cancel()
	}
	synctest.Wait()
	now, _ := s.Current()
	check.Equal(s, s.w.GuardRevision(), now, "the guard of the writer is at %d")
	if s.stream != nil {
		check.Equal(s, s.stream.GuardRevision(), now, "the guard of the stream's writer is at %d")
	}
	l := s.w.l
	check.That(s, !l.busy && l.direct == 0 && len(l.queue) == 0 && l.directDone == nil,
		"%s: the queue is not idle: busy %v, %d turns, %d in line, a wait for their end %v",
		name, l.busy, l.direct, len(l.queue), l.directDone != nil)
	if !s.nc.IsConnected() || s.nc.Opts.User == "deaf" {
		return
	}
	began := time.Now()
	_, err := s.batch("put x and put y").Commit(s.Context())
	fine := err == nil || errors.Is(err, leader.ErrFenced) || errors.Is(err, leader.ErrIncompatibleBucket)
	check.That(s, time.Since(began) == 0 && fine, "%s: a batch afterwards takes %v: %v", name, time.Since(began), err)
}

// settingsOf returns the words that are settings: name=value.
func settingsOf(words []string) map[string]string {
	all := map[string]string{}
	for _, word := range words {
		if name, value, ok := strings.Cut(word, "="); ok {
			all[name] = value
		}
	}
	return all
}

// act carries out a line of the script.
func (s *script) act(words []string) {
	given := settingsOf(words[1:])
	switch words[0] {
	case "wait":
		d, err := time.ParseDuration(words[1])
		s.ok(err)
		time.Sleep(d)
	case "reply":
		s.mu.Lock()
		s.replies[words[1]], s.count[words[1]] = words[2:], 0
		s.mu.Unlock()
	case "answer":
		i := s.heldOf(words[1])
		check.Must(s, i >= 0, "%q: there is no such write, but %d others", words, len(s.held))
		m := s.held[i]
		s.held = slices.Delete(s.held, i, i+1)
		s.mu.Lock()
		if reply := s.reply(m, append(words, "ok")[2]); reply == nil {
			_ = m.Respond(s.apply(m))
		} else if string(reply) != string(silence) {
			_ = m.Respond(reply)
		}
		s.mu.Unlock()
	case "store":
		key, value, _ := strings.Cut(words[1], "=")
		h := nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"0"}}
		if i := s.heldOf(key); slices.Contains(words, "copied") {
			h = maps.Clone(s.held[i].Header)
			h.Set(jetstream.StreamHeader, "KV_B")
		}
		for name, value := range settingsOf(words[2:]) {
			h.Set(name, value)
		}
		s.mu.Lock()
		s.put(subjectOf(key), value, h)
		s.mu.Unlock()
	case "drop":
		s.mu.Lock()
		delete(s.stored, subjectOf(words[1]))
		s.mu.Unlock()
	case "raise":
		s.Move(s.have(guardSubject, "mine"), true)
	case "over":
		close(s.over)
	case "passed":
		s.passed = true
	case "config":
		s.conf.Duplicates, _ = time.ParseDuration(given["window"])
		s.conf.AllowAtomicPublish, s.conf.AllowMsgTTL = given["batches"] != "no", given["ttl"] == "yes"
		if n, err := strconv.Atoi(given["replicas"]); err == nil {
			s.conf.Replicas = n
		}
	case "settings":
		s.ok(check.Err(s.bucket.settings(s.Context())))
	case "behind":
		s.w.l.head, _ = strconv.ParseUint(given["head"], 10, 64)
		s.w.l.bytes, _ = strconv.Atoi(given["bytes"])
	case "queue":
		s.happened(fmt.Sprintf("head %d, %d bytes, unknown outcome %v", s.w.l.head, s.w.l.bytes, s.w.l.unknownOutcome), "")
	case "close":
		s.nc.Close()
	case "shutdown":
		s.s.Shutdown()
	case "cancel":
		s.cancel(words[1], append(words, "")[2])
	default:
		s.call(words[0], words[1:], given)
	}
}

// cancel ends the context of a call, whose write is the first in line. If it says when, something
// happens to the write before the caller can take the queue's lock.
func (s *script) cancel(name, when string) {
	l := s.w.l
	l.mu.Lock()
	defer l.mu.Unlock()
	s.cancels[name]() // the select of the caller is decided
	switch when {
	case "taken":
		l.take()
	case "sent":
		l.queue[0].sent = true
	case "acknowledged", "rejected":
		c := l.queue[0]
		l.queue, c.sent = nil, true
		if when == "rejected" {
			c.err = leader.ErrFenced
		}
		close(c.done)
	}
}

// heldOf returns the index of the oldest held write of a key, or -1.
func (s *script) heldOf(key string) int {
	return slices.IndexFunc(s.held, func(m *nats.Msg) bool { return keyOf(m.Subject) == key })
}

// call begins a call.
func (s *script) call(name string, words []string, given map[string]string) {
	ctx, cancel := context.WithCancel(s.Context())
	if limit, err := time.ParseDuration(given["within"]); err == nil {
		ctx, cancel = context.WithTimeout(s.Context(), limit)
	}
	s.cancels[name], s.open[name] = cancel, true
	words = slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "within=") })
	var data []byte // the value of a single write; its caller may use it again afterwards
	do := func() (string, error) {
		if words[0] == "publish" {
			return s.publish(ctx, words)
		}
		if len(words) == 1 || words[0] == "raise" {
			return s.guard(ctx, words[0], given)
		}
		key, value, _ := strings.Cut(words[1], "=")
		data = valueOf(value)
		var revision uint64
		var err error
		last, _ := strconv.ParseUint(given["last"], 10, 64)
		switch {
		case slices.Contains(words, "and"):
			revisions, failed := s.batch(strings.Join(words, " ")).Commit(ctx)
			return strings.Trim(fmt.Sprint(revisions), "[]"), failed
		case words[0] == "put":
			revision, err = s.w.Put(ctx, key, data)
		case words[0] == "create":
			revision, err = s.w.Create(ctx, key, data)
		case words[0] == "update":
			revision, err = s.w.Update(ctx, key, data, last)
		case words[0] == "delete":
			err = s.w.Delete(ctx, key)
		case words[0] == "purge":
			err = s.w.Purge(ctx, key)
		default:
			s.Errorf("%q is no action", words)
		}
		return fmt.Sprint(revision), err
	}
	go func() {
		defer cancel()
		result, err := do()
		if err != nil {
			result = namesOf(err)
		}
		copy(data, "junkjunk")
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, name)
		s.happened(name+": "+result, name)
	}()
	synctest.Wait()
}

// batch returns a batch of writes, with "and" between them.
func (s *script) batch(text string) *BucketBatch {
	b := s.w.Batch()
	for one := range strings.SplitSeq(text, " and ") {
		words := strings.Fields(one)
		key, value, _ := strings.Cut(words[1], "=")
		switch words[0] {
		case "put":
			b.Put(key, valueOf(value))
		case "create":
			b.Create(key, valueOf(value))
		case "update":
			last, _ := strconv.ParseUint(settingsOf(words[2:])["last"], 10, 64)
			b.Update(key, valueOf(value), last)
		case "delete":
			b.Delete(key)
		case "purge":
			b.Purge(key)
		default:
			s.Errorf("%q is not for a batch", one)
		}
	}
	return b
}

// guard calls a method of the guard, as a candidate does.
func (s *script) guard(ctx context.Context, method string, given map[string]string) (result string, err error) {
	g, done := s.bucket.Backend(), make(chan struct{})
	switch method {
	case "check":
		g.Check(ctx, func(e error) {
			result, err = "fit", e
			close(done)
		})
	case "read":
		g.Get(ctx, func(is backend.Entry, e error) {
			result, err = fmt.Sprintf("%s at %d, a marker: %v", is.Value, is.Revision, is.Marker), e
			close(done)
		})
	case "raise":
		last, _ := strconv.ParseUint(given["last"], 10, 64)
		g.Update(ctx, []byte("mine"), last, func(revision uint64, e error) {
			result, err = fmt.Sprint(revision), e
			close(done)
		})
	}
	<-done
	return result, err
}

// valueOf returns the value of a write.
func valueOf(text string) []byte {
	if n, err := strconv.Atoi(strings.TrimPrefix(text, "x*")); err == nil && strings.HasPrefix(text, "x*") {
		return make([]byte, n)
	}
	return []byte(text)
}

// publish publishes messages, with "and" between them, and fails the test if their headers change meanwhile. A single
// message is published without a batch. One without headers is published as its subject and data.
func (s *script) publish(ctx context.Context, words []string) (string, error) {
	if s.stream == nil {
		s.stream = s.streamWriter()
	}
	b, all := s.stream.Batch(), strings.Split(strings.Join(words[1:], " "), " and ")
	commit := b.Commit
	for _, one := range all {
		words := strings.Fields(one)
		key, value, _ := strings.Cut(words[0], "=")
		m := &nats.Msg{Subject: subjectOf(key), Data: []byte(value), Header: nats.Header{}}
		for name, value := range settingsOf(words[1:]) {
			m.Header[name] = []string{value}
		}
		before := maps.Clone(m.Header)
		switch bare := len(before) == 0; {
		case bare && len(all) == 1:
			commit = func(ctx context.Context) (*jetstream.PubAck, error) { return s.stream.Publish(ctx, m.Subject, m.Data) }
		case bare:
			b.Publish(m.Subject, m.Data)
		case len(all) == 1:
			commit = func(ctx context.Context) (*jetstream.PubAck, error) { return s.stream.PublishMsg(ctx, m) }
		default:
			b.PublishMsg(m)
		}
		defer func() {
			check.Deep(s, m.Header, before)
			for name := range m.Header { // its caller may use it again
				m.Header[name] = []string{"junk"}
			}
			copy(m.Data, "junkjunk")
		}()
	}
	ack, err := commit(ctx)
	if err != nil {
		return "", err
	}
	check.Equal(s, ack.Stream, "KV_B", "acknowledged by %q")
	if ack.Duplicate {
		return fmt.Sprintf("%d, a duplicate", ack.Sequence), nil
	}
	return fmt.Sprint(ack.Sequence), nil
}

func keyOf(subject string) string {
	return strings.TrimPrefix(strings.TrimPrefix(subject, "$KV.B."), "natsleader.")
}

func subjectOf(key string) string {
	if strings.HasPrefix(key, "guard") {
		key = "natsleader." + key
	}
	return "$KV.B." + key
}

// happened records something.
func (s *script) happened(text, call string) {
	s.log.Lock()
	defer s.log.Unlock()
	s.events = append(s.events, event{time.Since(s.zero), text, call})
}

// rule records a message and returns the reply of the script.
func (s *script) rule(m *nats.Msg, nth int) []byte {
	kind, key := "writes", keyOf(m.Subject)
	switch {
	case strings.HasPrefix(m.Subject, "$JS.API.STREAM.INFO."):
		kind = "settings"
		s.happened("settings are read", "")
	case strings.HasPrefix(m.Subject, "$JS.API.STREAM.MSG.GET."):
		kind = "reads"
		_, of, _ := strings.Cut(string(m.Data), `:"`)
		s.happened("read "+keyOf(strings.TrimRight(of, `"}`)), "")
	case nth == 0:
		kind = "parts"
		id := m.Header.Get(batchIDHeader)
		text := s.describe(m)
		if m.Reply != "" {
			text += " with reply"
		}
		s.parts[id] = append(s.parts[id], text)
	default:
		id := m.Header.Get(batchIDHeader)
		s.happened(strings.Join(append(s.parts[id], s.describe(m)), " | "), "")
		delete(s.parts, id)
	}
	if s.replies[key] != nil && m.Reply != "" {
		kind = key
	}
	words := append([]string{"ok"}, s.replies[kind]...)
	s.count[kind]++
	return s.reply(m, words[min(s.count[kind], len(words)-1)])
}

// shortHeaders are the headers as the transcripts show them.
var shortHeaders = strings.NewReplacer(
	"Nats-Expected-Last-Subject-Sequence-Subject", "on", "Nats-Expected-Last-Subject-Sequence", "at",
	"Nats-Batch-Id", "batch", "Nats-Batch-Sequence", "nth", "Nats-Batch-Commit", "commit", "Nats-Msg-Id", "id",
	"$KV.B.", "", "natsleader.", "")

// describe returns the key, the value and the headers of a write.
func (s *script) describe(m *nats.Msg) string {
	text := []string{fmt.Sprintf("%s=%.20s", m.Subject, m.Data)}
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		value := strings.Join(m.Header[name], ",")
		if head, tail, _ := strings.Cut(value, "."); len(head) == 26 { // a random name
			if s.names[head] == "" {
				s.names[head] = string(rune('A' + len(s.names)%26))
			}
			value = s.names[head] + tail
		}
		text = append(text, name+"="+value)
	}
	return shortHeaders.Replace(strings.Join(text, " "))
}

// reply returns the reply of that name to a message. The desk is locked.
func (s *script) reply(m *nats.Msg, word string) []byte {
	rest, stored := strings.CutPrefix(word, "stored+")
	if stored {
		s.apply(m)
	}
	name, sequence, named := strings.Cut(rest, "@")
	switch {
	case rest == "ok":
		return nil
	case rest == "nobody":
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"503"}}})
		return silence
	case rest == "hold":
		s.held = append(s.held, m)
		return silence
	case name == "ack":
		return []byte(`{"stream":"KV_B","seq":` + sequence + `}`)
	case named:
		return refusal(400, 10071, "wrong last sequence: "+sequence)
	}
	reply, ok := replies[name]
	check.That(s, ok, "there is no reply %q", word)
	return reply
}

// replies are the replies of a server by their names in transcripts.
var replies = map[string][]byte{
	"silence": silence, "known": known, "notnow": notNow, "refused": refused, "junk": []byte("junk"),
	"incomplete": refusal(400, jsapi.CodeBatchIncomplete, "atomic publish batch is incomplete"),
	"nobatches":  refusal(400, jsapi.CodeBatchDisabled, "atomic publish is disabled"),
	"full":       refusal(500, jsapi.CodeStoreFailed, "full"),
	"exceeded":   refusal(500, jsapi.CodeResourcesExceeded, "full"),
	"nospace":    refusal(500, jsapi.CodeNoResources, "full"),
	"broken":     refusal(500, 10099, "broken"),
}

// errorNames are the errors that decide what a caller, or the queue, does next.
var errorNames = []struct {
	err  error
	name string
}{
	{ErrUnknownOutcome, "unknown outcome"},
	{leader.ErrFenced, "fenced"},
	{errNotNow, "not now"},
	{errIncomplete, "incomplete"},
	{errStored, "stored before"},
	{errStage, "not staged"},
	{backend.ErrRefused, "refused"},
	{leader.ErrIncompatibleBucket, "unfit"},
	{leader.ErrUnreachable, "unreachable"},
	{leader.ErrConnectionClosed, "closed"},
	{leader.ErrPermission, "permission"},
	{leader.ErrValueTooLarge, "too large"},
	{leader.ErrInvalidConfig, "invalid"},
	{jetstream.ErrKeyExists, "key exists"},
	{jetstream.ErrKeyRevisionMismatch, "revision mismatch"},
	{nats.ErrBadHeaderMsg, "bad header"},
	{nats.ErrNoResponders, "no responders"},
	{context.DeadlineExceeded, "deadline"},
	{context.Canceled, "canceled"},
}

// namesOf returns the names of what an error is.
func namesOf(err error) string {
	var names []string
	for _, e := range errorNames {
		if len(names) > 0 && names[0] == "unknown outcome" && e.name == "unreachable" {
			continue // the limits of a try and of its request end at one instant, and either may be the cause
		}
		if errors.Is(err, e.err) {
			names = append(names, e.name)
		}
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		names = append(names, fmt.Sprint(api.ErrorCode))
	}
	return strings.Join(names, ", ")
}

// try matches the number of a try in the name of a batch.
var try = regexp.MustCompile(`batch=([A-Z])\d+`)

// news returns what has happened since it was last called. Of equal events it returns the first.
func (s *script) news() (lines []string) {
	synctest.Wait()
	s.log.Lock()
	defer s.log.Unlock()
	slices.SortStableFunc(s.events, func(a, b event) int {
		if a.at == b.at {
			return strings.Compare(a.call, b.call)
		}
		return int(a.at - b.at)
	})
	seen := map[string]int{}
	for _, e := range s.events {
		kind := try.ReplaceAllString(e.text, "")
		if seen[kind]++; seen[kind] <= s.shows {
			lines = append(lines, fmt.Sprintf("  %v %s", e.at, e.text))
		}
	}
	s.events = nil
	return append(lines, s.rest(seen)...)
}

// rest returns how often the events came that are left out.
func (s *script) rest(seen map[string]int) (lines []string) {
	for _, kind := range slices.Sorted(maps.Keys(seen)) {
		if n := seen[kind]; n > s.shows {
			lines = append(lines, fmt.Sprintf("  and %d more: %s", n-s.shows, kind))
		}
	}
	return lines
}
