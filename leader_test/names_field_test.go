//go:build field

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
	"github.com/natsleader/natsleader/seats"
)

// The limits of names, in bytes, as the package documents them.
const (
	longestElection = 512
	longestSubject  = 1024
	longestID       = 256
	longestBucket   = 252
)

// nameOf returns a name of n bytes with that prefix.
func nameOf(prefix string, n int) string { return prefix + strings.Repeat("x", n-len(prefix)) }

// The server closes the connection of a client that sends a line of more than 4 KB, and
// nats.go does not reconnect. Names and the prefixes of the connection do not cause
// that, even if all of them together are at their limits.
func TestNames_AtTheirLimits(t *testing.T) {
	t.Parallel()
	prefix := nameOf("P", longestSubject-1)
	s := tcpServe(t, tcpOptions(t, fmt.Sprintf(`
		accounts {
			HUB {
				jetstream: enabled
				users: [ { user: hub, password: x } ]
				exports: [ { service: "$JS.API.>", response: stream }, { service: "$KV.>" }, { service: "orders.>" }, { stream: "natsleader.feed.>" } ]
			}
			APP {
				users: [ { user: app, password: x } ]
				imports: [
					{ service: { account: HUB, subject: "$JS.API.>" }, to: "%[1]s.>" }
					{ service: { account: HUB, subject: "$KV.>" }, to: "%[1]s.$KV.>" }
					{ service: { account: HUB, subject: "orders.>" } }
					{ stream: { account: HUB, subject: "natsleader.feed.>" } }
				]
			}
		}`, prefix)))
	url := s.ClientURL()
	for _, k := range []struct {
		name string
		js   func() jetstream.JetStream
	}{
		{"without prefixes", func() jetstream.JetStream { return tcpJS(t, tcpDial(t, url, nats.UserInfo("hub", "x"))) }},
		{"with the longest prefixes", func() jetstream.JetStream {
			nc := tcpDial(t, url, nats.UserInfo("app", "x"), nats.CustomInboxPrefix(nameOf("I", longestSubject)))
			return check.Got(jetstream.NewWithAPIPrefix(nc, prefix))(t)
		}},
	} {
		t.Run(k.name, func(t *testing.T) {
			hub := tcpJS(t, tcpDial(t, url, nats.UserInfo("hub", "x")))
			bucket := nameOf("E"+k.name[:4], longestBucket)
			_, err := leader.CreateOrUpdateBucket(t.Context(), hub, leader.BucketConfig{Name: bucket, MaxLease: time.Minute, Roster: true})
			check.OK(t, err)
			guarded := nameOf("G"+k.name[:4], longestBucket)
			key := nameOf("guard", longestSubject)
			_, err = fence.CreateOrUpdateBucket(t.Context(), hub, jetstream.KeyValueConfig{Bucket: guarded}, fence.GuardKey(key))
			check.OK(t, err)
			stream := strings.ToUpper(k.name[:4])
			_, err = fence.CreateOrUpdateStream(t.Context(), hub, jetstream.StreamConfig{Name: stream, Subjects: []string{"orders." + stream + ".>"}}, nameOf("orders."+stream+".guard", longestSubject))
			check.OK(t, err)

			js := k.js()
			b := check.Got(leader.OpenBucket(js, bucket))(t)
			gb := check.Got(fence.OpenBucket(js, guarded, fence.GuardKey(key)))(t)
			gs := check.Got(fence.OpenStream(js, stream, nameOf("orders."+stream+".guard", longestSubject)))(t)
			namesInUse(t, b, gb, gs, "orders."+stream+".")
			if nc := js.Conn(); !nc.IsConnected() || nc.Stats().Reconnects > 0 {
				t.Errorf("the connection is %v after %d reconnections: %v", nc.Status(), nc.Stats().Reconnects, nc.LastError())
			}
		})
	}
}

