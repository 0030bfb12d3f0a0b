package fence

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/leader"
)

// A header of the caller that contradicts the guard, or could hide the headers of the writer,
// is refused.
func TestCheckHeader_Names(t *testing.T) {
	const at, on, id = jetstream.ExpectedLastSubjSeqHeader, jetstream.ExpectedLastSubjSeqSubjHeader, jetstream.MsgIDHeader
	for _, k := range []struct {
		header nats.Header
		says   string
	}{
		{nil, ""},
		{nats.Header{"X": {"1", "2"}, id: {"mine"}, jetstream.MsgTTLHeader: {"1s"}, at: {"1"}, on: {"x"}}, ""},
		{nats.Header{jetstream.MsgRollup: {" SUB "}}, ""},
		{nats.Header{jetstream.MsgRollup: {" all"}}, "would remove the guard"},
		{nats.Header{jetstream.MsgRollup: {"sub", "all"}}, "has 2 values"},
		{nats.Header{at: {"1", "2"}}, "has 2 values"},
		{nats.Header{at: {"1"}, on: {"x", "y"}}, "has 2 values"},
		{nats.Header{id: {}}, "has 0 values"},
		{nats.Header{on: {"x"}}, "goes with " + at},
		{nats.Header{jetstream.ExpectedLastSeqHeader: {"1"}}, "does not go with a guard"},
		{nats.Header{jetstream.ExpectedLastMsgIDHeader: {"1"}}, "does not go with a guard"},
		{nats.Header{batchIDHeader: {"1"}}, "does not go with a guard"},
		{nats.Header{batchSequenceHeader: {"1"}}, "does not go with a guard"},
		{nats.Header{batchCommitHeader: {"1"}}, "does not go with a guard"},
		{nats.Header{"Nats-Schedule-Target": {"x"}}, "carries no guard"},
		{nats.Header{"X-" + id: {"1"}}, "may take its name"},
		{nats.Header{"Nats-Batch-Other": {"1"}}, "may take its name"},
		{nats.Header{"X": {"fine", "a " + id + ":"}}, "may take its value"},
		{nats.Header{id: {at}}, "may take its value"},
	} {
		err := checkHeader(k.header)
		if (err == nil) != (k.says == "") || err != nil && (!errors.Is(err, leader.ErrInvalidConfig) || !strings.Contains(err.Error(), k.says)) {
			t.Errorf("%v: %v, want %q", k.header, err, k.says)
		}
	}
}

