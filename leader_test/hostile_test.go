package leader_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// A hostile client has the permissions of docs/permissions.md for the election a, and no others.
// It names keys and subjects of the election b as reply subjects of requests that it may send.
// The server publishes the replies there, whatever the permissions of the client. In the same
// account this interrupts b, but brings about neither two leaders nor a write of an earlier term.
// The checker of the world ends a test in which two candidates lead.

// hostileClient is such a client.
type hostileClient struct {
	*world
	*client
	api, put string // prefixes of the JetStream API and of the subjects of writes
	bucket   string
	election string // its own
}

// key is the subject to which the client may write.
func (h *hostileClient) key() string { return h.put + "$KV." + h.bucket + "." + h.election }

// store writes the key of the client.
func (h *hostileClient) store(value []byte, headers nats.Header) {
	h.Helper()
	ack := check.Got(h.nc.RequestMsg(&nats.Msg{Subject: h.key(), Data: value, Header: headers}, time.Second))(h)
	check.Must(h, !strings.Contains(string(ack.Data), "error"), "the key of the client: %s", ack.Data)
}

// send sends a request that the client may send.
func (h *hostileClient) send(subject, data, reply string) {
	h.Helper()
	h.ok(h.nc.PublishRequest(subject, reply, []byte(data)))
	h.ok(h.nc.Flush())
	h.ok(h.nc.LastError())
}

// get sends a direct get of the key of the client.
func (h *hostileClient) get(body, reply string) {
	h.Helper()
	h.send(h.api+"DIRECT.GET.KV_"+h.bucket+".$KV."+h.bucket+"."+h.election, body, reply)
}

// hostileReplies make the server publish to a subject, with a value of the client's choice if
// that is possible. last is the last revision of the subject.
var hostileReplies = map[string]func(h *hostileClient, to string, value []byte, last uint64){
	"acknowledgement": func(h *hostileClient, to string, value []byte, _ uint64) { h.send(h.key(), string(value), to) },
	"settings": func(h *hostileClient, to string, _ []byte, _ uint64) {
		h.send(h.api+"STREAM.INFO.KV_"+h.bucket, "", to)
	},
	"direct get": func(h *hostileClient, to string, value []byte, _ uint64) {
		h.store(value, nil)
		h.get("", to)
	},
	"direct get with a condition": func(h *hostileClient, to string, value []byte, last uint64) {
		h.store(value, nats.Header{
			jetstream.ExpectedLastSubjSeqHeader:     {strconv.FormatUint(last, 10)},
			jetstream.ExpectedLastSubjSeqSubjHeader: {to},
		})
		h.get("", to)
	},
	"direct get without headers": func(h *hostileClient, to string, value []byte, _ uint64) {
		h.store(value, nil)
		h.get(`{"no_hdr":true}`, to)
	},
}

// hostileUsers returns the options of a server on which b may stand in the election b with the
// guard of the bucket orders, and a in the election a. Both have a roster.
func hostileUsers() *server.Options {
	opts := &server.Options{NoAuthUser: "operator", Users: []*server.User{{Username: "operator"}}}
	for _, u := range []permUser{permList("a", "a", false), permList("b", "b", false)} {
		u.pub = append(u.pub, "$JS.API.STREAM.INFO.KV_E_roster", "$KV.E_roster."+u.name+".*",
			"$JS.API.CONSUMER.CREATE.KV_E_roster.*.$KV.E_roster."+u.name+".*", "$JS.API.CONSUMER.DELETE.KV_E_roster.*")
		if u.name == "b" {
			u.pub = append(u.pub, "$JS.API.STREAM.INFO.KV_orders", "$JS.API.STREAM.MSG.GET.KV_orders", "$KV.orders.natsleader.guard", "$KV.orders.next")
		}
		opts.Users = append(opts.Users, &server.User{
			Username: u.name, Password: "x", Permissions: &server.Permissions{Publish: permOnly(u.pub), Subscribe: permOnly(u.sub)},
		})
	}
	return opts
}

// hostile runs a test from 2 s on. b1 leads, and b2 waits.
func hostile(t *testing.T, test func(h *hostileClient, b1, b2 *guardian)) {
	t.Helper()
	bubbleOf(t, hostileUsers, func(w *world) {
		w.create(leader.BucketConfig{MaxLease: lease, Roster: true})
		w.orders()
		dial := func(name, user string) *client {
			return w.dial(name, nats.UserInfo(user, "x"), nats.CustomInboxPrefix("_INBOX_"+user))
		}
		stand := func(id string) *guardian {
			cl := dial(id, "b")
			g := cl.openBucket(t)
			return &guardian{w.campaign(w.Context(), cl, "b", leader.Config{ID: id, Guards: []leader.Guard{g}}), []*fence.Bucket{g}}
		}
		h := &hostileClient{world: w, client: dial("hostile", "a"), api: jetstream.DefaultAPIPrefix, bucket: "E", election: "a"}
		b1 := stand("b1")
		w.at(time.Second)
		b2 := stand("b2")
		w.at(2 * time.Second)
		b1.saw(t, "0s pending", "0s elected")
		b2.saw(t, "1s observed b1")
		test(h, b1, b2)
	})
}

