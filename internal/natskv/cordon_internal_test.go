package natskv

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
)

// cordoned is a follower of the cordon, with all that was delivered to it.
type cordoned struct {
	look, stop func()
	told       chan []string
}

func followCordon(b *Bucket) cordoned {
	c := cordoned{told: make(chan []string, 100)}
	c.look, c.stop = b.FollowCordon(func(names []string) { c.told <- names })
	return c
}

// wants expects that these names alone were delivered since it was called last, when everything has come to rest.
func (c cordoned) wants(t *lab, want ...string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for len(c.told) > 0 {
		got = append(got, fmt.Sprint(<-c.told))
	}
	check.That(t, slices.Equal(got, want), "delivered %q, want %q", got, want)
}

// The candidates on one Bucket share a feed and the reads of the cordon. A forged message of the feed costs reads for
// half a minute and changes nothing. After a reconnection, and if the feed has lost a message and a candidate's own is
// silent, the cordon is read again. The last candidate ends it.
func TestCordon_IsShared(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		ops := mustCreate(t, dialJS(t, t.s), Config{})
		var last uint64
		set := func(value string) {
			t.Helper()
			last = check.Got(update(t.Context(), ops, wire.CordonKey, value, last))(t)
		}
		spy, reads := dial(t, t.s), new(atomic.Int32)
		check.OK(t, check.Err(spy.Subscribe("$JS.API.DIRECT.GET.KV_E.$KV.E."+wire.CordonKey, func(*nats.Msg) { reads.Add(1) })))
		synctest.Wait() // the server knows of the spy
		wantReads := func(want int32) {
			t.Helper()
			synctest.Wait()
			n := reads.Swap(0)
			check.That(t, n == want, "%d reads, want %d", n, want)
		}
		g := &gate{s: t.s}
		b := mustOpen(t, dialJS(t, g))
		a, other := followCordon(b), followCordon(b)
		a.wants(t, "[]")
		other.wants(t, "[]")
		wantReads(1)
		check.Equal(t, b.Left()[0].Feeds, 2, "of one source")

		set(`{"v":1,"names":["a"]}`)
		a.wants(t, "[a]")
		other.wants(t, "[a]")
		wantReads(1)
		late := followCordon(b)
		late.wants(t, "[a]")
		wantReads(0)
		late.stop()

		t.ok(spy.PublishMsg(forgedCordon("9000000000000000000")))
		time.Sleep(time.Minute)
		wantReads(6)
		set(`{"v":1,"names":["a","c"]}`)
		a.wants(t, "[a c]")
		wantReads(1)

		g.set(true)
		synctest.Wait()
		set(`{"v":1,"names":["c"]}`)
		g.set(false)
		time.Sleep(time.Minute)
		a.wants(t, "[c]")
		reads.Store(0)

		a.look()
		wantReads(1)
		a.look() // too soon
		wantReads(0)

		time.Sleep(cordonPause) // a feed that was opened anew may be read from after that
		set("junk")
		a.wants(t, "[]")
		a.stop()
		set(`{"v":1,"names":["d"]}`)
		a.wants(t)
		wantReads(2)
		other.stop()
		synctest.Wait()
		check.Equal(t, b.Left()[0].Feeds, 0, "feeds")
	})
}

// forgedCordon is a message of the feed with a cordon that the bucket does not have.
func forgedCordon(revision string) *nats.Msg {
	m := nats.NewMsg(wire.FeedPrefix + "E." + wire.CordonKey)
	m.Data = []byte(`{"v":1,"names":["b"]}`)
	for name, value := range map[string]string{"Nats-Stream": "KV_E", "Nats-Subject": "$KV.E." + wire.CordonKey, "Nats-Sequence": revision, "Nats-Time-Stamp": "2026-11-22T12:00:00Z"} {
		m.Header.Set(name, value)
	}
	return m
}

// A forged message of the feed does not keep a candidate that begins from the cordon.
func TestCordon_ForgedAtStart(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		ops, spy := mustCreate(t, dialJS(t, t.s), Config{}), dial(t, t.s)
		t.ok(check.Err(update(t.Context(), ops, wire.CordonKey, `{"v":1,"names":["a"]}`, 0)))
		read := "$JS.API.DIRECT.GET.KV_E.$KV.E." + wire.CordonKey
		t.ok(check.Err(spy.Subscribe("late", func(m *nats.Msg) {
			t.ok(spy.PublishMsg(forgedCordon("9000000000000000000")))
			t.s.GlobalAccount().RemoveMapping(read)
			time.Sleep(100 * time.Millisecond)
			t.ok(spy.PublishRequest(read, m.Reply, m.Data))
		})))
		t.ok(spy.Flush())
		t.ok(t.s.GlobalAccount().AddMapping(read, "late"))
		c := followCordon(mustOpen(t, dialJS(t, t.s)))
		time.Sleep(200 * time.Millisecond)
		c.wants(t, "[a]")
		c.stop()
	})
}