// A change that the server would reject, or that would harm the guard, is not sent.
func TestWriteSet_Check(t *testing.T) {
	s := &guardedStream{guard: "s.guard"}
	s.api.Name = "S"
	s.api.Known.Store(&jetstream.StreamConfig{Subjects: []string{"s.>", "t"}})
	plain := func(subject string) message { return message{subject: subject, on: subject} }
	on := func(subject, on string) message { return message{subject: subject, on: on, conditioned: true} }
	rollup := func(subject string) message {
		m := plain(subject)
		m.header = nats.Header{jetstream.MsgRollup: {"sub"}}
		return m
	}
	many := func(n int) []message { return slices.Repeat([]message{plain("s.a")}, n) }
	key := message{subject: "$KV.B.Nats-Msg-Id", on: "$KV.B.Nats-Msg-Id", key: "Nats-Msg-Id", conditioned: true}
	for _, k := range []struct {
		name     string
		messages []message
		says     string
	}{
		{"one", many(1), ""},
		{"999", many(999), ""},
		{"1000", many(1000), "a batch of 1000 messages is not one of 1 to 999"},
		{"none", nil, "a batch of 0 messages"},
		{"the guard", []message{plain("s.a"), plain("s.guard")}, "is the guard, which only candidates write"},
		{"a condition on the guard", []message{on("s.a", "s.guard")}, "is on s.guard, the guard"},
		{"a condition elsewhere", []message{on("s.a", "s.b")}, ""},
		{"a hiding condition", []message{on("s.a", "s.Nats-Msg-Id")}, "may take the subject for the header Nats-Msg-Id"},
		{"a hiding subject without a condition", []message{plain("s.Nats-Msg-Id")}, ""},
		{"a key", []message{key}, ""},
		{"another subject of the stream", []message{plain("t")}, ""},
		{"another stream's subject", []message{plain("u")}, "is none of the Subjects"},
		{"a wildcard", []message{plain("s.*")}, "subject"},
		{"a wildcard with a condition elsewhere", []message{on("s.*", "s.a")}, `subject "s.*"`},
		{"a condition on a wildcard", []message{on("s.a", "s.*")}, "the subject of a condition"},
		{"a condition on what is written before", []message{plain("s.a"), on("s.b", "s.a")}, "is written earlier in the same batch"},
		{"a condition on what is written after", []message{on("s.b", "s.a"), plain("s.a")}, ""},
		{"a roll-up of what is written before", []message{plain("s.a"), rollup("s.a")}, "is written earlier in the same batch"},
		{"a roll-up first", []message{rollup("s.a"), plain("s.a")}, ""},
	} {
		err := (&writeSet{messages: k.messages}).check(s)
		if (err == nil) != (k.says == "") || err != nil && (!errors.Is(err, leader.ErrInvalidConfig) || !strings.Contains(err.Error(), k.says)) {
			t.Errorf("%s: %v, want %q", k.name, err, k.says)
		}
	}
	s.api.Known.Store(nil)
	err := (&writeSet{messages: []message{plain("u")}}).check(s)
	check.That(t, err == nil, "a stream that is not known: %v", err)
}

// A condition that does not hold is the error that nats.go returns.
func TestMismatch_Errors(t *testing.T) {
	for _, k := range []struct {
		m    message
		want error
	}{
		{message{key: "k", create: true}, jetstream.ErrKeyExists},
		{message{key: "k", expected: 5}, jetstream.ErrKeyRevisionMismatch},
		{message{on: "s", expected: 5}, &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence}},
	} {
		err := k.m.mismatch(7)
		for _, of := range []error{jetstream.ErrKeyRevisionMismatch, &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence}} {
			check.That(t, errors.Is(err, of) == errors.Is(k.want, of), "%v: is %v: %v", err, of, errors.Is(err, of))
		}
		check.That(t, errors.Is(err, k.want) && (k.m.create || strings.Contains(err.Error(), " 7, not 5")),
			"%v, want %v", err, k.want)
	}
	var api *jetstream.APIError
	check.Must(t, errors.As((&message{on: "s", expected: 5}).mismatch(7), &api), "it is no error of the server")
	check.Equal(t, *api, jetstream.APIError{Code: 400, ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence, Description: "wrong last sequence: 7"}, "%+v")
}

