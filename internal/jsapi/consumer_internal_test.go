package jsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
)

// follower follows the subjects of a filter.
type follower struct {
	Subscription
	names []string // that it was given
	heard []string
	err   error
	info  *jetstream.ConsumerInfo
	after time.Duration
}

func (w *wired) follow(ctx context.Context, filter string, handle func()) *follower {
	w.Helper()
	f, began := &follower{}, time.Now()
	f.info, f.err = w.a.Follow(ctx, &f.Subscription, jetstream.ConsumerConfig{FilterSubject: filter}, func(name string) {
		f.names = append(f.names, name)
		synctest.Wait() // a denial of the inbox has arrived
	}, func(m *nats.Msg, meta *nats.MsgMetadata) {
		if handle != nil {
			handle()
		}
		f.heard = append(f.heard, fmt.Sprint(string(m.Data), " ", meta != nil))
	})
	f.after = time.Since(began)
	return f
}

// consumers makes consumers as the server does.
func (w *wired) consumers() {
	w.Helper()
	w.serve("$JS.API.CONSUMER.>", func(m *nats.Msg) {
		var req struct {
			Config jetstream.ConsumerConfig `json:"config"`
		}
		if json.Unmarshal(m.Data, &req) == nil && m.Reply != "" {
			made, err := json.Marshal(jetstream.ConsumerInfo{Stream: "S", Name: req.Config.Name, Config: req.Config})
			if err == nil {
				_ = m.Respond(made)
			}
		}
	})
}

// A follower has a consumer under a name of its own, and handles its messages, not those of
// another one. Close waits for the message that is being handled. A consumer is deleted by its
// name, if it has one.
func TestFollow_HandlesItsMessages(t *testing.T) {
	ats.Register() // the goroutine of the server's stores must not belong to a bubble
	defer ats.Unregister()
	dir := testserver.StoreDir(t)
	withWire(t, func(t *wired) {
		for stream, subject := range map[string]string{"S": "x.*", "T": "y"} {
			_, err := t.a.JS.CreateStream(undated{t.Context()}, jetstream.StreamConfig{Name: stream, Subjects: []string{subject}, Storage: jetstream.MemoryStorage})
			check.Must(t, err == nil, "%v", err)
		}
		t.tell("x.1", "old", "1")
		t.tell("x.2", "2")
		var slow atomic.Int64
		f := t.follow(t.within(time.Minute), "x.*", func() { time.Sleep(time.Duration(slow.Load())) })
		if f.err != nil || f.info == nil || len(f.names) != 1 || f.info.Name != f.names[0] || t.a.Left().Subscriptions != 1 {
			t.Fatalf("%+v, left: %+v", f, t.a.Left())
		}
		conf := f.info.Config
		if conf.AckPolicy != jetstream.AckNonePolicy || conf.Replicas != 1 || !conf.MemoryStorage || conf.FilterSubject != "x.*" {
			t.Errorf("the consumer is %+v", conf)
		}
		for stream, filter := range map[string]string{"S": "x.3", "T": "y"} { // they deliver to the same inbox
			other := jetstream.ConsumerConfig{Name: "other", DeliverSubject: conf.DeliverSubject, FilterSubject: filter, AckPolicy: jetstream.AckNonePolicy}
			if stream == "T" {
				other.Name = f.names[0]
			}
			check.OK(t, check.Err(t.a.JS.CreatePushConsumer(undated{t.Context()}, stream, other)))
		}
		t.tell("x.3", "3")
		t.tell("y", "foreign")
		time.Sleep(time.Second)
		slow.Store(int64(time.Second))
		t.tell("x.1", "4", "5")
		time.Sleep(500 * time.Millisecond)
		began := time.Now()
		f.Close()
		if d := time.Since(began); d != 500*time.Millisecond || t.a.Left().Subscriptions != 0 {
			t.Errorf("Close returned after %v, left: %+v", d, t.a.Left())
		}
		time.Sleep(time.Minute)
		want := []string{"1 true", "2 true", "3 true", "4 true"}
		check.That(t, slices.Equal(f.heard, want), "heard %q, want %q", f.heard, want)

		all := t.follow(t.within(time.Minute), "x.3", nil)
		synctest.Wait()
		t.tell(all.info.Config.DeliverSubject, "not stored")
		if want := []string{"3 true", "not stored false"}; !slices.Equal(all.heard, want) {
			t.Errorf("heard %q, want %q", all.heard, want)
		}
		t.a.DeleteConsumer("")
		exists := func() bool {
			_, err := t.a.JS.PushConsumer(undated{t.Context()}, "S", all.names[0])
			return err == nil
		}
		check.That(t, exists(), "a consumer was deleted without its name")
		t.a.DeleteConsumer(all.names[0])
		synctest.Wait()
		check.That(t, !exists(), "a consumer was not deleted")
		all.Close()
	}, func(o *server.Options) { o.JetStream, o.StoreDir = true, dir })
}

