//go:build field

package leader_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// permAttacker tries everything that a client might, with the permissions of a
// candidate for a.
type permAttacker struct {
	*testing.T
	nc *nats.Conn
	js jetstream.JetStream
}

// request returns the reply, or nil if none comes.
func (p *permAttacker) request(subject, body string, headers ...string) *nats.Msg {
	p.Helper()
	m := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}
	for i := 0; i+1 < len(headers); i += 2 {
		m.Header.Set(headers[i], headers[i+1])
	}
	ctx, cancel := context.WithTimeout(p.Context(), 200*time.Millisecond)
	defer cancel()
	reply, err := p.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return nil
	}
	return reply
}

const permSecret = "the address of b"

// reads fails the test if the reply contains the value that b has published.
func (p *permAttacker) reads(reply *nats.Msg, how string) {
	p.Helper()
	if reply != nil && strings.Contains(string(reply.Data), permSecret) {
		p.Errorf("a reads b by %s: %s", how, reply.Data)
	}
}

// In a purge-protected bucket, a client that may campaign for a cannot read, write,
// wipe or hear b.
func TestPermissions_OneElectionOnly(t *testing.T) {
	t.Parallel()
	permFeeds(t, func(t *testing.T, watch bool) {
		h := permServer(t, permList("a", "a", watch), permList("b", "b", watch))
		admin := permBucket(t, h, watch, 6*time.Second)
		holder := tcpElectionOf(t, "b").stand(tcpBucket(t, permJS(t, h, "b")), leader.Config{ID: "b", Value: []byte(permSecret)})
		term := tcpTerm(holder)
		tcpTerm(tcpElectionOf(t, "a").stand(tcpBucket(t, permJS(t, h, "a")), leader.Config{ID: "a"}))
		p := &permAttacker{T: t, nc: permDial(t, h, "a")}
		p.js = tcpJS(t, p.nc)

		// Hear.
		heard := make(chan *nats.Msg, 1000)
		for _, subject := range []string{
			"natsleader.feed.E.b", "natsleader.feed.E.*", "natsleader.feed.>", "$KV.E.b", "$KV.>", ">", "_INBOX_b.>", "$JS.ACK.>",
		} {
			check.Got(p.nc.ChanSubscribe(subject, heard))(t)
		}
		// Read.
		p.reads(p.request("$JS.API.DIRECT.GET.KV_E.$KV.E.b", ""), "a direct get")
		p.reads(p.request("$JS.API.DIRECT.GET.KV_E", `{"last_by_subj":"$KV.E.b"}`), "a direct get")
		p.reads(p.request("$JS.API.STREAM.MSG.GET.KV_E", `{"last_by_subj":"$KV.E.b"}`), "a get")
		for _, body := range []string{
			`{"last_by_subj":"$KV.E.b"}`, `{"seq":1}`, `{"seq":1,"next_by_subj":"$KV.E.b"}`,
			`{"multi_last":["$KV.E.b"]}`, `{"multi_last":["$KV.E.>"],"batch":10}`, `{"batch":10,"seq":1}`,
		} {
			p.reads(p.request("$JS.API.DIRECT.GET.KV_E.$KV.E.a", body), "a direct get of a with "+body)
		}
		check.Is(t, check.Err(leader.Lookup(t.Context(), tcpBucket(t, p.js), "b")), leader.ErrPermission)
		inbox := "_INBOX_a.heard"
		check.Got(p.nc.ChanSubscribe(inbox, heard))(t)
		for i, filter := range []string{`"filter_subject":"$KV.E.b"`, `"filter_subject":"$KV.E.>"`, `"filter_subjects":["$KV.E.b","$KV.E.a"]`, `"filter_subject":""`} {
			name := fmt.Sprintf("spy%d", i)
			p.request("$JS.API.CONSUMER.CREATE.KV_E."+name+".$KV.E.a",
				`{"stream_name":"KV_E","config":{"name":"`+name+`","deliver_subject":"`+inbox+`","deliver_policy":"all","ack_policy":"none",`+filter+`}}`)
		}
		// Write, and wipe.
		p.request("$KV.E.b", "x")
		for _, header := range [][]string{
			{"Nats-Rollup", "all"},
			{"Nats-Rollup", "sub"},
			{"KV-Operation", "PURGE"},
			{"KV-Operation", "PURGE", "Nats-Rollup", "sub"},
			{"KV-Operation", "PURGE", "Nats-Rollup", "all"},
			{"Nats-TTL", "1s"},
			{"Nats-Schedule", "@every 1s", "Nats-Schedule-Target", "$KV.E.b"},
			{"Nats-Incr", "1"},
			{"Nats-Batch-Id", "x", "Nats-Batch-Sequence", "1", "Nats-Batch-Commit", "1"},
			{"Nats-Subject", "$KV.E.b", "Nats-Stream", "KV_E", "Nats-Sequence", "1000000"},
			{"Nats-Marker-Reason", "Purge"},
		} {
			p.request("$KV.E.a", "x", header...)
		}
		for _, api := range []string{"STREAM.PURGE.KV_E", "STREAM.DELETE.KV_E", "STREAM.UPDATE.KV_E", "STREAM.RESTORE.KV_E", "STREAM.SNAPSHOT.KV_E"} {
			p.request("$JS.API."+api, `{}`)
		}
		p.request("$JS.API.STREAM.MSG.DELETE.KV_E", fmt.Sprintf(`{"seq":%d}`, 1))
		p.request("natsleader.feed.E.b", "x")
		check.OK(t, p.nc.Flush())

		tcpRenewed(t, tcpBucket(t, admin), "b", 6)
		check.That(t, leader.Err(term.Context()) == nil, "b lost its term: %v", leader.Err(term.Context()))
		tcpNoFaults(t, holder)
		check.OK(t, p.nc.Flush())
		for len(heard) > 0 {
			m := <-heard
			check.That(t, !strings.Contains(string(m.Data), permSecret) && !strings.HasSuffix(m.Subject, ".b"),
				"a hears b on %s: %s", m.Subject, m.Data)
		}
		// Even with every permission it is not purged, and no message is deleted.
		s := check.Got(admin.Stream(t.Context(), "KV_E"))(t)
		check.That(t, s.Purge(t.Context()) != nil, "the stream was purged")
		check.That(t, s.DeleteMsg(t.Context(), 1) != nil, "a message was deleted")
	})
}

