package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/doctor"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// printed fails the test unless all of the texts are in the output.
func printed(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		expect.That(t, strings.Contains("\n"+out, text), "no %q in:\n%s", text, out)
	}
}

// as are the arguments by which a user connects.
func as(name string) string { return fmt.Sprintf("-s nats://%s:%[1]s@localhost ", name) }

// Doctor counts the elections that are led and their renewals, finds the bucket in a JetStream domain, and
// rejects wrong arguments.
func TestDoctor_Load(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{MaxLease: time.Hour}, func(w *testworld.World) {
		f := w.FindingsBeside("")
		w.Campaigns("billing", leader.Config{ID: "a", LeaseDuration: time.Minute})
		w.Campaigns("mail", leader.Config{ID: "b", LeaseDuration: 30 * time.Second})
		c := w.Campaigns("audit", leader.Config{ID: "c"})
		expect.OK(w, c.Stop())
		f.Show("", "--js-domain hub", "--js-domain elsewhere", "--bucket none --json")
		w.Prompt("doctor --lease=-3s", "doctor --election a..b", "doctor --system-context nobody's", "doctor --bucket a*b")
	}, func(o *server.Options) { o.JetStreamDomain = "hub" })
}

// Elections that no candidate has renewed or taken for more than a lease are a warning, also if their keys were deleted,
// and those that were given up in order, or ended just now, are none. The advice works: to lead and release the election
// once, and to note that it is for a job.
func TestDoctor_Abandoned(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		f := w.FindingsBeside("")
		c := w.Campaigns("released", leader.Config{ID: "a"})
		lease := 10 * time.Second
		text := testworld.Record(w.T, w.Js, "released", "b", lease)
		expect.OK(w, c.Stop())
		for _, election := range []string{"df", "deleted"} {
			testworld.Put(w.T, w.Js, election, text)
		}
		w.Publish("$KV.elections.foreign", "hello")
		w.Publish("$KV.elections.deleted", "", "KV-Operation", "DEL")
		time.Sleep(15 * time.Second) // the MaxLease
		f.Show("")
		time.Sleep(2*lease - 15*time.Second - doctor.LeastPace) // for which doctor has run
		f.Show("")
		f.Show("")
		expect.OK(w, w.Campaigns("df", leader.Config{ID: "a"}).Stop())
		w.Run("note deleted --one-shot")
		f.Show("")
	})
}

// Where keys expire, an election that was given up in order looks as if its key was deleted.
func TestDoctor_ExpiredKey(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{TTL: time.Hour}, func(w *testworld.World) {
		w.Publish("$KV.elections.deleted", "", "KV-Operation", "DEL")
		time.Sleep(10 * time.Minute)
		out, _, _ := w.Run("doctor --read-only")
		expect.That(w, strings.Contains(out, "1 election, all records are sound") && !strings.Contains(out, "was deleted"), "%s", out)
	})
}

// A server may be too far away for a lease.
func TestDoctor_DistantServer(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{MaxLease: time.Hour}, func(w *testworld.World) {
		f := w.FindingsBeside("")
		w.Away = 200 * time.Millisecond
		f.Show("--lease 10m", "--lease 9s", "--lease 300ms")
	})
}

// Doctor leaves nothing behind, and neither the leader nor a waiting candidate notices it.
func TestDoctor_DisturbsNothing(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{MaxLease: time.Hour, Roster: true}, func(w *testworld.World) {
		// The next renewal is far away, so doctor is the only client that might write.
		c := w.Campaigns("billing", leader.Config{ID: "a", LeaseDuration: time.Hour})
		term, _ := c.Term()
		waiting := w.Campaigns("billing", leader.Config{ID: "b"})
		streams := func() (states []jetstream.StreamState) {
			w.Helper()
			for _, name := range []string{"KV_elections", "KV_elections_roster"} {
				s := expect.Got(w.Js.Stream(w.Context(), name))(w)
				states = append(states, s.CachedInfo().State)
			}
			return states
		}
		before, subscriptions := fmt.Sprint(streams()), w.S.NumSubscriptions()
		for _, args := range []string{"--election billing", "--election new", "", "--roster", "--roster --election billing"} {
			_, errs, code := w.Run("doctor " + args)
			expect.That(w, code == 1 && errs == "", "%s: exit code %d\n%s", args, code, errs)
		}
		time.Sleep(time.Second) // the server has seen the end of the last connection
		after := fmt.Sprint(streams())
		expect.That(w, after == before, "before: %s\nafter: %s", before, after)
		expect.Equal(w, w.S.NumSubscriptions(), subscriptions, "%d subscriptions, %d before", subscriptions)
		got, _ := c.Term()
		expect.That(w, got == term && leader.Err(term.Context()) == nil, "a leads no more: %v", leader.Err(term.Context()))
		expect.Equal(w, waiting.State(), leader.StateCandidate, "b is %v")
		for _, c := range []*leader.Candidate{c, waiting} {
			s := c.Stats()
			expect.That(w, s.Refused+s.Unknown+s.FeedRebuilds == 0 && len(s.Faults) == 0, "%s: %+v", c.ID(), s)
		}
	})
}

