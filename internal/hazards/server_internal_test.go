package hazards

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/internal/wire"
)

// lab is a server in a bubble, with a stream S for the bucket b.
type lab struct {
	*testing.T
	js jetstream.JetStream
	nc *nats.Conn
}

func bubble(t *testing.T, test func(*lab)) {
	t.Helper()
	dir := testserver.StoreDir(t)
	synctest.Test(t, func(t *testing.T) {
		s := check.Got(server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true}))(t)
		s.Start()
		check.Must(t, s.ReadyForConnections(time.Minute), "the server does not start")
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		nc := check.Got(nats.Connect("", nats.InProcessServer(s)))(t)
		t.Cleanup(nc.Close)
		test(&lab{T: t, nc: nc, js: check.Got(jetstream.New(nc))(t)})
	})
}

// put publishes a message, and returns whether it was stored.
func (l *lab) put(key, value string, header ...string) bool {
	m := &nats.Msg{Subject: "$KV.b." + key, Data: []byte(value), Header: nats.Header{}}
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	_, err := l.js.PublishMsg(l.Context(), m, jetstream.WithRetryAttempts(0))
	return err == nil
}

// has returns the value of the record, or an empty string.
func (l *lab) has() string {
	s := check.Got(l.js.Stream(l.Context(), "S"))(l)
	m, err := s.GetLastMsgForSubject(l.Context(), "$KV.b.e")
	if err != nil {
		return ""
	}
	return string(m.Data)
}

// lost stores a record, lets an event pass, and reports whether the record is gone.
func lost(event func(*lab)) func(*lab) bool {
	return func(l *lab) bool {
		check.Must(l, l.put("e", "record"), "a record is not stored")
		event(l)
		return l.has() == ""
	}
}

func (l *lab) stream(change func(*jetstream.StreamConfig)) jetstream.Stream {
	c := jetstream.StreamConfig{
		Name: "S", Subjects: []string{"$KV.b.>"}, MaxMsgsPerSubject: 1, AllowDirect: true, DenyDelete: true, DenyPurge: true, Discard: jetstream.DiscardNew,
	}
	seal := false
	if change != nil {
		change(&c)
		seal, c.Sealed = c.Sealed, false
	}
	s := check.Got(l.js.CreateStream(l.Context(), c))(l)
	if seal {
		c.Sealed = true
		s = check.Got(l.js.UpdateStream(l.Context(), c))(l)
	}
	return s
}