// In a bucket that is not purge-protected, the header Nats-Rollup wipes other
// elections, as documented. The promise of one leader holds all the same. The leader
// notices, and the candidate that takes the key waits for one unknown lease.
func TestPermissions_Unprotected(t *testing.T) {
	t.Parallel()
	h := permServer(t, permList("a", "a", false), permList("b", "b", false))
	tcpCreate(t, permJS(t, h, "admin"), leader.BucketConfig{MaxLease: 3 * time.Second, TTL: 9 * time.Second})
	el := tcpElectionOf(t, "b")
	b := el.stand(tcpBucket(t, permJS(t, h, "b")), leader.Config{ID: "b"})
	tcpTerm(b)
	p := &permAttacker{T: t, nc: permDial(t, h, "a")}
	var reply *nats.Msg
	tcpEventually(t, "a roll-up is answered", func() bool {
		reply = p.request("$KV.E.a", "x", "Nats-Rollup", "all")
		return reply != nil
	})
	check.Must(t, !strings.Contains(string(reply.Data), "error"),
		"the roll-up was refused: the documentation promises less than there is: %s", reply.Data)
	b.Expect(leadertest.Deposed(leader.ErrDeleted), leadertest.Pending(), leadertest.Elected())
}

// The inboxes of one prefix are open to all clients that share it. With the default
// prefix, a client may listen to the replies to another.
func TestPermissions_SharedInboxes(t *testing.T) {
	t.Parallel()
	shared := func(u permUser) permUser {
		u.sub = append(u.sub, "_INBOX.>")
		return u
	}
	h := permServer(t, shared(permList("a", "a", false)), shared(permList("b", "b", false)))
	permBucket(t, h, false, time.Second)
	spy := permDial(t, h, "a")
	heard := make(chan *nats.Msg, 1000)
	check.Got(spy.ChanSubscribe("_INBOX.>", heard))(t)
	check.OK(t, spy.Flush())
	nc := tcpDial(t, h.srv.ClientURL(), nats.UserInfo("b", "x"))
	b := tcpElectionOf(t, "b").stand(tcpBucket(t, tcpJS(t, nc)), leader.Config{Value: []byte(permSecret)})
	tcpTerm(b)
	check.Got(leader.Lookup(t.Context(), tcpBucket(t, tcpJS(t, nc)), "b"))(t)
	tcpEventually(t, "a hears the reply to b", func() bool {
		select {
		case m := <-heard:
			return strings.Contains(string(m.Data), permSecret)
		default:
			return false
		}
	})
}

// A client that may create a consumer can make the server deliver any message to any
// subject, including the feed of another election, with headers of the client's own.
// Such a message keeps the subject that it was stored under, and is not taken for a
// feed.
func TestPermissions_ConsumerCreate(t *testing.T) {
	t.Parallel()
	h := permServer(t, permList("a", "a", true), permList("b", "b", false))
	admin := permBucket(t, h, false, 6*time.Second)
	el := tcpElectionOf(t, "b")
	holder := el.stand(tcpBucket(t, permJS(t, h, "b")), leader.Config{ID: "b"})
	term := tcpTerm(holder)
	waiter := el.stand(tcpBucket(t, permJS(t, h, "b")), leader.Config{ID: "c"})
	waiter.Expect(leadertest.Observed("b"))
	forged := make(chan struct{}, 100)
	_, err := admin.Conn().Subscribe("natsleader.feed.E.b", func(m *nats.Msg) {
		if strings.Contains(string(m.Data), "mallory") {
			forged <- struct{}{}
		}
	})
	check.OK(t, err)
	check.OK(t, admin.Conn().Flush())

	p := &permAttacker{T: t, nc: permDial(t, h, "a")}
	p.request("$KV.E.a", `{"v":1,"state":"leading","id":"mallory","session":"m","n":1,"lease":"1s","token":1000}`,
		"Nats-Subject", "$KV.E.b", "Nats-Stream", "KV_E", "Nats-Sequence", "1000000", "Nats-Time-Stamp", time.Now().Format(time.RFC3339Nano))
	p.request("$JS.API.CONSUMER.CREATE.KV_E.spy.$KV.E.a", `{"stream_name":"KV_E","config":{"name":"spy",
		"deliver_subject":"natsleader.feed.E.b","deliver_policy":"all","ack_policy":"none","filter_subject":"$KV.E.a"}}`)
	select {
	case <-forged:
	case <-time.After(tcpLimit):
		t.Fatal("the server does not deliver the forged message")
	}
	// The server also sends replies to any subject, but with its own headers.
	check.OK(t, p.nc.PublishRequest("$JS.API.DIRECT.GET.KV_E.$KV.E.a", "natsleader.feed.E.b", nil))
	<-forged
	tcpRenewed(t, tcpBucket(t, admin), "b", 3)
	got := waiter.Leader()
	check.That(t, got.State == leader.HolderLeading && got.ID == "b" && got.Token == term.Token(), "c believes that %v", got)
	for _, e := range waiter.Watcher.Events() {
		o, ok := e.(leader.Observed)
		check.That(t, !ok || o.Holder.ID == "b", "c: %v", e)
	}
}