// A client that may not read the cordon has none, and is denied once, or twice: nats.go keeps the last denial, which may hide another.
func TestCordon_Denied(t *testing.T) {
	users := []*server.User{{Username: "x", Password: "x", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Deny: []string{"$JS.API.DIRECT.GET.>"}}, Subscribe: &server.SubjectPermission{Deny: []string{wire.FeedPrefix + ">"}},
	}}, {Username: "all", Password: "x"}}
	bubble(t, server.Options{Users: users}, func(t *lab) {
		mustCreate(t, dialJS(t, t.s, nats.UserInfo("all", "x")), Config{})
		var denials atomic.Int32
		b := mustOpen(t, dialJS(t, t.s, nats.UserInfo("x", "x"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) { denials.Add(1) })))
		c := followCordon(b)
		time.Sleep(10 * time.Minute)
		c.wants(t, "[]")
		n := denials.Load()
		check.That(t, n == 2 || n == 4, "%d denials, of the feed and of the read", n)
		c.look()
		c.stop()
	})
}

// A client of another account may have no import for the cordon. Its candidates wait for no answer to come. After an
// outage of any length the answers of a replica that lags do not count at once.
func TestCordon_OtherAnswers(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		ops := mustCreate(t, dialJS(t, t.s), Config{})
		read := "$JS.API.DIRECT.GET.KV_E.$KV.E." + wire.CordonKey
		t.ok(t.s.GlobalAccount().AddMapping(read, "nowhere"))
		g := &gate{s: t.s}
		c := followCordon(mustOpen(t, dialJS(t, g)))
		c.wants(t, "[]")
		t.s.GlobalAccount().RemoveMapping(read)
		t.ok(check.Err(update(t.Context(), ops, wire.CordonKey, `{"v":1,"names":["a"]}`, 0)))
		time.Sleep(time.Minute)
		c.wants(t, "[a]")

		g.set(true)
		time.Sleep(time.Minute)
		c.look() // and so it goes on to try
		time.Sleep(2 * time.Minute)
		lags, asked := dial(t, t.s), 0
		t.ok(check.Err(lags.Subscribe("lags", func(m *nats.Msg) {
			asked++
			_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}}})
		})))
		t.ok(t.s.GlobalAccount().AddMapping(read, "lags"))
		g.set(false)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		check.That(t, asked > 2, "%d reads", asked)
		t.s.GlobalAccount().RemoveMapping(read)
		time.Sleep(time.Minute)
		c.wants(t)
		c.stop()
	})
}

// A bucket that was restored or made anew has lower revisions, and its cordon counts after half a minute. Forged messages
// of lower revisions cost a read a second.
func TestCordon_LowerRevisions(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		ops := mustCreate(t, js, Config{})
		t.ok(check.Err(update(t.Context(), ops, wire.CordonKey, `{"v":1,"names":["a"]}`, 0)))
		c := followCordon(mustOpen(t, dialJS(t, t.s)))
		c.wants(t, "[a]")
		reads := 0
		spy := dial(t, t.s)
		t.ok(check.Err(spy.Subscribe("$JS.API.DIRECT.GET.KV_E.$KV.E."+wire.CordonKey, func(*nats.Msg) { reads++ })))
		for range 100 {
			t.ok(spy.PublishMsg(forgedCordon("1")))
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		check.That(t, reads >= 10 && reads <= 12, "%d reads", reads)

		made := check.Got(js.Stream(t.Context(), "KV_E"))(t).CachedInfo().Config
		made.FirstSeq = 0
		t.ok(js.DeleteStream(t.Context(), made.Name))
		t.ok(check.Err(js.CreateStream(t.Context(), made)))
		t.ok(check.Err(update(t.Context(), ops, wire.CordonKey, `{"v":1,"names":["b"]}`, 0)))
		time.Sleep(40 * time.Second)
		c.wants(t, "[b]")
		c.stop()
	})
}

// A bucket that was made by other means can be taken although it has a cordon.
func TestCordon_IsNoStrangeValue(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		b := ordinary(t, js, jetstream.KeyValueConfig{})
		check.OK(t, check.Err(update(t.Context(), b, wire.CordonKey, `{"v":1,"names":["a"]}`, 0)))
		mustCreate(t, js, Config{})
		c := followCordon(b)
		c.wants(t, "[a]")
		c.stop()
	})
}
