package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/history"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// The page gets each election, its changes with their causes, its record and its roster, also
// after the bucket or the connection was away.
func TestUI_Elections(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		stop := w.Follow("serve --bucket jobs --allow-actions")
		for _, path := range []string{"/api/elections", "/api/roster?election=billing"} {
			w.Reads(path)
		}
		for _, request := range []string{"{", `{"election":"billing"}`} {
			w.Asks(http.MethodPost, "/api/step-down", request, "Natsleader-Secret: "+w.Secret())
		}
		at := func(what string, do func()) {
			w.Notef("# %s\n", what)
			do()
			time.Sleep(10*time.Second + 7*time.Millisecond) // between two ticks
		}
		at("the bucket is made", func() {
			var err error
			w.Bucket, err = leader.CreateOrUpdateBucket(w.Context(), w.Js, leader.BucketConfig{Name: "jobs", Roster: true, MaxLease: 10 * time.Second})
			expect.OK(w, err)
		})
		at("a leads, and b waits", func() {
			w.Campaigns("billing", leader.Config{ID: "a", Queue: &leader.Queue{AtOnce: true}, Value: []byte("10.0.0.1")})
			w.Campaigns("billing", leader.Config{ID: "b", Queue: &leader.Queue{AtOnce: true}, Value: []byte{0xff}})
		})
		w.Reads("/api/roster?election=billing")
		w.Asks(http.MethodGet, "/api/record?election=billing", "")
		w.Asks(http.MethodGet, "/api/record?election=other", "")
		stops := func(c *leader.Candidate) func() {
			return func() { expect.OK(w, c.Stop()) }
		}
		at("b leaves", stops(w.Stands[1]))
		at("a stops", stops(w.Stands[0]))
		at("b leads", func() { w.Campaigns("billing", leader.Config{ID: "b", Value: []byte{0xff}}) })
		at("web-1 is cordoned", func() { w.Prompt("drain web-1 --keep --bucket jobs") })
		at("the server restarts", w.Restart)
		at("the bucket is deleted", func() { expect.OK(w, w.Js.DeleteKeyValue(w.Context(), "jobs")) })
		at("the server is gone", func() {
			w.S.Shutdown()
			w.S.WaitForShutdown()
		})
		stop()
		w.Serve()
	})
}

// The page gets the past of an election, and whether the bucket keeps one.
func TestUI_Past(t *testing.T) {
	proof.NotRaced(t)
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		defer w.Follow("serve")()
		time.Sleep(time.Second)
		past := func(election, hours string) {
			w.Asks(http.MethodGet, "/api/past?election="+election+"&hours="+hours, "")
		}
		past("billing", "1")
		past("", "1")
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		a := w.Campaigns("billing", leader.Config{ID: "a", Value: []byte("10.0.0.7")})
		time.Sleep(65 * time.Minute)
		expect.OK(w, a.Stop())
		time.Sleep(time.Millisecond) // the history copies it before the next record takes its place
		past("billing", "1")
		w.Campaigns("billing", leader.Config{ID: "b"})
		for _, hours := range []string{"1", "168", "0", "169", "x"} {
			past("billing", hours)
		}
		time.Sleep(65 * time.Minute)
		past("billing", "1")
		past("", "1")
		past("", "168")
		past("b*", "1")
		past("nothing", "1")
		w.Notef("# the server is gone\n")
		w.S.Shutdown()
		w.S.WaitForShutdown()
		synctest.Wait() // the command has noticed
		past("billing", "1")
		w.Serve()
	})
}

// The page gets for how long nobody worked, by election, also while that goes on.
func TestUI_UnworkedToday(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		defer w.Follow("serve")()
		for _, election := range []string{"billing", "mail", "orders.shard.assigner"} {
			testworld.Put(w.T, w.Js, election, fmt.Sprintf(`{"v":1,"state":"leading","id":"a","session":"s","n":1,"lease":"15s","token":7,"since":%q}`, time.Now().UTC().Format(time.RFC3339Nano)))
		}
		time.Sleep(time.Minute)
		w.Campaigns("mail", leader.Config{ID: "b"})
		time.Sleep(time.Minute)
		for _, since := range []time.Time{time.Now().Add(-time.Hour), time.Now().Add(-30 * time.Second), time.Unix(0, 0)} {
			w.Asks(http.MethodGet, fmt.Sprint("/api/past?election=&hours=1&since=", since.UnixMilli()), "")
		}
		w.Asks(http.MethodGet, "/api/past?election=mail&hours=1", "")
		w.Notef("# a key is overwritten, and hours later all goes on\n")
		testworld.Put(w.T, w.Js, "other", "hello")
		time.Sleep(2 * time.Hour)
		w.Asks(http.MethodGet, fmt.Sprint("/api/past?election=&hours=1&since=", time.Now().Add(-30*time.Minute).UnixMilli()), "")
		w.Asks(http.MethodGet, "/api/past?election=&hours=1", "")
	})
}