// After a refusal there is no consumer to delete. Without an answer there may be one, and the
// error names no consumer, so that it is the same with each try. A pedantic client does not put
// wildcards into the subject of its request.
func TestFollow_Fails(t *testing.T) {
	for name, tt := range map[string]struct {
		pedantic bool
		filter   string
		silent   bool
		answer   string
		want     error
		text     string
		after    time.Duration
		subject  string // asked, with * for the name
		names    int    // that may belong to a consumer
	}{
		"refused":          {filter: "x", answer: refused(CodeStreamNotFound), want: backend.ErrNoBucket, subject: "CREATE.S.*.x"},
		"silent":           {filter: "x", want: backend.ErrUnreachable, text: "no reply on $JS.API.CONSUMER.CREATE.S.*.x", after: time.Second, subject: "CREATE.S.*.x", names: 1},
		"pedantic":         {filter: "x.*", pedantic: true, want: backend.ErrUnreachable, text: "no reply on $JS.API.CONSUMER.CREATE.S.*", after: time.Second, subject: "CREATE.S.*", names: 1},
		"pedantic literal": {filter: "x", pedantic: true, want: backend.ErrUnreachable, text: "no reply on $JS.API.CONSUMER.CREATE.S.*.x", after: time.Second, subject: "CREATE.S.*.x", names: 1},
	} {
		t.Run(name, func(t *testing.T) {
			withWire(t, func(t *wired) {
				t.a.Conn.Opts.Pedantic = tt.pedantic
				var asked []string
				t.serve("$JS.API.CONSUMER.CREATE.>", func(m *nats.Msg) {
					asked = append(asked, strings.TrimPrefix(m.Subject, "$JS.API.CONSUMER."))
					if tt.answer != "" {
						_ = m.Respond([]byte(tt.answer))
					}
				})
				f := t.follow(t.within(time.Second), tt.filter, nil)
				synctest.Wait()
				check.That(t, errors.Is(f.err, tt.want) && strings.HasSuffix(f.err.Error(), tt.text) && f.after == tt.after,
					"%v after %v", f.err, f.after)
				if len(f.names) == 0 || len(asked) != 1 || strings.Replace(asked[0], f.names[0], "*", 1) != tt.subject {
					t.Errorf("asked %q with the names %q", asked, f.names)
				} else if last := f.names[len(f.names)-1]; (last != "") != (tt.names == 1) {
					t.Errorf("the names are %q", f.names)
				}
				f.Close()
			})
		})
	}
}

// A denied inbox is found when the consumer is made, and a denied request for a consumer names
// no consumer. Nothing is subscribed to without a connection.
func TestFollow_Denied(t *testing.T) {
	withWire(t, func(t *wired) {
		t.consumers()
		t.a.Conn.Opts.InboxPrefix = "denied.inbox"
		f := t.follow(t.within(time.Second), "x", nil)
		check.That(t, errors.Is(f.err, backend.ErrPermission) && strings.Contains(f.err.Error(), "Subscription to"),
			"a denied inbox: %v", f.err)
		f.Close()
		t.a.Conn.Opts.InboxPrefix = "_INBOX"
		t.a.Prefix = "denied.API."
		js, err := jetstream.NewWithAPIPrefix(t.a.Conn, "denied.API")
		t.ok(err)
		t.a.JS = js
		f = t.follow(t.within(time.Second), "x", nil)
		if !errors.Is(f.err, backend.ErrPermission) || !strings.HasSuffix(f.err.Error(), `Publish to "denied.API.CONSUMER.CREATE.S.*.x"`) {
			t.Errorf("a denied request: %v", f.err)
		}
		f.Close()
		t.a.Conn.Close()
		f = t.follow(t.Context(), "x", nil)
		check.That(t, errors.Is(f.err, backend.ErrConnectionClosed) && len(f.names) == 0,
			"without a connection: %v, %q", f.err, f.names)
		f.Close()
		t.a.DeleteConsumer("x")
	})
}