// The settings of a guarded stream are those that exist, those that are wished, and those that
// the guard needs.
func TestShape_Settings(t *testing.T) {
	s := &guardedStream{guard: "s.guard"}
	for _, k := range []struct {
		name            string
		old, wish, want jetstream.StreamConfig
	}{
		{
			"new",
			jetstream.StreamConfig{},
			jetstream.StreamConfig{Subjects: []string{"s.a"}},
			jetstream.StreamConfig{Subjects: []string{"s.a", "s.guard"}},
		},
		{
			"kept, and added",
			jetstream.StreamConfig{Subjects: []string{"s.a", "s.b"}, MaxMsgs: 7, Replicas: 1, Metadata: map[string]string{"a": "1", "b": "1"}, Duplicates: time.Minute},
			jetstream.StreamConfig{Subjects: []string{"s.*"}, Replicas: 3, Metadata: map[string]string{"b": "2"}},
			jetstream.StreamConfig{Subjects: []string{"s.*"}, MaxMsgs: 7, Replicas: 3, Metadata: map[string]string{"a": "1", "b": "2"}, Duplicates: time.Minute},
		},
		{
			"an age",
			jetstream.StreamConfig{Subjects: []string{"s.>"}, Duplicates: time.Minute},
			jetstream.StreamConfig{Subjects: []string{"s.a"}, MaxAge: time.Second},
			jetstream.StreamConfig{Subjects: []string{"s.>"}, MaxAge: time.Second, AllowMsgTTL: true, Duplicates: time.Second},
		},
		{
			"a memory that is wished",
			jetstream.StreamConfig{Duplicates: time.Hour},
			jetstream.StreamConfig{MaxAge: time.Second, Duplicates: time.Minute},
			jetstream.StreamConfig{Subjects: []string{"s.guard"}, MaxAge: time.Second, AllowMsgTTL: true, Duplicates: time.Minute},
		},
		{
			"metadata of a stream without",
			jetstream.StreamConfig{},
			jetstream.StreamConfig{Metadata: map[string]string{"b": "2"}},
			jetstream.StreamConfig{Subjects: []string{"s.guard"}, Metadata: map[string]string{"b": "2"}},
		},
	} {
		k.want.AllowAtomicPublish = true
		meta, subjects := maps.Clone(k.old.Metadata), slices.Clone(k.old.Subjects)
		wished := append(slices.Clone(k.wish.Subjects), "s.more")
		k.wish.Subjects = wished[:len(k.wish.Subjects)]
		got := s.shape(k.old, k.wish)
		check.That(t, reflect.DeepEqual(got, k.want), "%s:\n%+v, want\n%+v", k.name, got, k.want)
		check.That(t, maps.Equal(meta, k.old.Metadata) && slices.Equal(subjects, k.old.Subjects),
			"%s: the old settings were changed", k.name)
		more := wished[len(wished)-1]
		check.That(t, more == "s.more", "%s: the caller's array of subjects goes on with %s", k.name, more)
	}
}

// An existing stream is written only if something changes, and not if it cannot be brought to
// what is wished.
func TestReshape_Existing(t *testing.T) {
	s := &guardedStream{guard: "s.guard", whole: "s.guard"}
	fit := jetstream.StreamConfig{Subjects: []string{"s.>"}, AllowAtomicPublish: true, AllowMsgTTL: true}
	if _, changed, err := s.reshape(fit, jetstream.StreamConfig{}); changed || err != nil || !s.keeps.Load() {
		t.Errorf("nothing to do: changed %v, %v, a TTL %v", changed, err, s.keeps.Load())
	}
	conf, changed, err := s.reshape(fit, jetstream.StreamConfig{MaxMsgsPerSubject: 1})
	check.That(t, changed && err == nil && conf.MaxMsgsPerSubject == 1, "a setting: changed %v, %v", changed, err)
	_, changed, err = s.reshape(fit, jetstream.StreamConfig{Storage: jetstream.MemoryStorage})
	check.That(t, !changed && errors.Is(err, leader.ErrIncompatibleBucket), "the storage: changed %v, %v", changed, err)
	_, changed, err = s.reshape(fit, jetstream.StreamConfig{Sealed: true})
	check.That(t, !changed && errors.Is(err, leader.ErrIncompatibleBucket), "a hazard: changed %v, %v", changed, err)
}