// The page gets for how much of a time an election is not known: what the history has dropped, or has not copied. Where keys
// expire, one that is gone since before is idle.
func TestUI_UnknownToday(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"kept": 0, "expires": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			testworld.Bubble(t, leader.BucketConfig{TTL: ttl}, func(w *testworld.World) {
				w.Run(fmt.Sprintf("bucket add --ttl %v --history 1d", ttl))
				time.Sleep(time.Second) // the history begins
				defer w.Follow("serve")()
				w.Publish("$KV.elections.gone", "", "KV-Operation", "DEL")
				time.Sleep(time.Minute)
				since := time.Now()
				leads := func(election string, token int) {
					testworld.Put(w.T, w.Js, election, fmt.Sprintf(`{"v":1,"state":"leading","id":"a","session":"s","n":1,"lease":"1h0m0s","token":%d,"since":%q}`, token, time.Now().UTC().Format(time.RFC3339Nano)))
				}
				leads("mail", 7)
				for i := range 3 {
					leads("billing", 7+i)
					time.Sleep(time.Minute)
				}
				asks := func(what string) {
					_, text := w.Ask(http.MethodGet, fmt.Sprint("/api/past?election=&hours=1&since=", since.UnixMilli()), "")
					var past webpage.Past
					expect.OK(w, json.Unmarshal([]byte(text), &past))
					w.Notef("# %s: %+v; any election is not known for at most %v ms, before %v\n", what, past.Unworked, past.Unknown, past.From)
				}
				asks("all was kept")
				kept := expect.Got(w.Js.Stream(w.Context(), facts.HistoryStream("elections")))(w)
				expect.OK(w, kept.Purge(w.Context(), jetstream.WithPurgeKeep(1)))
				asks("only the last record was kept")
				expect.OK(w, kept.Purge(w.Context()))
				asks("no record was kept")
				leads("billing", 11)
				time.Sleep(time.Minute)
				asks("the next record was copied")
			})
		})
	}
}

// Where the bucket is not read, it may have elections of which the history knows nothing.
func TestUI_UnreadToday(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		defer w.Follow("serve")()
		time.Sleep(time.Minute)
		nc := w.Connect()
		defer nc.Close()
		_, err := nc.SubscribeSync("nobody.>") // answers
		expect.OK(w, errors.Join(err, w.S.GlobalAccount().AddMapping("$JS.API.CONSUMER.CREATE.KV_elections.>", "nobody.>")))
		w.Asks(http.MethodGet, fmt.Sprint("/api/past?election=&hours=1&since=", time.Now().Add(-10*time.Second).UnixMilli()), "")
	})
}

// A history whose stream does not answer is not blamed on the server that does.
func TestUI_HistoryAway(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Run("bucket add --history 30d")
		defer w.Follow("serve")()
		time.Sleep(time.Second)
		nc := w.Connect()
		defer nc.Close()
		_, err := nc.SubscribeSync("nobody") // answers
		expect.OK(w, errors.Join(err, nc.Flush(), w.S.GlobalAccount().AddMapping("$JS.API.STREAM.INFO."+facts.HistoryStream("elections"), "nobody")))
		for _, election := range []string{"", "billing"} {
			w.Asks(http.MethodGet, "/api/past?election="+election+"&hours=1", "")
		}
	})
}

// A history whose stream was deleted is not one that the bucket does not keep.
func TestUI_HistoryLost(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Run("bucket add --history 30d")
		expect.OK(w, w.Js.DeleteStream(w.Context(), facts.HistoryStream("elections")))
		defer w.Follow("serve")()
		time.Sleep(time.Second)
		for _, election := range []string{"", "billing"} {
			w.Asks(http.MethodGet, "/api/past?election="+election+"&hours=1", "")
		}
	})
}

