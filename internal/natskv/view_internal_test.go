package natskv

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// viewing is an open view of a roster with the announcements that it delivered.
type viewing struct {
	*View
	told chan backend.Announcement
}

// viewOf opens a view of the election "e".
func viewOf(t *lab, b *Bucket) viewing {
	t.Helper()
	v := viewing{told: make(chan backend.Announcement, 1000)}
	var replied atomic.Bool
	f, err := await(func(r func(backend.Feed, error)) {
		b.View(t.Context(), "e", func(a backend.Announcement) {
			check.That(t, replied.Load(), "an announcement came before the view")
			v.told <- a
		}, func(f backend.Feed, err error) {
			time.Sleep(time.Second) // what there is has come
			replied.Store(true)
			r(f, err)
		})
	})
	t.ok(err)
	v.View = f.(*View)
	t.Cleanup(v.Stop)
	return v
}

// saw checks the announcements since the call before.
func (v viewing) saw(t *lab, want string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for len(v.told) > 0 {
		switch a := <-v.told; {
		case errors.Is(a.Err, backend.ErrConnectionClosed):
			got = append(got, "closed")
		case errors.Is(a.Err, backend.ErrUnreachable):
			got = append(got, "lost")
		case a.Err != nil:
			got = append(got, a.Err.Error())
		case a.Complete:
			got = append(got, "complete")
		case a.Entry == nil:
			got = append(got, a.Session[:1]+" withdrawn")
		default:
			got = append(got, fmt.Sprintf("%s %q", a.Session[:1], a.Entry))
		}
	}
	line := strings.Join(got, ", ")
	check.That(t, line == want, "saw %s, want %s", line, want)
}

func session(letter string) string { return strings.Repeat(letter, sessionLength) }

// announce announces a session, or withdraws it without an entry.
func announce(t *lab, b *Bucket, letter string, entry []byte, life time.Duration) error {
	_, err := await(func(r func(uint64, error)) { b.Announce(t.Context(), "e", session(letter), entry, life, r) })
	return err
}

// consumersOf returns the number of consumers of a stream.
func consumersOf(t *lab, js jetstream.JetStream, stream string) int {
	t.Helper()
	s := check.Got(js.Stream(t.Context(), stream))(t)
	return s.CachedInfo().State.Consumers
}

// A view delivers the announcements of its election and their ends, and that it is complete, once.
// It stays open while nothing happens, and leaves nothing behind.
func TestRosterView_Announcements(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		b := mustCreate(t, js, Config{Roster: true, Storage: jetstream.MemoryStorage})
		empty := viewOf(t, b)
		empty.saw(t, "complete")
		kv := check.Got(js.KeyValue(t.Context(), "E_roster"))(t)
		for key, value := range map[string]string{"e." + session("A") + ".x": "another election", "e.other": "no session"} {
			check.OK(t, check.Err(kv.PutString(t.Context(), key, value)))
		}
		t.ok(announce(t, b, "A", []byte("1"), time.Hour))
		t.ok(announce(t, b, "B", []byte{}, 1500*time.Millisecond))
		empty.saw(t, `A "1", B ""`)
		full := viewOf(t, b)
		full.saw(t, `A "1", B "", complete`)
		time.Sleep(999 * time.Millisecond) // two seconds less a millisecond after its announcement
		full.saw(t, "")
		time.Sleep(time.Second)
		full.saw(t, "B withdrawn")
		t.ok(announce(t, b, "A", nil, time.Hour))
		full.saw(t, "A withdrawn")
		time.Sleep(time.Minute)
		empty.saw(t, "B withdrawn, A withdrawn")
		full.saw(t, "")
		s := check.Got(js.Stream(t.Context(), "KV_E_roster"))(t)
		if n := s.CachedInfo().State.Msgs; n != 2 { // those that are no announcements
			t.Errorf("%d messages", n)
		}
		full.Stop()
		t.ok(announce(t, b, "C", []byte("3"), 300*time.Millisecond))
		full.saw(t, "")
		full.tell(backend.Announcement{Session: session("D")})
		full.saw(t, "")
		empty.saw(t, `C "3"`)
		time.Sleep(2 * time.Second)
		empty.saw(t, "C withdrawn")
		empty.Stop()
		time.Sleep(time.Second)
		check.Equal(t, consumersOf(t, js, "KV_E_roster"), 0, "%d consumers are left")
	})
}

// forgetExpiry replaces the roster by a stream that keeps what is announced, as a server does that has forgotten that
// messages expire. Announcements come to it through another stream, since it would refuse them.
func forgetExpiry(t *lab, js jetstream.JetStream) {
	t.Helper()
	c := configOf(t, js, "KV_E_roster")
	t.ok(js.DeleteStream(t.Context(), c.Name))
	check.OK(t, check.Err(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "FROM", Subjects: c.Subjects, AllowMsgTTL: true, Storage: c.Storage})))
	c.Subjects, c.AllowMsgTTL, c.SubjectDeleteMarkerTTL, c.Sources = nil, false, 0, []*jetstream.StreamSource{{Name: "FROM"}}
	check.OK(t, check.Err(js.CreateStream(t.Context(), c)))
}