// What is not opened, or has the name of nothing, is refused.
func TestOpen_Invalid(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		for name, open := range map[string]func() error{
			"no connection":     func() error { _, err := OpenBucket(nil, "B"); return err },
			"no name":           func() error { _, err := OpenBucket(d.js, ""); return err },
			"a nil option":      func() error { _, err := OpenBucket(d.js, "B", nil); return err },
			"a key with spaces": func() error { _, err := OpenBucket(d.js, "B", GuardKey("a b")); return err },
			"a long key":        func() error { _, err := OpenBucket(d.js, "B", GuardKey(strings.Repeat("k", 1025))); return err },
			"no stream":         func() error { _, err := OpenStream(d.js, "", "g"); return err },
			"no JetStream":      func() error { _, err := OpenStream(nil, "S", "g"); return err },
			"a path":            func() error { _, err := OpenStream(d.js, "a/b", "g"); return err },
			"a wildcard":        func() error { _, err := OpenStream(d.js, "S", "g.*"); return err },
			"a hiding guard":    func() error { _, err := OpenStream(d.js, "S", "g.Nats-Msg-Id"); return err },
			"a long name":       func() error { _, err := OpenStream(d.js, strings.Repeat("s", 256), "g"); return err },
			"history": func() error {
				_, err := CreateOrUpdateBucket(d.Context(), d.js, jetstream.KeyValueConfig{Bucket: "B", History: 65})
				return err
			},
			"sources": func() error {
				_, err := CreateOrUpdateBucket(d.Context(), d.js, jetstream.KeyValueConfig{Bucket: "B", Sources: []*jetstream.StreamSource{{Name: "S"}}})
				return err
			},
			"a bucket without a name": func() error {
				_, err := CreateOrUpdateBucket(d.Context(), d.js, jetstream.KeyValueConfig{})
				return err
			},
			"a stream without a name": func() error {
				_, err := CreateOrUpdateStream(d.Context(), d.js, jetstream.StreamConfig{}, "g")
				return err
			},
			"no writer":           func() error { _, err := (&BucketBatch{}).Commit(d.Context()); return err },
			"a zero writer":       func() error { return check.Err((&BucketWriter{}).Put(d.Context(), "k", nil)) },
			"an unguarded bucket": func() error { return (&BucketWriter{b: d.bucket}).Delete(d.Context(), "k") },
			"the guard's key":     func() error { return d.w.Delete(d.Context(), DefaultGuardKey) },
			"a long key to write": func() error { return d.w.Purge(d.Context(), strings.Repeat("k", 1025)) },
		} {
			err := open()
			check.That(t, errors.Is(err, leader.ErrInvalidConfig), "%s: %v", name, err)
		}
		if _, err := OpenStream(d.js, strings.Repeat("s", 255), "g"); err != nil {
			t.Errorf("the longest name: %v", err)
		}
		if _, err := d.w.Put(d.Context(), "a b", nil); !errors.Is(err, jetstream.ErrInvalidKey) {
			t.Errorf("a key with a space: %v", err)
		}
		b, err := OpenBucket(d.js, "B", GuardKey("other"))
		d.ok(err)
		check.That(t, b.guard == "$KV.B.other", "the guard is %s", b.guard)
		check.Equal(t, (&BucketWriter{b: b}).GuardRevision(), 0, "the guard of no term is at %d")
		came := d.came()
		check.That(t, came == "", "written: %s", came)
	})
}

// The keys of a bucket are written under the prefix of the JetStream API, unless that is the default.
func TestOpen_Prefix(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		for prefix, want := range map[string]string{"$JS.API": "$KV.B.k", "far.API": "far.API.$KV.B.k"} {
			b := check.Got(OpenBucket(check.Got(jetstream.NewWithAPIPrefix(d.nc, prefix))(d), "B"))(d)
			p := &publishRequest{s: &b.guardedStream, changes: []*writeSet{{messages: []message{{subject: "$KV.B.k"}}}}}
			check.Equal(t, p.pack()[0].Subject, want, "%s")
		}
	})
}

// The error of a stream that does not exist has advice.
func TestOpen_Advice(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		d.follow(func(*nats.Msg, int) []byte { return refusal(404, jsapi.CodeStreamNotFound, "stream not found") })
		s := check.Got(OpenStream(d.js, "S", "g"))(d)
		check.Says(t, check.Err(s.settings(d.Context())), leader.ErrNoBucket, "make it with fence.CreateOrUpdateStream")
		check.Says(t, check.Err(d.bucket.settings(d.Context())), leader.ErrNoBucket, "make it with fence.CreateOrUpdateBucket")
	})
}

