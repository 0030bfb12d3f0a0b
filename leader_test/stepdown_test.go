package leader_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
)

// asks is the subject of requests to the holder of "e".
const asks = "natsleader.ask.E.e"

// On request, a leader hands over in order, and StepDown returns when it has.
func TestStepDown(t *testing.T) { story(t) }

// petitionOf returns a request to step down, as any client may send it.
func petitionOf(session string, token uint64) []byte {
	data, _ := json.Marshal(map[string]any{"v": 1, "do": "step-down", "session": session, "token": token})
	return data
}

// petition returns the request of StepDown to the present holder of the key, but with
// any token.
func (w *world) petition(token uint64) []byte {
	w.Helper()
	e := check.Got(w.kv().Get(w.Context(), "e"))(w)
	return petitionOf(strings.Trim(field(e.Value(), "session"), `"`), token)
}

// A request that is late, sent twice, not understood, or for the bucket of that name in another domain
// pushes no leader out.
func TestStepDown_IsForOneTerm(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.stand("a"), (*candidate)(nil)
		w.at(time.Second)
		b = w.stand("b")
		w.at(2 * time.Second)
		first := w.petition(a.lastTerm(t).Token())
		w.ok(leadertest.Resign(w.Context(), a))
		w.at(3 * time.Second)
		w.leads(a, b)
		b.news()
		token := b.lastTerm(t).Token()
		h, err := leader.StepDown(w.Context(), w.ops.bucket(t), "e", leader.StepDownOptions{Token: token - 1})
		check.Is(t, err, leader.ErrNoLeader)
		check.That(t, h.ID == "b" && h.Token == token, "the holder is %v", h)
		for _, request := range [][]byte{
			first, first, w.petition(0), w.petition(1 << 60), petitionOf("", token), petitionOf("x", token), nil, []byte("{}"), []byte("["),
			bytes.Replace(w.petition(token), []byte(`"v":1`), []byte(`"v":2`), 1),
			bytes.Replace(w.petition(token), []byte("step-down"), []byte("jump"), 1),
			bytes.Replace(w.petition(token), []byte(`step-down"`), []byte(`transfer","to":"`+strings.Repeat("x", record.MaxID+1)+`"`), 1),
		} {
			w.ok(w.ops.nc.PublishRequest(asks, w.ops.nc.NewInbox(), request))
		}
		// A request has no headers, and a subject for the answer.
		w.ok(w.ops.nc.PublishMsg(&nats.Msg{Subject: asks, Reply: w.ops.nc.NewInbox(), Data: w.petition(token), Header: nats.Header{"X": {"y"}}}))
		w.ok(w.ops.nc.Publish(asks, w.petition(token)))
		w.ok(w.ops.nc.Flush())
		w.at(4 * time.Second)
		b.saw(t)
		w.leads(a, b)
		// The right request, twice.
		for range 2 {
			w.ok(w.ops.nc.PublishRequest(asks, w.ops.nc.NewInbox(), w.petition(token)))
		}
		w.at(8 * time.Second)
		b.saw(t, "4s deposed resigned", "4s observed nobody", "4s observed a")
	})
}