// Whatever the value of a reply is, the entry is foreign. The leader loses the key, and
// the next term begins one unknown lease later.
func TestHostile_Key(t *testing.T) {
	released := junkRecord("released", "X", "6s", 0, 1) // on which the next candidate would lead at once
	last := func(h *hostileClient) uint64 {
		e := check.Got(h.kv().Get(h.Context(), "b"))(h)
		return e.Revision()
	}
	for name, reply := range hostileReplies {
		t.Run(name, func(t *testing.T) {
			hostile(t, func(h *hostileClient, b1, b2 *guardian) {
				h.at(2500 * time.Millisecond)
				reply(h, "$KV.E.b", released, last(h))
				b1.saw(t, "2.5s faulted foreign", "2.5s deposed preempted", "2.5s observed foreign")
				b2.saw(t, "2.5s faulted foreign", "2.5s observed foreign")
				h.at(8500*time.Millisecond - 1)
				b1.saw(t)
				b2.saw(t)
				h.at(10 * time.Second)
				if !b1.IsLeader() && !b2.IsLeader() {
					t.Errorf("nobody leads: %q, %q", b1.news(), b2.news())
				}
			})
		})
		t.Run(name+", leader cut off", func(t *testing.T) {
			hostile(t, func(h *hostileClient, b1, b2 *guardian) {
				b1.cut()
				h.at(2500 * time.Millisecond)
				reply(h, "$KV.E.b", released, last(h))
				h.at(10 * time.Second)
				// b1 has sent its last renewal at 2 s.
				b1.saw(t, "3s faulted unreachable", "6s faulted unreachable", "6.8s fenced expired")
				b2.saw(t, "2.5s faulted foreign", "2.5s observed foreign", "8.5s observed nobody", "8.5s pending", "8.5s elected")
			})
		})
	}
}

// A guard with the value of an earlier term, stored as a reply, admits no write of that term.
// The leader raises its guard again, and its own writes go on.
func TestHostile_Guard(t *testing.T) {
	const guard = "$KV.orders." + fence.DefaultGuardKey
	for name, reply := range hostileReplies {
		t.Run(name, func(t *testing.T) {
			hostile(t, func(h *hostileClient, b1, b2 *guardian) {
				orders := check.Got(h.ops.js.KeyValue(h.Context(), "orders"))(h)
				earlier := check.Got(orders.Get(h.Context(), fence.DefaultGuardKey))(h)
				zombie := b1.writer(t)
				h.ok(leadertest.Resign(h.Context(), b1))
				h.at(2500 * time.Millisecond)
				b2.saw(t, "2s observed nobody", "2s pending", "2s elected")
				raised := check.Got(orders.Get(h.Context(), fence.DefaultGuardKey))(h)

				reply(h, guard, earlier.Value(), 0)
				h.at(h.now())
				now := check.Got(orders.Get(h.Context(), fence.DefaultGuardKey))(h)
				stored := now.Revision() != raised.Revision()
				if stored == (name == "direct get with a condition") { // which holds in one of the two streams only
					t.Errorf("the guard is at %d, was raised at %d", now.Revision(), raised.Revision())
				}
				_, err := zombie.Put(h.Context(), "next", []byte("earlier"))
				check.That(t, isFenced(err), "a write of the earlier term: %v", err)
				if _, err := orders.Get(h.Context(), "next"); err == nil {
					t.Error("a write of the earlier term is stored")
				}
				check.Got(b2.writer(t).Put(h.Context(), "next", []byte("later")))(h)
				if now, err := orders.Get(h.Context(), fence.DefaultGuardKey); err != nil || !strings.Contains(string(now.Value()), `"id":"b2"`) {
					t.Errorf("the guard is %s, %v", now.Value(), err)
				}
				if _, err := zombie.Put(h.Context(), "next", []byte("earlier")); !isFenced(err) {
					t.Errorf("a write of the earlier term: %v", err)
				}
				if got := b2.news(); stored != (fmt.Sprint(got) == "[2.5s faulted guard deleted]") || !stored && len(got) > 0 {
					t.Errorf("b2 saw %q", got)
				}
			})
		})
	}
}