// An announcement counts for nothing after two of its lives, although the server keeps it: not in a view that is open, not in
// one that is opened after that, and not among those of all elections. One that is repeated counts.
func TestRosterView_KeptForEver(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		b := mustCreate(t, js, Config{Roster: true, Storage: jetstream.MemoryStorage})
		forgetExpiry(t, js)
		announces := func(letter, ttl string) {
			t.Helper()
			m := &nats.Msg{Subject: "$KV.E_roster.e." + session(letter), Data: []byte("x"), Header: nats.Header{jetstream.MsgTTLHeader: {ttl}}}
			check.OK(t, check.Err(js.PublishMsg(t.Context(), m)))
		}
		announced := func(want string) {
			t.Helper()
			all, err := b.Announced(t.Context())
			keys := ""
			for _, a := range all {
				keys += strings.TrimPrefix(a.Session, "e.")[:1]
				check.Equal(t, string(a.Entry), "x", "it says %q; want %q")
			}
			check.That(t, err == nil && keys == want, "%v, %v", keys, err)
		}
		announces("A", "10")
		announces("B", "10")
		announces("C", "never")
		time.Sleep(time.Second)
		open := viewOf(t, b)
		open.saw(t, `A "x", B "x", C "x", complete`)
		time.Sleep(8 * time.Second) // ten seconds after the announcements
		announces("B", "10")
		time.Sleep(8 * time.Second)
		open.saw(t, `B "x"`)
		announced("ABC")
		time.Sleep(2*time.Second + viewHeartbeat)
		open.saw(t, "A withdrawn")
		announced("BC")
		later := viewOf(t, b)
		later.saw(t, `A withdrawn, C "x", B "x", complete`)
		time.Sleep(20 * time.Second)
		open.saw(t, "B withdrawn")
		later.saw(t, "B withdrawn")
		announced("C")
		t.ok(js.DeleteStream(t.Context(), "KV_E_roster"))
		_, err := b.Announced(t.Context())
		wantErr(t, err, backend.ErrNoRoster)
	})
}

// A view ends with one error when its consumer is silent or the connection was lost, and as closed
// with the connection.
func TestRosterView_Ends(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(t *lab, g *gate, js, other jetstream.JetStream)
		after   time.Duration
		want    string
	}{
		"silence": {func(t *lab, _ *gate, _, other jetstream.JetStream) {
			s := check.Got(other.Stream(t.Context(), "KV_E_roster"))(t)
			for name := range s.ConsumerNames(t.Context()).Name() {
				t.ok(s.DeleteConsumer(t.Context(), name))
			}
		}, 6 * viewHeartbeat, "lost"},
		"a lost connection": {func(_ *lab, g *gate, _, _ jetstream.JetStream) {
			g.set(true)
			synctest.Wait()
			g.set(false)
		}, 5 * time.Second, "lost"},
		"a closed connection": {func(_ *lab, _ *gate, js, _ jetstream.JetStream) { js.Conn().Close() }, 0, "closed"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, server.Options{}, func(t *lab) {
				g, other := &gate{s: t.s}, dialJS(t, t.s)
				mustCreate(t, other, Config{Roster: true})
				js := dialJS(t, g)
				b := mustOpen(t, js)
				v := viewOf(t, b)
				v.saw(t, "complete")
				c.happens(t, g, js, other)
				time.Sleep(c.after)
				v.saw(t, c.want)
				time.Sleep(time.Minute)
				v.saw(t, "")
			})
		})
	}
}

// A view that has missed a delivery ends. The next delivery or heartbeat shows that.
func TestRosterView_MissedDelivery(t *testing.T) {
	beat := func(last string) *nats.Msg { return &nats.Msg{Header: nats.Header{lastConsumerHeader: {last}}} }
	entry := func(n uint64, pending uint64) *nats.MsgMetadata {
		return &nats.MsgMetadata{Sequence: nats.SequencePair{Consumer: n, Stream: n}, NumPending: pending}
	}
	for _, c := range []struct {
		name string
		hear func(v *View, m *nats.Msg)
		want string
	}{
		{"in order", func(v *View, m *nats.Msg) {
			v.hear(m, entry(1, 1), "own.")
			v.hear(m, entry(2, 0), "own.")
			v.hear(beat("2"), nil, "own.")
		}, `A "", A "", complete`},
		{"the last has lapsed", func(v *View, m *nats.Msg) { v.hear(m, entry(1, 1), "own."); v.hear(beat("1"), nil, "own.") }, `A "", complete`},
		{"a delivery is missing", func(v *View, m *nats.Msg) { v.hear(m, entry(1, 1), "own."); v.hear(m, entry(3, 0), "own.") }, `A "", lost`},
		{"a heartbeat is ahead", func(v *View, m *nats.Msg) { v.hear(m, entry(1, 1), "own."); v.hear(beat("2"), nil, "own.") }, `A "", lost`},
		{"a heartbeat without a number", func(v *View, _ *nats.Msg) { v.hear(beat(""), nil, "own.") }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := make(chan backend.Announcement, 10)
				v := &View{gate: make(chan struct{}), deliver: func(a backend.Announcement) { told <- a }}
				close(v.gate)
				c.hear(v, &nats.Msg{Subject: "own." + session("A")})
				viewing{v, told}.saw(&lab{T: t}, c.want)
			})
		})
	}
}

// An announcement that cannot be one is not sent. Without a roster, or with a bucket in its place,
// the error is ErrNoRoster, and nothing is left behind.
func TestRoster_NoneAnnounced(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		b := mustCreate(t, js, Config{})
		wantErr(t, announce(t, b, "A", []byte("1"), time.Hour), backend.ErrNoRoster, "KV_E_roster")
		_, err := await(func(r func(backend.Feed, error)) { b.View(t.Context(), "e", func(backend.Announcement) {}, r) })
		wantErr(t, err, backend.ErrNoRoster, "KV_E_roster")
		check.OK(t, check.Err(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "E_roster"})))
		wantErr(t, announce(t, b, "A", []byte("1"), time.Hour), backend.ErrNoRoster)
		_, err = await(func(r func(uint64, error)) { b.Announce(t.Context(), "e", "short", []byte("1"), time.Hour, r) })
		wantErr(t, err, backend.ErrInvalidConfig)
	})
}