// A user who may not read the history gets no past, and what is followed goes on.
func TestUI_DeniedPast(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		defer w.Follow("serve -s nats://denied:denied@localhost")()
		w.Reads("/api/elections")
		time.Sleep(time.Second)
		for range 2 {
			w.Asks(http.MethodGet, "/api/past?election=billing&hours=1", "")
		}
		w.Asks(http.MethodGet, "/api/past?election=&hours=1", "")
		w.Campaigns("billing", leader.Config{ID: "a"})
		time.Sleep(time.Minute)
	}, testworld.WithUser("denied", testworld.Denied("$JS.API.STREAM.INFO.natsleader_history_elections")))
}

// A page gets the newest terms that were read within ten seconds, and since when all is known. The command reads all.
func TestUI_LongPast(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		for i := range 60 {
			testworld.Put(w.T, w.Js, "billing", fmt.Sprintf(`{"v":1,"state":"leading","id":"a","session":"s","n":1,"lease":"1h0m0s","token":%d,"since":%q}`, i+7, time.Now().UTC().Format(time.RFC3339Nano)))
			time.Sleep(time.Second)
		}
		w.Away = 50 * time.Millisecond
		defer w.Follow("serve")()
		time.Sleep(time.Second)
		begun := time.Now()
		_, text := w.Ask(http.MethodGet, "/api/past?election=billing&hours=1", "")
		var shown struct {
			Spans []history.Span
			Notes []string
		}
		expect.OK(w, json.Unmarshal([]byte(text), &shown))
		w.Notef("after %v it has %d terms since %s: %s\n", time.Since(begun), len(shown.Spans), front.FormatTime(shown.Spans[0].Since), shown.Notes)
		out, notes, _ := w.Run("history billing --json")
		w.Notef("the command has %d terms%s\n", strings.Count(out, `"leading"`), notes)
		begun = time.Now()
		out, notes, _ = w.Run("history --json")
		w.Notef("of all elections it has %d change after %v: %s", strings.Count(out, `"at"`), time.Since(begun), notes)
	})
}

// A group is one row, with its members, what each owns, and how that has changed, also after the connection was away. Its
// trouble is that of its shards and its assigner.
func TestUI_Groups(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		defer w.Follow("serve")()
		w.Reads("/api/elections")
		shows := func(what string) {
			w.Notef("# %s\n", what)
			time.Sleep(20*time.Second + 7*time.Millisecond) // between two ticks
		}
		time.Sleep(view.Tick / 2) // the portions of the cold start come between two ticks
		a := w.Joins("a", shard.Config{})
		b := w.Joins("b", shard.Config{Value: []byte("10.0.0.8:80"), Hold: time.Minute})
		shows("a and b have joined")
		w.Restart()
		shows("the server has restarted")
		b.Dies()
		shows("b has died, and its shards wait for a member of the same ID")
		time.Sleep(time.Minute)
		shows("they are granted to a")
		a.Dies()
		w.Publish("$KV.elections.orders.shard.map", `{"v":2}`)
		shows("a has died, and the map is of a later version")
	})
}

// While the page does not hear of a group it shows what it has heard last, and that it is not up to date. Afterwards it has the
// steps that were made meanwhile, and no other.
func TestUI_SilentGroup(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		defer w.Follow("serve")()
		w.Reads("/api/elections")
		shows := func(what string, lasts time.Duration) {
			w.Notef("# %s\n", what)
			time.Sleep(lasts)
		}
		time.Sleep(view.Tick / 2)
		w.Joins("a", shard.Config{})
		w.Joins("b", shard.Config{})
		shows("a and b have joined", 40*time.Second+7*time.Millisecond)
		w.CutOff(0, 40*time.Second, &jetstream.ClusterInfo{Name: "c", Replicas: []*jetstream.PeerInfo{{Name: "n2", Offline: true}, {Name: "n3", Offline: true}}})
		shows("its server hears no majority", 10*time.Second)
		w.Joins("c", shard.Config{})
		shows("c joins", 40*time.Second)
		w.Notef("# the bucket is deleted\n")
		time.Sleep(time.Second) // between two looks
		expect.OK(w, w.Js.DeleteKeyValue(w.Context(), "elections"))
		time.Sleep(40 * time.Second)
	})
}