// Each row of the table is a setting that a server takes, and what the row says of it is what the server does.
func TestTable_OnAServer(t *testing.T) {
	type config = jetstream.StreamConfig
	refuses := func(l *lab) bool { return !l.put("e", "record") }
	other := func(l *lab) { check.That(l, l.put("other", "x"), "another record is not stored") }
	told := make(map[int]bool)
	for _, k := range []struct {
		set    func(*config)
		use    Use
		effect Effect
		text   string
		shows  func(*lab) bool // nil: the text says nothing that a single server shows
	}{
		{func(c *config) {
			c.Subjects, c.Mirror, c.MaxMsgsPerSubject = nil, &jetstream.StreamSource{Name: "ORIGIN"}, 0
		}, Elections, Refused, "is a mirror of stream ORIGIN", refuses},
		{func(c *config) { c.Sealed = true }, Elections, Refused, "is sealed", refuses},
		{func(c *config) { c.NoAck = true }, Elections, Refused, "acknowledges nothing", refuses},
		{func(c *config) { c.Subjects = []string{"$KV.b.x", "orders.>"} }, Elections, Refused, `stores no $KV.b.>: none of its subjects ["$KV.b.x" "orders.>"]`, refuses},
		{func(c *config) { c.AllowMsgCounter, c.Discard = true, jetstream.DiscardOld }, Elections, Refused, "nothing but counters", refuses},
		{func(c *config) { c.DiscardNewPerSubject = true }, Elections, Refused, "to replace one", func(l *lab) bool { return l.put("e", "record") && !l.put("e", "renewal") }},
		{func(c *config) { c.MaxMsgSize = guardRoom - 1 }, Guard, Refused, "up to 1535 bytes (MaxMsgSize), less than the 1536", func(l *lab) bool { return !l.put("e", strings.Repeat("x", guardRoom)) }},
		{func(c *config) { c.Metadata = map[string]string{wire.RosterOfKey: "elsewhere"} }, Elections, Refused, `is the roster of bucket "elsewhere"`, nil},
		{func(c *config) { c.PersistMode = jetstream.AsyncPersistMode }, Elections, Refused, "a crash of the server can undo", nil},
		{func(c *config) { c.Retention = jetstream.InterestPolicy }, Elections, Refused, "drops what consumers have read (Retention Interest)", lost(func(*lab) {})},
		{func(c *config) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "$KV.b.*", Destination: "$KV.b.x.$1"}
		}, Elections, Refused, "(SubjectTransform), and so changes what is at $KV.b.>", lost(func(*lab) {})},
		{func(c *config) {
			c.Sources = []*jetstream.StreamSource{{Name: "ORIGIN", SubjectTransforms: []jetstream.SubjectTransformConfig{{Source: "origin", Destination: "$KV.b.e"}}}}
		}, Elections, Refused, "takes what comes from stream ORIGIN without conditions", func(l *lab) bool {
			check.Must(l, l.put("e", "record"), "a record is not stored")
			check.Got(l.js.Publish(l.Context(), "origin", []byte("foreign")))(l)
			time.Sleep(time.Minute)
			return l.has() == "foreign"
		}},
		{func(c *config) { c.MaxAge = time.Minute }, Guard, Refused, "drops messages after 1m0s (MaxAge without AllowMsgTTL)", lost(func(*lab) { time.Sleep(2 * time.Minute) })},
		{func(c *config) { c.MaxAge = time.Minute }, Elections, Unprotected, "drops records after 1m0s", lost(func(*lab) { time.Sleep(2 * time.Minute) })},
		{func(c *config) { c.AllowMsgTTL = true }, Elections, Unprotected, "messages with TTLs", func(l *lab) bool {
			stored := l.put("e", "record", jetstream.MsgTTLHeader, "1s")
			time.Sleep(time.Minute)
			return stored && l.has() == ""
		}},
		{func(c *config) { c.MaxMsgs, c.Discard = 1, jetstream.DiscardOld }, Elections, Unprotected, "when it is full (MaxMsgs 1", lost(other)},
		{func(c *config) { c.MaxBytes, c.Discard = 60, jetstream.DiscardOld }, Elections, Unprotected, "when it is full (MaxBytes 60", lost(other)},
		{func(c *config) { c.DenyDelete = false }, Elections, Unprotected, "lets messages be deleted", lost(func(l *lab) {
			check.OK(l, check.Got(l.js.Stream(l.Context(), "S"))(l).SecureDeleteMsg(l.Context(), 1))
		})},
		{func(c *config) { c.DenyPurge = false }, Elections, Unprotected, "can be purged", lost(func(l *lab) {
			check.OK(l, check.Got(l.js.Stream(l.Context(), "S"))(l).Purge(l.Context()))
		})},
		{func(c *config) { c.DenyPurge, c.AllowRollup = false, true }, Elections, Unprotected, "wipe the others", lost(func(l *lab) {
			check.That(l, l.put("other", "x", jetstream.MsgRollup, jetstream.MsgRollupAll), "the roll-up is not stored")
		})},
		{func(c *config) {
			c.DenyPurge, c.AllowRollup, c.AllowMsgTTL, c.SubjectDeleteMarkerTTL, c.MaxAge = false, true, true, time.Second, time.Minute
		}, Elections, Unprotected, "drops its markers after 1s", nil},
		{func(c *config) {
			c.DenyPurge, c.AllowRollup, c.AllowMsgSchedules, c.Discard = false, true, true, jetstream.DiscardOld
		}, Elections, Unprotected, "have others overwritten later", func(l *lab) bool {
			stored := l.put("e", "record") && l.put("mine", "foreign", "Nats-Schedule", "@at "+time.Now().Add(time.Minute).UTC().Format(time.RFC3339), "Nats-Schedule-Target", "$KV.b.e")
			time.Sleep(5 * time.Minute)
			return stored && l.has() == "foreign"
		}},
		{func(c *config) { c.Storage = jetstream.MemoryStorage }, Elections, Reported, "when its server restarts", nil},
		{func(c *config) { c.Compression = jetstream.S2Compression }, Elections, Noted, "is compressed (Compression S2)", nil},
		{func(c *config) { c.MaxMsgsPerSubject = -1 }, Elections, Reported, "every renewal that ever was", func(l *lab) bool { return l.keeps(2) }},
		{func(c *config) { c.MaxMsgsPerSubject = 2 }, Elections, Noted, "(MaxMsgsPerSubject 2)", func(l *lab) bool { return l.keeps(2) }},
		{func(c *config) { c.MaxMsgsPerSubject = -1 }, Roster, Reported, "(MaxMsgsPerSubject -1)", func(l *lab) bool { return l.keeps(2) }},
		{func(c *config) { c.MaxConsumers = 1 }, Elections, Noted, "no more than 1 consumers", func(l *lab) bool {
			s := check.Got(l.js.Stream(l.Context(), "S"))(l)
			_, first := s.CreateConsumer(l.Context(), jetstream.ConsumerConfig{})
			_, second := s.CreateConsumer(l.Context(), jetstream.ConsumerConfig{})
			return first == nil && second != nil
		}},
		{nil, Roster, Reported, "lets nothing lapse", func(l *lab) bool { return !l.put("e", "x", jetstream.MsgTTLHeader, "1s") }},
		{nil, Roster, Reported, "gives no sign of what lapses", nil},
		{func(c *config) { c.MaxMsgs = 1 }, Roster, Reported, "holds only so many", func(l *lab) bool { return l.put("e", "x") && !l.put("f", "x") }},
	} {
		t.Run(fmt.Sprintf("%v %d", k.text, k.use), func(t *testing.T) {
			bubble(t, func(l *lab) {
				check.Got(l.js.CreateStream(l.Context(), jetstream.StreamConfig{Name: "ORIGIN", Subjects: []string{"origin"}}))(l)
				s := Bucket(l.stream(k.set).CachedInfo().Config, k.use, "b")
				found := false
				for i, r := range table {
					if text := r.of(s); r.effects[k.use] == k.effect && strings.Contains(text, k.text) {
						told[i], found = true, true
					}
				}
				check.That(l, found, "the table does not say %q: %v", k.text, s.Of(k.effect))
				check.That(l, k.shows == nil || k.shows(l), "the server does not show %q", k.text)
			})
		})
	}
	for i, r := range table {
		check.That(t, told[i], "row %d, of %s, was tried on no server", i, r.fields)
	}
	bubble(t, func(l *lab) {
		s := Bucket(l.stream(nil).CachedInfo().Config, Elections, "b")
		check.That(l, s.Protected() && s.Refusal() == "" && len(s.Of(Reported))+len(s.Of(Noted)) == 0, "a sound stream: %+v", s)
	})
}

// keeps reports whether the stream keeps n messages of a key.
func (l *lab) keeps(n uint64) bool {
	for range 5 {
		check.Must(l, l.put("e", "record"), "a record is not stored")
	}
	return check.Got(check.Got(l.js.Stream(l.Context(), "S"))(l).Info(l.Context()))(l).State.Msgs >= n
}