// When the connection is lost, the other checks are not made.
func TestDoctor_LosesConnection(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		f := w.FindingsBeside("")
		w.Away = 100 * time.Millisecond
		time.AfterFunc(3*time.Second, w.S.Shutdown)
		f.Show("")
	})
}

// Only a system account can read when servers sync to disk.
func TestDoctor_Sync(t *testing.T) {
	withOperator := func(o *server.Options) {
		sys := server.NewAccount("SYS")
		o.ServerName = "s1"
		o.Accounts, o.SystemAccount = []*server.Account{sys}, "SYS"
		o.Users = append(o.Users, &server.User{Username: "operator", Password: "x", Account: sys})
	}
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		dir := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "nats", "context")
		expect.OK(w, os.MkdirAll(dir, 0o700))
		for name, context := range map[string]string{"system": `{"user": "operator", "password": "x"}`, "other": "{}"} {
			expect.OK(w, os.WriteFile(filepath.Join(dir, name+".json"), []byte(context), 0o600))
		}
		f := w.FindingsBeside("")
		f.Show("--system-context other", "--system-context system")
		w.O.SyncInterval = 10 * time.Second
		w.Restart()
		f.Show("--system-context system")
		w.O.SyncAlways = true
		w.Restart()
		f.Show("--system-context system")
	}, testworld.WithUser("other", nil), withOperator)
}

// Doctor stores a message in a stream of its own, and removes the stream. A user who may not create
// streams, or not fill or delete them, creates none.
func TestDoctor_Store(t *testing.T) {
	undeleted := candidateMay()
	undeleted.Publish.Allow = append(undeleted.Publish.Allow, "$JS.API.STREAM.CREATE.>", "natsleader.doctor.>")
	unfilled := candidateMay()
	unfilled.Publish.Allow = append(unfilled.Publish.Allow, "$JS.API.STREAM.CREATE.>", "$JS.API.STREAM.DELETE.>")
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		nc := w.Connect()
		defer nc.Close()
		synctest.Wait() // for the advisory about the bucket
		created := expect.Got(nc.SubscribeSync("$JS.EVENT.ADVISORY.STREAM.CREATED.*"))(w)
		pending := func(want int) {
			w.Helper()
			n, _, err := created.Pending()
			expect.That(w, err == nil && n == want, "%d streams were created, %v", n, err)
		}
		synctest.Wait() // for the subscription
		f := w.FindingsBeside("--read-only")
		f.Show("--read-only", as("undeleted"), as("unfilled"))
		time.Sleep(time.Second)
		pending(0)
		f.Show("")
		// A server may handle a request before one that was sent earlier.
		w.Made(nc.Subscribe("$JS.slow.API.>", func(m *nats.Msg) {
			request := strings.TrimPrefix(m.Subject, "$JS.slow.API.")
			if !strings.HasPrefix(request, "$KV.") {
				request = "$JS.API." + request
			}
			forward := func() { _ = nc.PublishMsg(&nats.Msg{Subject: request, Reply: m.Reply, Header: m.Header, Data: m.Data}) }
			if strings.Contains(request, ".DELETE.") {
				time.AfterFunc(time.Second, forward)
				return
			}
			forward()
		}))
		synctest.Wait() // for the subscription
		f.Show("--js-domain slow", "--js-domain slow --timeout 500ms")
		time.Sleep(time.Second)
		pending(2)
		w.NoteStreams()
	}, testworld.WithUser("undeleted", undeleted), testworld.WithUser("unfilled", unfilled))
}