// A stream that is made begins at the time of its creation, unless its first sequence is wished.
// Without an answer a Create function ends after 5 s.
func TestCreate_FirstSequence(t *testing.T) {
	for _, wish := range []uint64{0, 7} {
		atDesk(t, 1, func(d *desk) {
			var made jetstream.StreamConfig
			d.follow(func(m *nats.Msg, _ int) []byte {
				switch {
				case strings.HasPrefix(m.Subject, "$JS.API.STREAM.INFO."):
					return refusal(404, jsapi.CodeStreamNotFound, "stream not found")
				case strings.HasPrefix(m.Subject, "$JS.API.STREAM.CREATE."):
					_ = json.Unmarshal(m.Data, &made)
					return encode(map[string]any{"config": made})
				}
				return nil
			})
			c := d.begin(func() error {
				_, err := CreateOrUpdateStream(d.Context(), d.js, jetstream.StreamConfig{Name: "S", FirstSeq: wish}, "g")
				return err
			})
			c.is(0, nil)
			want := jetstream.StreamConfig{Name: "S", Subjects: []string{"S", "g"}, AllowAtomicPublish: true, FirstSeq: wish}
			if wish == 0 {
				want.FirstSeq = uint64(d.zero.UnixMicro())
			}
			check.That(t, reflect.DeepEqual(made, want), "%+v, want\n%+v", made, want)
			d.follow(func(*nats.Msg, int) []byte { return silence })
			c = d.begin(func() error {
				_, err := CreateOrUpdateBucket(d.Context(), d.js, jetstream.KeyValueConfig{Bucket: "B"})
				return err
			})
			d.until(5100 * time.Millisecond)
			c.is(5*time.Second, leader.ErrUnreachable)
		})
	}
	atDesk(t, 1, func(d *desk) { // has no other subjects than those that are wished
		var made jetstream.StreamConfig
		d.follow(func(m *nats.Msg, _ int) []byte {
			if strings.HasPrefix(m.Subject, "$JS.API.STREAM.INFO.") {
				return refusal(404, jsapi.CodeStreamNotFound, "stream not found")
			}
			_ = json.Unmarshal(m.Data, &made)
			return encode(map[string]any{"config": made})
		})
		s := check.Got(CreateOrUpdateStream(d.Context(), d.js, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}}, "g"))(d)
		check.Deep(t, made.Subjects, []string{"s.*", "g"})
		check.Equal(t, s.String(), "stream S", "it is %s")
	})
	atDesk(t, 1, func(d *desk) { // and asks for nothing that would harm the guard
		_, err := CreateOrUpdateStream(d.Context(), d.js, jetstream.StreamConfig{Name: "S", NoAck: true}, "g")
		check.That(t, errors.Is(err, leader.ErrInvalidConfig) && len(d.asked) == 0, "%v, %q", err, d.asked)
	})
}