// A leader that is set to refuse requests accepts one that it serves already, because it drains. It logs the name
// of the client, up to a length.
func TestStepDown_IsRefused(t *testing.T) {
	inSealed(t, func(w *world) {
		var log bytes.Buffer
		a := w.standAs(leader.Config{ID: "a", RefuseRequests: true, GracePeriod: 20 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		w.at(time.Second)
		a.news()
		_, err := leader.StepDown(w.Context(), w.ops.bucket(t), "e", leader.StepDownOptions{By: strings.Repeat("x", record.MaxID+1)})
		check.Is(t, err, leader.ErrRequestRefused)
		a.saw(t)
		check.That(t, strings.Contains(log.String(), "by="+strings.Repeat("x", record.MaxID)+" answer=refused"), "the log is\n%s", log.String())
		end, _ := leadertest.Work(a.lastTerm(t))
		resigning := w.begin(func() error { return leadertest.Resign(w.Context(), a) })
		w.at(2 * time.Second)
		asking := w.begin(func() error {
			return check.Err(leader.StepDown(w.Context(), w.ops.bucket(t), "e", leader.StepDownOptions{By: "eve"}))
		})
		synctest.Wait()
		end()
		w.at(3 * time.Second)
		asking.returned(2*time.Second, nil)
		check.That(t, strings.Contains(log.String(), `msg="asked to hand over" election=e id=a token=`) && strings.Contains(log.String(), "by=eve answer=accepted"),
			"the log is\n%s", log.String())
		resigning.returned(2*time.Second, nil)
	})
}

// There is no leader to ask, no leader that listens, or no time.
func TestStepDown_ReachesNoLeader(t *testing.T) { story(t) }

// StepDown also works if the leader's answer is lost.
func TestStepDown_AnswerIsLost(t *testing.T) { story(t) }

// A draining leader answers a repeated request, and is not pushed any further.
func TestStepDown_OfDrainingLeader(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.standAs(leader.Config{ID: "a", GracePeriod: 20 * time.Second})
		w.at(time.Second)
		a.news()
		end, _ := leadertest.Work(a.lastTerm(t))
		request := w.petition(a.lastTerm(t).Token())
		w.ok(w.ops.nc.PublishRequest(asks, w.ops.nc.NewInbox(), request)) // the answer is lost
		w.at(2 * time.Second)
		a.saw(t, "1s fenced resigned")
		answer := check.Got(w.ops.nc.Request(asks, request, time.Second))(w)
		check.That(t, strings.Contains(string(answer.Data), `"answer":"accepted"`), "the answer is %s", answer.Data)
		w.at(15 * time.Second) // the drain is longer than 5 s
		a.saw(t)
		end()
		w.at(w.now())
		a.saw(t, "15s deposed resigned", "15s observed nobody")
	})
}

// The requester chooses the subject of the answer. The answer goes to no key, although
// the leader might write it.
func TestStepDown_AnswersInboxes(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.standAs(leader.Config{ID: "a", RefuseRequests: true})
		w.at(time.Second)
		a.news()
		request := w.petition(a.lastTerm(t).Token())
		for _, reply := range []string{"$KV.E.e", "$KV.E.other", "$JS.API.STREAM.DELETE.KV_E", "x._INBOX.y"} {
			w.ok(w.ops.nc.PublishRequest(asks, reply, request))
		}
		w.at(10 * time.Second)
		a.saw(t)
		check.Is(t, check.Err(w.kv().Get(w.Context(), "other")), jetstream.ErrKeyNotFound)
		check.Got(w.ops.nc.Request(asks, request, time.Second))(w)
	})
}

// A waiting candidate listens for no requests, and neither does a former leader.
func TestStepDown_OnlyLeaderListens(t *testing.T) {
	inSealed(t, func(w *world) {
		ears := func() (n int) {
			subs := check.Got(w.current().Subsz(&server.SubszOptions{Subscriptions: true}))(w)
			for _, s := range subs.Subs {
				if s.Subject == asks {
					n++
				}
			}
			return n
		}
		a := w.stand("a")
		w.at(time.Second)
		b, c := w.stand("b"), w.stand("c")
		w.at(2 * time.Second)
		check.Equal(t, ears(), 1, "%d listen, of three of whom one leads")
		w.ok(leadertest.Resign(w.Context(), a))
		w.at(3 * time.Second)
		w.leads(a, b, c)
		check.Equal(t, ears(), 1, "%d listen after a handover")
		for _, x := range []*candidate{a, b, c} {
			w.ok(x.Stop())
		}
		w.at(4 * time.Second)
		check.Equal(t, ears(), 0, "%d listen when all have stopped")
	})
}

// Stop comes while the leader is answering.
func TestStepDown_WhileStopping(t *testing.T) {
	inSealed(t, func(w *world) {
		for i := range 50 {
			a := w.standAs(leader.Config{ID: "a", RefuseRequests: i%2 == 0})
			w.at(w.now())
			request := w.petition(a.lastTerm(t).Token())
			for range 20 {
				w.ok(w.ops.nc.PublishRequest(asks, w.ops.nc.NewInbox(), request))
			}
			w.ok(a.Stop())
			<-a.Done()
			a.nc.Close()
		}
	})
}