// namesInUse uses everything that takes a name, with the longest names.
func namesInUse(t *testing.T, b *leader.Bucket, gb *fence.Bucket, gs *fence.Stream, subjects string) {
	t.Helper()
	election, id := nameOf("e", longestElection), nameOf("id", longestID)
	c := tcpElectionOf(t, election).stand(b, leader.Config{ID: id, Queue: &leader.Queue{AtOnce: true}, TurnTimeout: longTurn, Guards: []leader.Guard{gb, gs}})
	other := tcpElectionOf(t, election).stand(b, leader.Config{ID: nameOf("other", longestID), Queue: &leader.Queue{AtOnce: true}, TurnTimeout: longTurn, Guards: []leader.Guard{gb, gs}})
	c, other = tcpLeads(t, c, other)
	term := c.Watcher.Term()
	for _, k := range []string{nameOf("k", longestSubject), nameOf("l", longestSubject)} {
		check.Got(gb.Writer(term).Put(t.Context(), k, []byte("1")))(t)
		batch := gb.Writer(term).Batch()
		batch.Put(k, []byte("2"))
		batch.Put("other", []byte("2"))
		check.Got(batch.Commit(t.Context()))(t)
		check.OK(t, gb.Writer(term).Delete(t.Context(), k))
	}
	check.Got(gs.Writer(term).Publish(t.Context(), nameOf(subjects, longestSubject), []byte("1")))(t)

	check.Got(leader.Lookup(t.Context(), b, election))(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	holders := check.Got(leader.Observe(ctx, b, election))(t)
	<-holders
	brief, enough := context.WithTimeout(t.Context(), time.Second)
	defer enough()
	if _, err := roster.Lookup(brief, b, election); err != nil && !errors.Is(err, leader.ErrUnreachable) { // another account receives nothing
		t.Error(err)
	}
	check.Got(roster.Observe(ctx, b, election))(t)
	var err error
	tcpEventually(t, "the other has announced itself, and takes over", func() bool {
		_, err = leader.StepDown(t.Context(), b, election, leader.StepDownOptions{To: other.ID(), By: "test"})
		return !errors.Is(err, leader.ErrRequestRefused)
	})
	check.OK(t, err)
	check.Got(leader.StepDown(t.Context(), b, election, leader.StepDownOptions{By: "test"}))(t)

	long := nameOf("s", longestElection-len(".seat.2"))
	tcpElectionOf(t, long).stand(seats.Of(b, 2), leader.Config{}).Expect(leadertest.Elected())
	check.Got(leader.Lookup(t.Context(), b, seats.Key(long, 2)))(t)
}

// tcpLeads waits until one of two candidates leads, and returns it first.
func tcpLeads(t *testing.T, a, b *tcpCandidate) (leads, waits *tcpCandidate) {
	t.Helper()
	tcpEventually(t, "one leads", func() bool { return a.IsLeader() || b.IsLeader() })
	if b.IsLeader() {
		a, b = b, a
	}
	a.Expect(leadertest.Elected())
	return a, b
}

// A name that is too long, or that has another form, is refused before anything reaches
// the connection.
func TestNames_BeyondTheirLimits(t *testing.T) {
	s := tcpServe(t, tcpOptions(t, ""))
	nc := tcpDial(t, s.ClientURL())
	js := tcpJS(t, nc)
	tcpCreate(t, js, leader.BucketConfig{Roster: true})
	check.Got(fence.CreateOrUpdateBucket(t.Context(), js, jetstream.KeyValueConfig{Bucket: "G"}))(t)
	config := jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}
	check.Got(fence.CreateOrUpdateStream(t.Context(), js, config, "s.guard"))(t)
	gb := check.Got(fence.OpenBucket(js, "G"))(t)
	gs := check.Got(fence.OpenStream(js, "S", "s.guard"))(t)
	b := tcpBucket(t, js)
	own := tcpDial(t, s.ClientURL())
	c := tcpElectionOf(t, "e").stand(tcpBucket(t, tcpJS(t, own)), leader.Config{Guards: []leader.Guard{gb, gs}})
	term := tcpTerm(c)
	check.OK(t, c.Stop())

	ctx, e, id := t.Context(), nameOf("e", longestElection+1), nameOf("i", longestID+1)
	campaign := func(election string, cfg leader.Config) func() error {
		return func() error {
			c, err := leader.Campaign(ctx, b, election, cfg)
			if c != nil {
				_ = c.Stop()
			}
			return err
		}
	}
	prefixed := func(prefix string) func() error {
		return func() error {
			other := check.Got(jetstream.NewWithAPIPrefix(nc, prefix))(t)
			_, err := leader.OpenBucket(other, "E")
			return err
		}
	}
	before := nc.Stats()
	for _, k := range []struct {
		what, text string
		call       func() error
	}{
		{"Campaign", "election of 513 bytes is more than 512", campaign(e, leader.Config{})},
		{"Campaign with seats", "election of 505 bytes is more than 502, which leave room for .seat.1000 of the last seat", func() error {
			return check.Err(leader.Campaign(ctx, seats.Of(b, 1000), nameOf("e", 505), leader.Config{}))
		}},
		{"Campaign for a seat", `election "x.seat.2" has the name of seat 2 of election "x"`, campaign("x.seat.2", leader.Config{})},
		{"Campaign for seats of a seat", `election "x.seat.2" has the name of seat 2 of election "x"`, func() error { return check.Err(leader.Campaign(ctx, seats.Of(b, 3), "x.seat.2", leader.Config{})) }},
		{"ID", "ID of 257 bytes is more than 256", campaign("x", leader.Config{ID: id})},
		{"ID that is no text", `ID "\xff" is not valid UTF-8`, campaign("x", leader.Config{ID: "\xff"})},
		{"ID of two lines", `ID "a\nb" contains a control character`, campaign("x", leader.Config{ID: "a\nb"})},
		{"Observe", "election of 513 bytes", func() error { _, err := leader.Observe(ctx, b, e); return err }},
		{"Lookup", "election of 513 bytes", func() error { _, err := leader.Lookup(ctx, b, e); return err }},
		{"roster.Lookup", "election of 513 bytes", func() error { _, err := roster.Lookup(ctx, b, e); return err }},
		{"roster.Observe", "election of 513 bytes", func() error { _, err := roster.Observe(ctx, b, e); return err }},
		{"StepDown", "election of 513 bytes", func() error { _, err := leader.StepDown(ctx, b, e, leader.StepDownOptions{By: ""}); return err }},
		{"Transfer", "election of 513 bytes", func() error {
			_, err := leader.StepDown(ctx, b, e, leader.StepDownOptions{Next: true, By: ""})
			return err
		}},
		{"Transfer to", "the ID of the successor of 257 bytes", func() error {
			_, err := leader.StepDown(ctx, b, "e", leader.StepDownOptions{To: id, Next: id == "", By: ""})
			return err
		}},
		{"Transfer to no text", "is not valid UTF-8", func() error { return leadertest.Led(c.Candidate).TransferTo(ctx, "\xff") }},
		{"OpenBucket", "the name of the bucket of 253 bytes is more than 252", func() error { _, err := leader.OpenBucket(js, nameOf("E", 253)); return err }},
		{"API prefix", "the prefix of the JetStream API of 1025 bytes is more than 1024", prefixed(nameOf("P", 1024))},
		{"FeedSubject", "the prefix of the feed of 1025 bytes", func() error { _, err := b.WithFeedSubject(nameOf("f", 1025)); return err }},
		{"GuardKey", "GuardKey of 1025 bytes", func() error {
			_, err := fence.OpenBucket(js, "G", fence.GuardKey(nameOf("k", 1025)))
			return err
		}},
		{"fence.OpenStream", "guard of 1025 bytes", func() error { _, err := fence.OpenStream(js, "S", nameOf("s.", 1025)); return err }},
		{"Put", "key of 1025 bytes", func() error { _, err := gb.Writer(term).Put(ctx, nameOf("k", 1025), nil); return err }},
		{"Delete", "key of 1025 bytes", func() error { return gb.Writer(term).Delete(ctx, nameOf("k", 1025)) }},
		{"Publish", "subject of 1025 bytes", func() error { _, err := gs.Writer(term).Publish(ctx, nameOf("s.", 1025), nil); return err }},
		{"PublishMsg", "the subject of a condition of 1025 bytes", func() error {
			_, err := gs.Writer(term).PublishMsg(ctx, &nats.Msg{Subject: "s.a", Header: nats.Header{
				jetstream.ExpectedLastSubjSeqHeader: {"0"}, jetstream.ExpectedLastSubjSeqSubjHeader: {nameOf("s.", 1025)},
			}})
			return err
		}},
	} {
		check.Says(t, k.call(), leader.ErrInvalidConfig, k.text)
	}
	after := nc.Stats()
	check.That(t, after.OutMsgs == before.OutMsgs && after.Reconnects == 0 && nc.IsConnected(),
		"%d messages were sent, %d reconnections", after.OutMsgs-before.OutMsgs, after.Reconnects)
}