// Each setting of a bucket is in the request that creates the bucket, except those with which the guard is
// not safe. They are rejected.
func TestCreateOrUpdateBucket_Settings(t *testing.T) {
	cfg := jetstream.KeyValueConfig{
		Bucket: "B", Description: "of the shop", MaxValueSize: 4096, History: 7, TTL: time.Hour, MaxBytes: 1 << 20,
		Storage: jetstream.MemoryStorage, Replicas: 3, Placement: &jetstream.Placement{Cluster: "c", Tags: []string{"t"}},
		RePublish: &jetstream.RePublish{Source: ">", Destination: "copy.>"}, Compression: true,
		LimitMarkerTTL: time.Minute, Metadata: map[string]string{"team": "x"},
	}
	all := reflect.ValueOf(cfg)
	for i := range all.NumField() {
		name := all.Type().Field(i).Name
		check.That(t, !all.Field(i).IsZero() || name == "Mirror" || name == "Sources", "the test has no %s", name)
	}
	atDesk(t, 1, func(d *desk) {
		var made jetstream.StreamConfig
		d.follow(func(m *nats.Msg, _ int) []byte {
			switch {
			case strings.HasPrefix(m.Subject, "$JS.API.STREAM.INFO."):
				return refusal(404, jsapi.CodeStreamNotFound, "stream not found")
			case strings.HasPrefix(m.Subject, "$JS.API.STREAM.CREATE."):
				made = jetstream.StreamConfig{}
				_ = json.Unmarshal(m.Data, &made)
				return encode(map[string]any{"config": made})
			}
			return nil
		})
		want := jetstream.StreamConfig{
			Name: "KV_B", Subjects: []string{"$KV.B.>"}, Description: "of the shop", MaxMsgSize: 4096, MaxMsgsPerSubject: 7,
			MaxAge: time.Hour, MaxBytes: 1 << 20, Storage: jetstream.MemoryStorage, Replicas: 3, Placement: cfg.Placement,
			RePublish: cfg.RePublish, Compression: jetstream.S2Compression, SubjectDeleteMarkerTTL: time.Minute, Metadata: cfg.Metadata,
			Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowDirect: true, AllowMsgTTL: true,
			AllowAtomicPublish: true, FirstSeq: uint64(d.zero.UnixMicro()),
		}
		check.OK(t, check.Err(CreateOrUpdateBucket(d.Context(), d.js, cfg)))
		check.Deep(t, made, want)
		check.OK(t, check.Err(CreateOrUpdateBucket(d.Context(), d.js, jetstream.KeyValueConfig{Bucket: "B", LimitMarkerTTL: time.Minute})))
		check.Deep(t, made, jetstream.StreamConfig{
			Name: "KV_B", Subjects: want.Subjects, MaxMsgsPerSubject: 1, SubjectDeleteMarkerTTL: time.Minute, Discard: jetstream.DiscardNew,
			AllowRollup: true, DenyDelete: true, AllowDirect: true, AllowMsgTTL: true, AllowAtomicPublish: true, FirstSeq: want.FirstSeq,
		})

		d.came()
		mirror := jetstream.KeyValueConfig{Bucket: "B", Mirror: &jetstream.StreamSource{Name: "M"}}
		check.Says(t, check.Err(CreateOrUpdateBucket(d.Context(), d.js, mirror)), leader.ErrInvalidConfig, "is a mirror")
		check.Equal(t, len(d.asked), 0, "%d requests")
	})
}

// A batch with messages that cannot be written is rejected as a whole, with the error of the first of
// them.
func TestStreamBatch_FirstError(t *testing.T) {
	fine := &nats.Msg{Subject: "$KV.B.a"}
	scheduled := &nats.Msg{Subject: "$KV.B.a", Header: nats.Header{"Nats-Schedule": {"x"}}}
	noSequence := &nats.Msg{Subject: "$KV.B.a", Header: nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"x"}}}
	atDesk(t, 1, func(d *desk) {
		for _, k := range []struct {
			says     string
			messages []*nats.Msg
		}{
			{"the message is nil", []*nats.Msg{nil, noSequence, scheduled}},
			{"the message is nil", []*nats.Msg{fine, nil, scheduled}},
			{"carries no guard", []*nats.Msg{scheduled, fine}},
			{"is not a sequence", []*nats.Msg{noSequence, nil}},
		} {
			b := d.streamWriter().Batch()
			for _, m := range k.messages {
				b.PublishMsg(m)
			}
			check.Says(t, check.Err(b.Commit(d.Context())), leader.ErrInvalidConfig, k.says)
		}
		check.Is(t, check.Err((&StreamBatch{}).Commit(d.Context())), leader.ErrInvalidConfig)
		check.Says(t, check.Err((&StreamWriter{}).Publish(d.Context(), "s", nil)), leader.ErrInvalidConfig, "was not made by Stream.Writer")
		b := (&StreamWriter{}).Batch()
		b.PublishMsg(&nats.Msg{Subject: "s", Header: nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"12"}}})
		check.Equal(t, b.messages[0].expected, 12, "the condition is on sequence %d")
		check.Equal(t, d.came(), "", "written: %s")
	})
}