// Only a client that may publish to the subject of a leader's requests can ask it to step down.
// Neither a reply nor a message of a push consumer is a request.
func TestHostile_StepDownRequest(t *testing.T) {
	const asks = "natsleader.ask.E.b"
	request := func(h *hostileClient, b1 *guardian) []byte {
		e := check.Got(h.kv().Get(h.Context(), "b"))(h)
		return petitionOf(strings.Trim(field(e.Value(), "session"), `"`), b1.lastTerm(h.T).Token())
	}
	spared := func(h *hostileClient, b1, b2 *guardian) {
		h.at(20 * time.Second)
		b1.saw(h.T)
		b2.saw(h.T)
		// The same value, with a subject for the answer, is a request.
		h.ok(h.ops.nc.PublishRequest(asks, h.ops.nc.NewInbox(), request(h, b1)))
		h.at(h.now())
		b1.saw(h.T, "20s deposed resigned", "20s observed nobody", "20s observed b2")
		b2.saw(h.T, "20s observed nobody", "20s pending", "20s elected")
	}
	for name, reply := range hostileReplies {
		t.Run(name, func(t *testing.T) {
			hostile(t, func(h *hostileClient, b1, b2 *guardian) {
				reply(h, asks, request(h, b1), 0)
				spared(h, b1, b2)
			})
		})
	}
	for name, headers := range map[string]nats.Header{"consumer": nil, "consumer, with headers": {"X": {"y"}}} {
		t.Run(name, func(t *testing.T) {
			hostile(t, func(h *hostileClient, b1, b2 *guardian) {
				h.consume(asks, request(h, b1), headers)
				spared(h, b1, b2)
			})
		})
	}
}

// consume stores an entry in the roster of the client's election, and makes a push consumer that
// delivers it to a subject.
func (h *hostileClient) consume(to string, value []byte, headers nats.Header) {
	h.Helper()
	_, err := h.nc.RequestMsg(&nats.Msg{Subject: "$KV.E_roster.a." + rosterA, Data: value, Header: headers}, time.Second)
	h.ok(err)
	made, err := h.nc.Request("$JS.API.CONSUMER.CREATE.KV_E_roster.spy.$KV.E_roster.a.*", fmt.Appendf(nil,
		`{"stream_name":"KV_E_roster","config":{"name":"spy","deliver_subject":%q,"deliver_policy":"all","ack_policy":"none","filter_subject":"$KV.E_roster.a.*","idle_heartbeat":1000000000}}`, to), time.Second)
	h.ok(err)
	check.Must(h, !strings.Contains(string(made.Data), `"error"`), "the consumer: %s", made.Data)
}

// The server delivers to a key only while a client listens to it. Messages are then stored under the
// subject that they had in the roster, and so never as a record of b. Heartbeats are stored in the
// key, and are foreign: nobody leads as long as they come.
func TestHostile_ConsumerOfKey(t *testing.T) {
	const key = "$KV.E.b"
	released := junkRecord("released", "X", "6s", 0, 1)
	t.Run("nobody listens", func(t *testing.T) {
		hostile(t, func(h *hostileClient, b1, b2 *guardian) {
			h.consume(key, released, nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"0"}})
			h.at(20 * time.Second)
			b1.saw(t)
			b2.saw(t)
		})
	})
	for name, headers := range map[string]nats.Header{"record": nil, "marker": {"KV-Operation": {"DEL"}}, "condition": {jetstream.ExpectedLastSubjSeqHeader: {"0"}}} {
		t.Run(name, func(t *testing.T) {
			hostile(t, func(h *hostileClient, b1, b2 *guardian) {
				h.listen(key)
				h.consume(key, released, headers)
				h.at(2500 * time.Millisecond)
				b1.saw(t)
				b2.saw(t)
				h.at(20 * time.Second)
				check.That(t, !b1.IsLeader() && !b2.IsLeader(), "there is a leader in spite of the heartbeats")
				h.ok(h.ops.js.DeleteConsumer(h.Context(), "KV_E_roster", "spy"))
				h.at(28 * time.Second)
				if !b1.IsLeader() && !b2.IsLeader() {
					t.Errorf("nobody leads: %q, %q", b1.news(), b2.news())
				}
			})
		})
	}
}

// A push consumer can wipe a guarded bucket that allows rollups. The writes of earlier terms stay
// fenced.
func TestHostile_ConsumerWipesGuard(t *testing.T) {
	const subject = "$KV.orders.x"
	hostile(t, func(h *hostileClient, b1, b2 *guardian) {
		zombie := b1.writer(t)
		check.Got(zombie.Put(h.Context(), "next", []byte("first")))(h)
		h.listen(subject)
		h.consume(subject, nil, nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupAll}})
		h.at(h.now())
		orders := check.Got(h.ops.js.KeyValue(h.Context(), "orders"))(h)
		_, err := orders.Get(h.Context(), "next")
		check.That(t, err != nil, "the bucket was not wiped")
		h.ok(leadertest.Resign(h.Context(), b1))
		h.at(3 * time.Second)
		if _, err := zombie.Put(h.Context(), "next", []byte("earlier")); !isFenced(err) {
			t.Errorf("a write of the earlier term: %v", err)
		}
		check.Got(b2.writer(t).Put(h.Context(), "next", []byte("later")))(h)
	})
}

// listen has another client listen to a subject.
func (h *hostileClient) listen(subject string) {
	h.Helper()
	check.Got(h.ops.nc.SubscribeSync(subject))(h)
	h.ok(h.ops.nc.Flush())
}
