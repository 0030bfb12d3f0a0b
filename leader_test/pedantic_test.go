package leader_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// pedantic makes the server refuse messages to subjects with wildcards. nats.go closes the
// connection for good when it hears of one.
func pedantic(o *nats.Options) error {
	o.Pedantic = true
	return nil
}

// Every feature works on a pedantic connection, and the connection stays.
func TestPedantic_EveryFeature(t *testing.T) {
	for name, test := range map[string]func(w *world, cl *client){
		"requests and the feed": func(w *world, cl *client) {
			w.sealed()
			w.pedantic(cl, leader.Config{})
		},
		"a feed with a consumer": func(w *world, cl *client) {
			w.ordinary()
			w.pedantic(cl, leader.Config{})
		},
		"Queue and Roster": func(w *world, cl *client) {
			w.rostered()
			a := w.pedantic(cl, leader.Config{Queue: &leader.Queue{}})
			b := w.campaign(w.Context(), cl, "e", leader.Config{ID: "b", Queue: &leader.Queue{}})
			w.at(w.now() + 2*lease)
			all := check.Got(roster.Lookup(w.Context(), cl.bucket(w.T), "e"))(w)
			check.That(w, len(all) == 1 && all[0].ID == "b", "the roster: %v", all)
			check.Got(leader.StepDown(w.Context(), cl.bucket(w.T), "e", leader.StepDownOptions{Next: true}))(w)
			w.ledBy(b, a, b)
		},
		"Seats": func(w *world, cl *client) {
			w.rostered()
			cl.mark = seated(2)
			c := w.mute(w.Context(), cl, "e", leader.Config{ID: "a", Queue: &leader.Queue{}})
			w.at(w.now() + 2*lease)
			check.That(w, c.IsLeader(), "it does not lead")
			w.ok(c.Stop())
		},
		"guards": func(w *world, cl *client) {
			w.sealed()
			w.orders()
			w.stream(jetstream.StreamConfig{Subjects: []string{"orders.>"}, AllowAtomicPublish: true})
			b, s := cl.openBucket(w.T), cl.openStream(w.T)
			a := w.pedantic(cl, leader.Config{Guards: []leader.Guard{b, s}})
			check.Got(b.Writer(a.lastTerm(w.T)).Put(w.Context(), "k", []byte("1")))(w)
			check.Got(s.Writer(a.lastTerm(w.T)).Publish(w.Context(), "orders.new", []byte("1")))(w)
			check.Got(fence.CreateOrUpdateBucket(w.Context(), cl.js, jetstream.KeyValueConfig{Bucket: "others"}))(w)
		},
		"EnsureBucket": func(w *world, cl *client) {
			c := w.standOn(cl, cl.ensured(w, leader.BucketConfig{Roster: true}), leader.Config{ID: "a", Queue: &leader.Queue{}})
			w.at(w.now() + 2*lease)
			check.That(w, c.IsLeader(), "it does not lead")
		},
		"a bucket that CreateOrUpdateBucket looks through": func(w *world, cl *client) {
			w.ordinary()
			w.standAs(leader.Config{ID: "a"})
			w.at(w.now() + time.Second)
			check.Got(leader.CreateOrUpdateBucket(w.Context(), cl.js, leader.BucketConfig{Name: "E"}))(w)
		},
		"a step-down request that is to be answered on a wildcard": func(w *world, cl *client) {
			w.sealed()
			a := w.pedantic(cl, leader.Config{})
			w.ok(w.ops.nc.PublishRequest("natsleader.ask.E.e", "_INBOX.x.*", w.petition(0)))
			w.at(w.now() + 2*lease)
			w.ledBy(a, a)
		},
	} {
		inBubble.run(t, name, func(t *testing.T, w *world) {
			cl := w.dial("a", pedantic)
			test(w, cl)
			if err := cl.nc.FlushTimeout(time.Second); err != nil || cl.nc.LastError() != nil {
				t.Errorf("the connection: %v, %v", err, cl.nc.LastError())
			}
		})
	}
}

// pedantic makes a candidate, has it lead, and uses what an operator uses.
func (w *world) pedantic(cl *client, cfg leader.Config) *candidate {
	w.Helper()
	cfg.ID = "a"
	a := w.campaign(w.Context(), cl, "e", cfg)
	w.at(w.now() + 2*lease)
	w.ledBy(a, a)
	w.ok(a.Ping(w.Context()))
	w.ok(leadertest.Led(a).Proclaim(w.Context(), []byte("1")))
	h := check.Got(leader.Lookup(w.Context(), cl.bucket(w.T), "e"))(w)
	check.That(w, h.ID == "a", "Lookup: %v", h)
	check.Got(leader.StepDown(w.Context(), cl.bucket(w.T), "e", leader.StepDownOptions{By: "operator"}))(w)
	w.at(w.now() + 2*lease)
	w.ledBy(a, a)
	return a
}