// The time of day is of no consequence, so no finding is worse than a note.
func TestDoctor_Clocks(t *testing.T) {
	testworld.Alone(t, func(w *testworld.World) {
		now := time.Now()
		for _, k := range []struct {
			name        string
			ahead, took time.Duration // of the server's clock, and for its answer
			synced      bool
			err         error
		}{
			{"well", 0, 0, true, nil},
			{"not synchronised", 0, 0, false, nil},
			{"cannot tell", 0, 0, true, errors.New("cannot tell")},
			{"ahead", time.Minute, 0, true, nil},
			{"behind", -time.Minute, 0, true, nil},
			{"slow answer", 2 * time.Second, 3 * time.Second, true, nil},
		} {
			e := doctor.Environment{Asker: inspect.Asker{Nc: new(nats.Conn)}, HostSync: func() (bool, error) { return k.synced, k.err }}
			e.Stream = facts.Known(facts.Stream{Info: &jetstream.StreamInfo{TimeStamp: now.Add(k.ahead)}, At: now, Took: k.took}, facts.Source{})
			e.ReadClock(w.Context())
			report(w, k.name, e.Bucket, "clock")
		}
	})
}

// Many renewals are a note, and more than a server carries are a warning.
func TestDoctor_JudgesLoad(t *testing.T) {
	testworld.Alone(t, func(w *testworld.World) {
		stored := time.Now()
		of := func(n int, state string) []facts.Election {
			value := fmt.Sprintf(`{"v":1,"state":%q,"id":"a","session":"s","n":1,"lease":"6s","token":1}`, state)
			return slices.Repeat([]facts.Election{{Name: "billing", Value: facts.Text(value), Revision: 1, Created: stored}}, n)
		}
		for _, led := range []int{judge.ServerWrites/2 - 1, judge.ServerWrites / 2, judge.ServerWrites - 1, judge.ServerWrites} {
			for _, after := range []time.Duration{0, 6 * time.Second} { // their leases are over
				report(w, fmt.Sprintf("%d after %v", led, after), electionsAt(stored.Add(after), append(of(led, "leading"), of(7, "released")...)...), "elections")
			}
		}
	})
}

// electionsAt are the elections of a bucket at a time.
func electionsAt(at time.Time, all ...facts.Election) facts.Bucket {
	from := facts.Source{At: at}
	return facts.Bucket{
		Stream: about(&jetstream.StreamInfo{}), Settings: facts.Known(facts.Settings{}, from), Cordon: facts.Known(facts.Cordon{}, from),
		Groups: facts.Known([]facts.Group(nil), from), Elections: facts.Known(all, from),
	}
}

// A schedule whose mark is in the future, and one whose next slot is late by more than its lease, are warnings, also while a
// slot is worked. The slot of an election that nobody leads is none.
func TestDoctor_Schedules(t *testing.T) {
	testworld.Alone(t, func(w *testworld.World) {
		at := time.Date(2026, time.November, 28, 3, 0, 0, 0, time.UTC)
		of := func(election, mark string, renewed time.Time) facts.Election {
			value := fmt.Sprintf(`{"v":1,"state":"leading","id":"a","session":"s","n":1,"lease":"6s","token":1,"value":%q}`, mark)
			return facts.Election{Name: facts.Text(election), Value: facts.Text(value), Revision: 1, Created: renewed}
		}
		const done, begun = "done 2026-11-28T02:00:00Z calendar 1f next 2026-11-28T03:00:00Z", "begun 2026-11-28T02:00:00Z after 2026-11-28T01:00:00Z calendar 1f next 2026-11-28T03:00:00Z"
		for _, after := range []time.Duration{-time.Hour - 10*time.Second - 1, -time.Hour - 10*time.Second, 16 * time.Second, 16*time.Second + 1} {
			now := at.Add(after)
			report(w, after.String(), electionsAt(now,
				of("report", done, now), of("gone", done, now.Add(-6*time.Second)), of("mail", begun, now), of("billing", "10.0.0.1:8080", now),
			), "elections")
		}
	})
}

