package leader_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// accountsConfig is the example of docs/permissions.md.
const accountsConfig = "../deploy/accounts.conf"

// inAccounts runs a test with the configuration in deploy/accounts.conf, and an administrator of the bucket's account, from 2 s on. Of the
// account BILLING, b1 leads and b2 waits. The client of the account SHIPPING may do everything
// in that account.
func inAccounts(t *testing.T, test func(h *hostileClient, b1, b2 *guardian)) {
	t.Helper()
	for _, user := range []string{"OPERATOR", "CREATOR", "BILLING", "SHIPPING"} {
		t.Setenv(user+"_PASSWORD", "x")
	}
	bubbleOf(t, func() *server.Options {
		opts := check.Got(server.ProcessConfigFile(accountsConfig))(t)
		elections := slices.IndexFunc(opts.Accounts, func(a *server.Account) bool { return a.Name == "ELECTIONS" })
		opts.NoAuthUser, opts.Users = "admin", append(opts.Users, &server.User{Username: "admin", Account: opts.Accounts[elections]})
		return opts
	}, func(w *world) {
		_, err := leader.CreateOrUpdateBucket(w.Context(), w.ops.js, leader.BucketConfig{Name: "elections", MaxLease: lease})
		w.ok(err)
		stand := func(id string) *guardian {
			cl := w.dial(id, nats.UserInfo("billing", "x"))
			w.ownOrders(cl.js)
			g := cl.openBucket(t)
			cl.js, err = jetstream.NewWithAPIPrefix(cl.nc, "elections")
			w.ok(err)
			cl.stands = "elections"
			return &guardian{w.campaign(w.Context(), cl, "billing", leader.Config{ID: id, Guards: []leader.Guard{g}}), []*fence.Bucket{g}}
		}
		h := &hostileClient{
			world: w, client: w.dial("hostile", nats.UserInfo("shipping", "x")),
			api: "elections.", put: "elections.", bucket: "elections", election: "shipping",
		}
		b1 := stand("b1")
		w.at(time.Second)
		b2 := stand("b2")
		w.at(2 * time.Second)
		b1.saw(t, "0s pending", "0s elected")
		b2.saw(t, "1s observed b1")
		test(h, b1, b2)
	})
}

// ownOrders makes the guarded bucket in the account of a client.
func (w *world) ownOrders(js jetstream.JetStream) {
	w.Helper()
	check.Got(fence.CreateOrUpdateBucket(w.Context(), js, jetstream.KeyValueConfig{Bucket: "orders"}))(w)
}

// A client of another account disturbs nothing, wherever the server sends the replies to
// its requests.
func TestHostile_OtherAccount(t *testing.T) {
	for name, reply := range hostileReplies {
		t.Run(name, func(t *testing.T) {
			inAccounts(t, func(h *hostileClient, b1, b2 *guardian) {
				operator := check.Got(h.ops.js.KeyValue(h.Context(), "elections"))(h)
				key := check.Got(operator.Get(h.Context(), "billing"))(h)
				raised := h.guardOf(b1)
				petition := petitionOf(strings.Trim(field(key.Value(), "session"), `"`), b1.lastTerm(t).Token())
				values := map[string][]byte{
					"$KV.elections.billing":                      junkRecord("released", "X", "6s", 0, 1),
					"elections.$KV.elections.billing":            junkRecord("released", "X", "6s", 0, 1),
					"natsleader.feed.elections.billing":          junkRecord("released", "X", "6s", 0, 1),
					"natsleader.ask.elections.billing":           petition,
					"$KV.orders." + fence.DefaultGuardKey:        []byte("junk"),
					"elections.$KV.orders.natsleader.guard":      []byte("junk"),
					"$KV.orders.next":                            []byte("junk"),
					"$JS.API.STREAM.DELETE.KV_elections":         nil,
					"elections.STREAM.DELETE.KV_elections":       nil,
					"elections.STREAM.INFO.KV_elections":         nil,
					"elections.$KV.elections.shipping":           []byte("junk"),
					"natsleader.feed.elections.billing.whatever": nil,
				}
				for to, value := range values {
					last := uint64(0) // of a subject outside the bucket
					if to == "$KV.elections.billing" {
						last = key.Revision()
					}
					reply(h, to, value, last)
					h.at(h.now())
					h.ok(h.nc.PublishRequest(to, h.nc.NewInbox(), value)) // directly, too
				}
				h.ok(h.nc.Flush())
				h.at(20 * time.Second)
				b1.saw(t)
				b2.saw(t)
				check.Equal(t, h.guardOf(b1), raised, "the guard is at %d, was raised at %d", raised)
				check.Is(t, check.Err(b1.writer(t).Put(h.Context(), "next", []byte("1"))), nil)
			})
		})
	}
}

// guardOf returns the revision of the guard in the account of a candidate.
func (w *world) guardOf(g *guardian) uint64 {
	w.Helper()
	js := check.Got(jetstream.New(g.nc))(w)
	kv := check.Got(js.KeyValue(w.Context(), "orders"))(w)
	e := check.Got(kv.Get(w.Context(), fence.DefaultGuardKey))(w)
	return e.Revision()
}

// With the example, candidates hand over, and the operator learns the answer of a leader.
func TestHostile_AccountsHandOver(t *testing.T) {
	inAccounts(t, func(h *hostileClient, b1, b2 *guardian) {
		elections := check.Got(leader.OpenBucket(h.ops.js, "elections"))(h)
		asked, err := leader.StepDown(h.Context(), elections, "billing", leader.StepDownOptions{By: "jane@laptop"})
		check.That(t, err == nil && asked.ID == "b1", "StepDown: %v, %v", asked, err)
		b1.saw(t, "2s deposed resigned", "2s observed nobody", "2s observed b2")
		b2.saw(t, "2s observed nobody", "2s pending", "2s elected")
		h.isAt(2*time.Second, "handed over")
		// The answer of a leader reaches the other account.
		h.at(3 * time.Second)
		kv := check.Got(h.ops.js.KeyValue(h.Context(), "elections"))(h)
		key := check.Got(kv.Get(h.Context(), "billing"))(h)
		answer, err := h.ops.nc.Request("natsleader.ask.elections.billing", petitionOf(strings.Trim(field(key.Value(), "session"), `"`), b2.lastTerm(t).Token()), time.Second)
		check.That(t, err == nil && strings.Contains(string(answer.Data), `"accepted"`),
			"the answer: %v, %v", answer, err)
	})
}