// A header that does not fit into a message of the connection is refused, and the
// connection stays open.
func TestNames_OversizedHeaders(t *testing.T) {
	opts := tcpOptions(t, "max_payload: 4096")
	s := tcpServe(t, opts)
	nc := tcpDial(t, s.ClientURL())
	js := tcpJS(t, nc)
	tcpCreate(t, js, leader.BucketConfig{})
	gs, err := fence.CreateOrUpdateStream(t.Context(), js, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}, "s.guard")
	check.OK(t, err)
	c := tcpElectionOf(t, "e").stand(tcpBucket(t, js), leader.Config{Guards: []leader.Guard{gs}})
	term := tcpTerm(c)
	m := &nats.Msg{Subject: "s.a", Header: nats.Header{"X": {strings.Repeat("x", 4080)}}}
	check.Is(t, check.Err(gs.Writer(term).PublishMsg(t.Context(), m)), leader.ErrValueTooLarge)
	batch := gs.Writer(term).Batch()
	batch.Publish("s.b", nil)
	batch.PublishMsg(m)
	batch.Publish("s.c", nil)
	check.Is(t, check.Err(batch.Commit(t.Context())), leader.ErrValueTooLarge)
	if _, err := gs.Writer(term).Publish(t.Context(), "s.a", []byte("fits")); err != nil || nc.Stats().Reconnects > 0 {
		t.Errorf("afterwards: %v", err)
	}
}