// Doctor does not take it for well if the server has no room, does not answer, refuses every write, or takes those whose
// condition does not hold.
func TestDoctor_FaultyServer(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		nc := w.Connect()
		defer nc.Close()
		var mu sync.Mutex
		var answers map[string][]string // by a part of the subject, one after the other; those of the last go on
		created := ""
		answer := func(m *nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(m.Subject, ".CREATE.") {
				created = string(m.Data)
			}
			for part, texts := range answers {
				if !strings.Contains(m.Subject, part) || m.Reply == "" || texts[0] == "" {
					continue
				}
				expect.OK(w, m.Respond([]byte(texts[0])))
				answers[part] = texts[min(1, len(texts)-1):]
			}
		}
		w.Made(nc.Subscribe("$JS.fake.API.>", answer))
		synctest.Wait() // for the subscription
		e := doctor.Environment{
			Asker: inspect.Asker{Nc: w.Js.Conn(), Api: "$JS.fake.API.", Wait: time.Second}, Name: "elections", Election: "billing", As: facts.Candidate, Fit: true,
			Info: &jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: 3, MaxMsgsPerSubject: 1, Placement: &jetstream.Placement{Cluster: "C"}}},
		}
		failure := func(code int) string {
			return fmt.Sprintf(`{"error":{"code":500,"err_code":%d,"description":"no"}}`, code)
		}
		none := failure(int(jetstream.JSErrCodeStreamNotFound))
		e.Stream = about(e.Info)
		e.Asked = facts.Asked{API: e.Api, Wait: e.Wait, Role: e.As}
		e.Rights = facts.Known([]facts.Right{{For: facts.ForLease, Tried: facts.Known("", facts.Source{})}}, facts.Source{})
		shows := func(title string, check string, all map[string][]string) {
			mu.Lock()
			answers = maps.Clone(all)
			mu.Unlock()
			switch check {
			case "store":
				e.ReadStore(w.Context())
			case "permissions":
				e.ReadWrite()
			case "limits":
				e.ReadAccount(w.Context())
			}
			report(w, title, e.Bucket, check)
		}
		for _, code := range []int{
			doctor.CodeAccountResources, doctor.CodeInsufficient, doctor.CodeMemoryResources, doctor.CodeStorageResources, doctor.CodeStreamCreate, doctor.CodeStreamStoreFailed, 10025,
		} {
			shows(fmt.Sprint("no stream: ", code), "store", map[string][]string{".DELETE.": {none}, ".CREATE.": {failure(code)}})
		}
		shows("no stream in time", "store", map[string][]string{".DELETE.": {none}})
		shows("no answer", "store", nil)
		stream := map[string][]string{".DELETE.": {none}, ".CREATE.": {"{}"}}
		shows("the stream gets no leader", "store", stream)
		time.AfterFunc(75*time.Millisecond, func() { w.Made(nc.Subscribe("natsleader.doctor.*", answer)) })
		stream["natsleader.doctor."] = []string{"{}"}
		shows("the stream gets a leader late", "store", stream)
		stream["natsleader.doctor."] = []string{""}
		shows("no acknowledgement", "store", stream)
		stream["natsleader.doctor."] = []string{failure(doctor.CodeStreamStoreFailed)}
		shows("not stored", "store", stream)
		shows("the stream is not deleted", "store", map[string][]string{".DELETE.": {none, failure(10025)}, ".CREATE.": {"{}"}, "natsleader.doctor.": {"{}"}})
		e.Info.Config.Storage = jetstream.MemoryStorage
		shows("a bucket in memory", "store", map[string][]string{".DELETE.": {none}, ".CREATE.": {failure(doctor.CodeMemoryResources)}})
		e.Info.Config.Storage = jetstream.FileStorage
		mu.Lock()
		w.Notef("# it is %s\n", created)
		mu.Unlock()
		e.Info.Cluster = &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{{Name: "b", Offline: true}, {Name: "c", Current: true}}}
		e.Stream = about(e.Info)
		shows("no stream in time, and a server is missing", "store", map[string][]string{".DELETE.": {none}})

		for _, text := range []string{"", "junk", "{}", failure(doctor.CodeStreamStoreFailed), failure(wire.CodeWrongLastSequence), failure(wire.CodeWrongLastConstant)} {
			shows("a write is answered by "+text, "permissions", map[string][]string{"$KV.": {text}})
		}

		const tiers = `{"storage":1,"limits":{"max_storage":100},"tiers":{"R1":{"storage":1,"limits":{"max_storage":100}},"R3":{"storage":%d,"limits":{"max_storage":100}}}}`
		for _, used := range []int{89, 90, 100} {
			shows(fmt.Sprint("the limits of the tier: ", used), "limits", map[string][]string{"API.INFO": {fmt.Sprintf(tiers, used)}})
		}
		e.Api = "imported."
		shows("behind an import", "store", nil)
	})
}

// A server that does not hear from a majority of the others knows nothing of the bucket, though it answers. If it falls silent
// while doctor looks, what was read before may be over. One that has heard from them lately is believed.
func TestDoctor_WithoutMajority(t *testing.T) {
	for name, k := range map[string]struct {
		after, silence time.Duration
	}{
		"heard lately": {0, 2 * time.Second},
		"silent":       {0, 4 * time.Second},
		"meanwhile":    {50 * time.Millisecond, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
				w.CutOff(k.after, time.Hour, &jetstream.ClusterInfo{Name: "c", Leader: "n1", Replicas: []*jetstream.PeerInfo{
					{Name: "n2", Current: true, Active: k.silence}, {Name: "n3", Current: true, Active: k.silence},
				}})
				out, errs, code := w.Run("doctor --read-only")
				w.Notef("%s%sexit code %d\n", out, errs, code)
			})
		})
	}
}