// The page drains members of groups, and lets them take shards again.
func TestUI_MemberActions(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Joins("a", shard.Config{})
		w.Joins("b", shard.Config{})
		defer w.Follow("serve --allow-actions")()
		secret := "Natsleader-Secret: " + w.Secret()
		time.Sleep(time.Second) // it is connected
		for _, request := range []string{"drain-member a orders", "drain-member c orders", "drain-member a other", "undrain-member a orders", "drain-member  orders"} {
			words := strings.Split(request, " ")
			w.Asks(http.MethodPost, "/api/"+words[0], fmt.Sprintf(`{"name":%q,"group":%q}`, words[1], words[2]), secret)
			time.Sleep(20 * time.Second)
			for _, p := range expect.Got(shard.Lookup(w.Context(), w.Bucket, "orders"))(w).Members {
				w.Notef("# %s has %d shards; drained: %v\n", p.ID, p.Shards, p.Drained)
			}
		}
	})
}

// With --allow-actions the page asks leaders to hand over: for this host, the names of --allow-host and this origin
// alone, with the secret of the link that was printed. Without it there is no link, and nothing to ask.
func TestUI_Actions(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		for _, id := range []string{"a", "b"} {
			w.Campaigns("billing", leader.Config{ID: id, Queue: &leader.Queue{AtOnce: true}})
		}
		stop := w.Follow("serve")
		w.Asks(http.MethodPost, "/api/step-down", `{"election":"billing"}`)
		stop()
		first := w.Follow("serve --allow-actions")
		old := w.Secret()
		first()
		defer w.Follow("serve --allow-actions --allow-host Ops.example")()
		secret := w.Secret()
		time.Sleep(time.Second) // it is connected
		act := func(path, body string, headers ...string) {
			w.Asks(http.MethodPost, path, body, append(headers, "Natsleader-Secret: "+secret)...)
			time.Sleep(time.Minute) // the leader before has rested
		}
		token := func() string {
			for _, c := range w.Stands {
				if term, leads := c.Term(); leads {
					return fmt.Sprint(term.Token())
				}
			}
			return "no leader"
		}
		term := token()
		act("/api/transfer", `{"election":"billing","id":"b","token":"`+term+`"}`, "Host: ops.example", "Origin: https://ops.example")
		act("/api/step-down", `{"election":"billing","token":"`+term+`"}`)
		act("/api/step-down", `{"election":"billing","token":"`+token()+`"}`)
		w.Campaigns("mail", leader.Config{ID: "node-3_41_x9z"})
		w.Campaigns("mail", leader.Config{ID: "node-4"})
		w.Campaigns("maps", leader.Config{ID: "node-3"})
		act("/api/drain", `{"name":"node-3"}`)
		act("/api/drain", `{"name":"node-4","cordon":true}`)
		w.Prompt("drain node-4 --keep --dry-run")
		act("/api/uncordon", `{"name":"node-4"}`)
		act("/api/uncordon", `{"name":"node-4"}`)
		for _, request := range []string{`{}`, `{`} {
			act("/api/drain", request)
		}
		act("/api/step-down", `{"election":"other"}`)
		act("/api/step-down", `{"election":"a.>"}`)
		act("/api/step-down", `{"election":"billing"}`, "Host: evil.example")
		w.Asks(http.MethodPost, "/api/step-down", `{"election":"billing"}`, "Natsleader-Secret: "+old)
		for _, path := range []string{"/", "/ui.js", "/detail.js", "/api/record?election=billing"} {
			response, text := w.Ask(http.MethodGet, path, "")
			expect.That(w, response.StatusCode == 200 && !strings.Contains(text+fmt.Sprint(response.Header), secret), "%s: %s\n%s", path, response.Status, text)
		}
	})
}

// A page that waits for a leader with work gets an answer before the limit of the response.
func TestUI_SlowActions(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		defer w.Follow("serve --allow-actions")()
		c := w.Campaigns("billing", leader.Config{ID: "a", GracePeriod: time.Hour})
		term := leadertest.Led(c)
		end, _ := leadertest.Work(term)
		defer end()
		for _, action := range [][2]string{{"step-down", fmt.Sprintf(`{"election":"billing","token":"%d"}`, term.Token())}, {"drain", `{"name":"a"}`}} {
			began := time.Now()
			w.Asks(http.MethodPost, "/api/"+action[0], action[1], "Natsleader-Secret: "+w.Secret())
			w.Notef("# after %v\n", time.Since(began))
		}
	})
}
