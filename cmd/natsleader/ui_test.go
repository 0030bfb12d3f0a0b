package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// asks sends a request to the command that serves, and adds the answer to the transcript. Each header is "Name: value".
func (w *world) asks(method, path, body string, headers ...string) {
	w.Helper()
	response, text := w.ask(method, path, body, headers...)
	request := strings.Join(append([]string{method + " " + path, body}, headers...), " ")
	note := fmt.Sprintf("%s: %d\n  %s\n", strings.TrimSpace(request), response.StatusCode, strings.TrimSuffix(text, "\n"))
	_, _ = noteWriter{w, ""}.Write([]byte(note))
}

// reads follows a stream of the page until the command ends. It adds to the transcript why the page is not up to
// date, or that it is again, and when. It adds each head, each change, each roster, and each row that differs from the one before
// in more than a renewal.
func (w *world) reads(path string) {
	w.Helper()
	response := w.response(http.MethodGet, path, "")
	note := noteWriter{w, path + ": "}
	go func() {
		defer response.Body.Close() //nolint:errcheck // nothing is written
		trouble, rows := "", make(map[string]string)
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			data, _ := strings.CutPrefix(lines.Text(), "data: ")
			var m struct {
				Now        int64
				Error      string
				Since      int64
				Head       *webpage.Head
				Rows       []webpage.Row
				Changes    []json.RawMessage
				Candidates json.RawMessage
			}
			if json.Unmarshal([]byte(data), &m) != nil {
				continue // the line after a message
			}
			if m.Candidates != nil {
				_, _ = fmt.Fprintln(note, data)
				continue
			}
			if m.Error != trouble {
				trouble = m.Error
				_, _ = fmt.Fprintf(note, "%d %s\n", m.Now, cmp.Or(trouble, "up to date"))
				if m.Since != 0 {
					_, _ = fmt.Fprintf(note, "since %d\n", m.Since)
				}
			}
			if m.Head != nil && m.Head.Server != "" && m.Head.Checked { // which of them comes first is a race
				text, _ := json.Marshal(m.Head)
				_, _ = fmt.Fprintf(note, "%s\n", strings.ReplaceAll(string(text), m.Head.Server, "SERVER"))
			}
			for _, c := range m.Changes {
				_, _ = fmt.Fprintf(note, "%s\n", c)
			}
			for _, row := range m.Rows {
				if row.Group != "" { // these depend on how its assigner publishes, and on what is not in the row
					row.Expires, row.Revision, row.Written = 0, 0, 0
				}
				text, _ := json.Marshal(row)
				row.Expires, row.Revision, row.Written = 0, 0, 0
				if is, _ := json.Marshal(row); rows[row.Key] != string(is) {
					_, _ = fmt.Fprintf(note, "%s\n", text)
					rows[row.Key] = string(is)
				}
			}
		}
	}()
	synctest.Wait()
}

// The page gets each election, its changes with their causes, its record and its roster, also
// after the bucket or the connection was away.
func TestUI_Elections(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		stop := w.follow("serve --bucket jobs --allow-actions")
		for _, path := range []string{"/api/elections", "/api/roster?election=billing"} {
			w.reads(path)
		}
		for _, request := range []string{"{", `{"election":"billing"}`} {
			w.asks(http.MethodPost, "/api/step-down", request, "Natsleader-Secret: "+w.secret())
		}
		at := func(what string, do func()) {
			w.notef("# %s\n", what)
			do()
			time.Sleep(10*time.Second + 7*time.Millisecond) // between two ticks
		}
		at("the bucket is made", func() {
			var err error
			w.bucket, err = leader.CreateOrUpdateBucket(w.Context(), w.js, leader.BucketConfig{Name: "jobs", Roster: true, MaxLease: 10 * time.Second})
			expect.OK(w, err)
		})
		at("a leads, and b waits", func() {
			w.campaigns("billing", leader.Config{ID: "a", Queue: &leader.Queue{AtOnce: true}, Value: []byte("10.0.0.1")})
			w.campaigns("billing", leader.Config{ID: "b", Queue: &leader.Queue{AtOnce: true}, Value: []byte{0xff}})
		})
		w.reads("/api/roster?election=billing")
		w.asks(http.MethodGet, "/api/record?election=billing", "")
		w.asks(http.MethodGet, "/api/record?election=other", "")
		stops := func(c *leader.Candidate) func() {
			return func() { expect.OK(w, c.Stop()) }
		}
		at("b leaves", stops(w.stands[1]))
		at("a stops", stops(w.stands[0]))
		at("b leads", func() { w.campaigns("billing", leader.Config{ID: "b", Value: []byte{0xff}}) })
		at("web-1 is cordoned", func() { w.prompt("drain web-1 --keep --bucket jobs") })
		at("the server restarts", w.restart)
		at("the bucket is deleted", func() { expect.OK(w, w.js.DeleteKeyValue(w.Context(), "jobs")) })
		at("the server is gone", func() {
			w.s.Shutdown()
			w.s.WaitForShutdown()
		})
		stop()
		w.serve()
	})
}

// The page gets the past of an election, and whether the bucket keeps one.
func TestUI_Past(t *testing.T) {
	proof.NotRaced(t)
	bubble(t, leader.BucketConfig{}, func(w *world) {
		defer w.follow("serve")()
		time.Sleep(time.Second)
		past := func(election, hours string) {
			w.asks(http.MethodGet, "/api/past?election="+election+"&hours="+hours, "")
		}
		past("billing", "1")
		past("", "1")
		w.run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		a := w.campaigns("billing", leader.Config{ID: "a", Value: []byte("10.0.0.7")})
		time.Sleep(65 * time.Minute)
		expect.OK(w, a.Stop())
		time.Sleep(time.Millisecond) // the history copies it before the next record takes its place
		past("billing", "1")
		w.campaigns("billing", leader.Config{ID: "b"})
		for _, hours := range []string{"1", "168", "0", "169", "x"} {
			past("billing", hours)
		}
		time.Sleep(65 * time.Minute)
		past("billing", "1")
		past("", "1")
		past("", "168")
		past("b*", "1")
		past("nothing", "1")
		w.notef("# the server is gone\n")
		w.s.Shutdown()
		w.s.WaitForShutdown()
		synctest.Wait() // the command has noticed
		past("billing", "1")
		w.serve()
	})
}

// For how long nobody worked since a moment is what is trouble and known: not a handover, not a key that nobody wants, not what
// the history misses. A leader that has died may have worked until its renew deadline. Elections of groups have no part in it.
func TestUI_Unworked(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const m, s = time.Minute, time.Second
	term := func(since, until time.Duration, ended termEnd, renewed time.Duration) span {
		x := span{State: stateLeading, ID: "a", Since: ago(since), Until: ago(until), Ended: ended, lease: 15 * s}
		if renewed > 0 {
			x.Renewed = ago(renewed)
		}
		return x
	}
	led := span{State: stateLeading, ID: "b", Since: ago(10 * m)}
	for what, c := range map[string]struct {
		spans       []span
		since       time.Duration
		least, most time.Duration
		goes        bool
	}{
		"handed over":           {[]span{term(20*m, 10*m+5*time.Millisecond, endedReleased, 0), led}, time.Hour, 0, 0, false},
		"idle":                  {[]span{term(40*m, 30*m, endedReleased, 0), led}, time.Hour, 0, 0, false},
		"given up":              {[]span{term(40*m, 30*m, endedReleased, 0)}, time.Hour, 0, 0, false},
		"deleted":               {[]span{term(40*m, 11*m, endedDeleted, 0), led}, time.Hour, m, m, false},
		"died":                  {[]span{term(40*m, 11*m, endedExpired, 11*m+15*s), led}, time.Hour, m + 3*s, m + 15*s, false},
		"died before":           {[]span{term(40*m, 11*m, endedExpired, 11*m+15*s), led}, 10*m + 30*s, 30 * s, 30 * s, false},
		"died long before":      {[]span{term(40*m, 11*m, endedExpired, 11*m+15*s), led}, 5 * m, 0, 0, false},
		"died, none has it yet": {[]span{term(40*m, 2*m, endedExpired, 2*m+15*s), {State: stateExpired, Since: ago(2 * m)}}, time.Hour, 2*m + 3*s, 2*m + 15*s, true},
		"missed":                {[]span{term(40*m, 30*m, endedUnknown, 0), {State: stateUnknown, Since: ago(30 * m), Until: ago(10 * m)}, led}, time.Hour, 0, 0, false},
	} {
		got := timeline{Election: "billing", Spans: c.spans, end: now}.unworked(false, ago(c.since))
		expect.Equal(t, got, webpage.Unworked{Election: "billing", Least: c.least.Milliseconds(), Most: c.most.Milliseconds(), Goes: c.goes}, what+": %+v")
	}
}

// A page that asks for the time since a moment gets a week more than the changes that it asks for at most.
func TestUI_Earliest(t *testing.T) {
	now := time.Now()
	for since, want := range map[time.Duration]time.Duration{-time.Second: 0, time.Second: time.Second, longestPast: longestPast, longestPast + 1: longestPast} {
		expect.Equal(t, now.Sub(earliest(now, now.Add(-since))), want, "%v")
	}
	expect.Equal(t, earliest(now, time.Time{}), now, "without such a moment %v")
}

// The page gets for how long nobody worked, by election, also while that goes on.
func TestUI_UnworkedToday(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		defer w.follow("serve")()
		for _, election := range []string{"billing", "mail", "orders.shard.assigner"} {
			put(w.T, w.js, election, fmt.Sprintf(`{"v":1,"state":"leading","id":"a","session":"s","n":1,"lease":"15s","token":7,"since":%q}`, time.Now().UTC().Format(time.RFC3339Nano)))
		}
		time.Sleep(time.Minute)
		w.campaigns("mail", leader.Config{ID: "b"})
		time.Sleep(time.Minute)
		for _, since := range []time.Time{time.Now().Add(-time.Hour), time.Now().Add(-30 * time.Second), time.Unix(0, 0)} {
			w.asks(http.MethodGet, fmt.Sprint("/api/past?election=&hours=1&since=", since.UnixMilli()), "")
		}
		w.asks(http.MethodGet, "/api/past?election=mail&hours=1", "")
	})
}

// A history whose stream does not answer is not blamed on the server that does, and nothing is said to be known.
func TestUI_HistoryAway(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.run("bucket add --history 30d")
		defer w.follow("serve")()
		time.Sleep(time.Second)
		nc := w.dial()
		defer nc.Close()
		_, err := nc.SubscribeSync("nobody") // answers
		expect.OK(w, errors.Join(err, w.s.GlobalAccount().AddMapping("$JS.API.STREAM.INFO."+historyStream("elections"), "nobody")))
		for _, election := range []string{"", "billing"} {
			w.asks(http.MethodGet, "/api/past?election="+election+"&hours=1", "")
		}
	})
}

// A user who may not read the history gets no past, and what is followed goes on.
func TestUI_DeniedPast(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		defer w.follow("serve -s nats://denied:denied@localhost")()
		w.reads("/api/elections")
		time.Sleep(time.Second)
		for range 2 {
			w.asks(http.MethodGet, "/api/past?election=billing&hours=1", "")
		}
		w.asks(http.MethodGet, "/api/past?election=&hours=1", "")
		w.campaigns("billing", leader.Config{ID: "a"})
		time.Sleep(time.Minute)
	}, withUser("denied", denied("$JS.API.STREAM.INFO.natsleader_history_elections")))
}

// A page gets the newest terms that were read within ten seconds, and since when all is known. The command reads all.
func TestUI_LongPast(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		for i := range 60 {
			put(w.T, w.js, "billing", fmt.Sprintf(`{"v":1,"state":"leading","id":"a","session":"s","n":1,"lease":"1h0m0s","token":%d,"since":%q}`, i+7, time.Now().UTC().Format(time.RFC3339Nano)))
			time.Sleep(time.Second)
		}
		w.away = 50 * time.Millisecond
		defer w.follow("serve")()
		time.Sleep(time.Second)
		begun := time.Now()
		_, text := w.ask(http.MethodGet, "/api/past?election=billing&hours=1", "")
		var shown struct {
			Spans []span
			Notes []string
		}
		expect.OK(w, json.Unmarshal([]byte(text), &shown))
		w.notef("after %v it has %d terms since %s: %s\n", time.Since(begun), len(shown.Spans), formatTime(shown.Spans[0].Since), shown.Notes)
		out, notes, _ := w.run("history billing --json")
		w.notef("the command has %d terms%s\n", strings.Count(out, `"leading"`), notes)
		begun = time.Now()
		out, notes, _ = w.run("history --json")
		w.notef("of all elections it has %d change after %v: %s", strings.Count(out, `"at"`), time.Since(begun), notes)
	})
}

// A line names the first elections of a change.
func TestUI_PastNamesFew(t *testing.T) {
	var names []string
	for i := range namesInLine + 2 {
		names = append(names, fmt.Sprint("e", i))
	}
	got := linesOf(changes{All: []changed{{Elections: names}}})
	expect.Equal(t, got[0].Elections, "e0, e1, e2, e3, e4, e5, e6, e7, e8, e9 and 2 more", "%s")
}

// A group is one row, with its members, what each owns, and how that has changed, also after the connection was away. Its
// trouble is that of its shards and its assigner. There is a bound on how many groups are observed.
func TestUI_Groups(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		defer w.follow("serve")()
		w.reads("/api/elections")
		shows := func(what string) {
			w.notef("# %s\n", what)
			time.Sleep(20*time.Second + 7*time.Millisecond) // between two ticks
		}
		a := w.joins("a", shard.Config{})
		b := w.joins("b", shard.Config{Value: []byte("10.0.0.8:80"), Hold: time.Minute})
		shows("a and b have joined")
		w.restart()
		shows("the server has restarted")
		b.dies()
		shows("b has died, and its shards wait for a member of the same ID")
		time.Sleep(time.Minute)
		shows("they are granted to a")
		a.dies()
		w.publish("$KV.elections.orders.shard.map", `{"v":2}`)
		shows("a has died, and the map is of a later version")

		full := uiState{State: webpage.NewState(), s: &inspector{bucket: w.bucket}, groups: make(map[string]*uiGroup)}
		for i := range mostGroups {
			full.groups[fmt.Sprint(i)] = &uiGroup{brief: "observed"}
		}
		for key, want := range map[string]string{"0.shard.assigner": "observed", "more.shard.assigner": "not known: more than 32 groups"} {
			full.show(&watched{now: electionStatus{election: key}}, time.Now(), nil)
			expect.Equal(w, full.Row(key).Value, want, "the row of a group says %q")
		}
	})
}

// Pages get how many of its shards each member works on, has not begun, waits for, still has to release, and had when it went,
// and each change with its time. Of many changes they get the newest, and know nothing of the time before.
func TestUI_GroupShown(t *testing.T) {
	peer := func(id string, drained, gone bool) shard.Peer {
		p := shard.Peer{ID: id, Drained: drained, Weight: 1, Holder: leader.Holder{ID: id, State: leader.HolderLeading}}
		if gone {
			p.Holder.State = leader.HolderExpired
		}
		return p
	}
	owner := func(id string, state shard.OwnerState) shard.Owner { return shard.Owner{ID: id, State: state} }
	works := shard.OwnerWorks
	first := shard.View{
		Members: []shard.Peer{peer("h_1_a", false, false), peer("b", false, false), peer("d", false, false)},
		Owners:  []shard.Owner{owner("h_1_a", works), owner("h_1_a", works), owner("h_1_a", works), owner("b", works), owner("d", works), owner("", 0)},
	}
	c := peer("c", false, false)
	c.Weight, c.Most, c.Hold, c.Value = 2, 3, time.Minute, []byte("\u202e")
	drained, gone := peer("h_1_a", true, false), peer("b", false, true)
	drained.Late, gone.Late = []int{1}, []int{3}
	second := shard.View{
		Members: []shard.Peer{drained, gone, c},
		Owners: []shard.Owner{
			owner("h_1_a", works), {ID: "c", State: shard.OwnerWaits, From: "h_1_a"}, owner("c", shard.OwnerGranted), owner("b", shard.OwnerIsGone), owner("", 0), owner("c", works),
		},
	}
	var g uiGroup
	take := func(v shard.View, at int64) *webpage.Sharing {
		g.take(sharing{group: "orders", only: -1, view: v}, time.UnixMilli(at))
		return g.sharing
	}
	shows := func(got *webpage.Sharing, want webpage.Sharing) {
		t.Helper()
		is, wanted := expect.Got(json.Marshal(got))(t), expect.Got(json.Marshal(want))(t)
		expect.Equal(t, string(is), string(wanted), "%s")
	}
	got := take(first, 1000)
	const short = "the other members of group orders take 0 of 6 shards, so 6 would have no owner"
	shows(got, webpage.Sharing{Shards: 6, NoOwner: 1, Since: 1000, Members: []webpage.Member{
		{ID: "h_1_a", Host: "h", State: "lives", Works: 3, Numbers: "0-2"}, {ID: "b", State: "lives", Works: 1, Numbers: "3"}, {ID: "d", State: "lives", Works: 1, Numbers: "4"},
	}})
	got = take(second, 2000)
	shows(got, webpage.Sharing{Shards: 6, NoOwner: 1, Since: 1000, Members: []webpage.Member{
		{ID: "h_1_a", Host: "h", State: "drained", Works: 1, Leaving: 1, Numbers: "0", More: "late work on 1"},
		{ID: "b", State: "gone", Gone: 1, Numbers: "3"},
		{ID: "c", State: "lives", Works: 1, Waits: 1, NotBegun: 1, Numbers: "1-2,5", More: `weight 2, at most 3, holds them for 1m0s, \u202e`, Shortage: short},
	}, Steps: []webpage.Step{
		{At: 2000, Text: "h_1_a is drained"},
		{At: 2000, Text: "b is gone (it had 1 shard)", Trouble: true},
		{At: 2000, Text: "c has joined"},
		{At: 2000, Text: "d is no member any more"},
		{At: 2000, Text: "h_1_a → c: 2 shards, 1-2", Moved: 2, From: "h_1_a", To: "c"},
		{At: 2000, Text: "d → no owner: 1 shard, 4", Moved: 1, From: "d", Trouble: true},
		{At: 2000, Text: "no owner → c: 1 shard, 5", Moved: 1, To: "c"},
	}})
	for i := range int64(mostSteps) {
		second.Members[0].Drained = i%2 == 1
		got = take(second, 3000+i)
	}
	expect.That(t, len(got.Steps) == mostSteps && got.Since == 2000 && got.Steps[0].At == 3000, "in the end %+v", got)
	take(shard.View{}, 9000)
	expect.That(t, g.sharing == nil && g.unowned && take(first, 9001).Since == 9001, "what nothing is known of: %+v", g)
}

// The page drains members of groups, and lets them take shards again.
func TestUI_MemberActions(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.joins("a", shard.Config{})
		w.joins("b", shard.Config{})
		defer w.follow("serve --allow-actions")()
		secret := "Natsleader-Secret: " + w.secret()
		time.Sleep(time.Second) // it is connected
		for _, request := range []string{"drain-member a orders", "drain-member c orders", "drain-member a other", "undrain-member a orders", "drain-member  orders"} {
			words := strings.Split(request, " ")
			w.asks(http.MethodPost, "/api/"+words[0], fmt.Sprintf(`{"name":%q,"group":%q}`, words[1], words[2]), secret)
			time.Sleep(20 * time.Second)
			for _, p := range expect.Got(shard.Lookup(w.Context(), w.bucket, "orders"))(w).Members {
				w.notef("# %s has %d shards; drained: %v\n", p.ID, p.Shards, p.Drained)
			}
		}
	})
}

// With --allow-actions the page asks leaders to hand over: for this host, the names of --allow-host and this origin
// alone, with the secret of the link that was printed. Without it there is no link, and nothing to ask.
func TestUI_Actions(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		for _, id := range []string{"a", "b"} {
			w.campaigns("billing", leader.Config{ID: id, Queue: &leader.Queue{AtOnce: true}})
		}
		stop := w.follow("serve")
		w.asks(http.MethodPost, "/api/step-down", `{"election":"billing"}`)
		stop()
		first := w.follow("serve --allow-actions")
		old := w.secret()
		first()
		defer w.follow("serve --allow-actions --allow-host Ops.example")()
		secret := w.secret()
		time.Sleep(time.Second) // it is connected
		act := func(path, body string, headers ...string) {
			w.asks(http.MethodPost, path, body, append(headers, "Natsleader-Secret: "+secret)...)
			time.Sleep(time.Minute) // the leader before has rested
		}
		token := func() string {
			for _, c := range w.stands {
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
		w.campaigns("mail", leader.Config{ID: "node-3_41_x9z"})
		w.campaigns("mail", leader.Config{ID: "node-4"})
		w.campaigns("maps", leader.Config{ID: "node-3"})
		act("/api/drain", `{"name":"node-3"}`)
		act("/api/drain", `{"name":"node-4","cordon":true}`)
		w.prompt("drain node-4 --keep --dry-run")
		act("/api/uncordon", `{"name":"node-4"}`)
		act("/api/uncordon", `{"name":"node-4"}`)
		for _, request := range []string{`{}`, `{`} {
			act("/api/drain", request)
		}
		act("/api/step-down", `{"election":"other"}`)
		act("/api/step-down", `{"election":"a.>"}`)
		act("/api/step-down", `{"election":"billing"}`, "Host: evil.example")
		w.asks(http.MethodPost, "/api/step-down", `{"election":"billing"}`, "Natsleader-Secret: "+old)
		for _, path := range []string{"/", "/ui.js", "/detail.js", "/api/record?election=billing"} {
			response, text := w.ask(http.MethodGet, path, "")
			expect.That(w, response.StatusCode == 200 && !strings.Contains(text+fmt.Sprint(response.Header), secret), "%s: %s\n%s", path, response.Status, text)
		}
	})
}

// A page that waits for a leader with work gets an answer before the limit of the response.
func TestUI_SlowActions(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		defer w.follow("serve --allow-actions")()
		c := w.campaigns("billing", leader.Config{ID: "a", GracePeriod: time.Hour})
		term := leadertest.Led(c)
		end, _ := leadertest.Work(term)
		defer end()
		for _, action := range [][2]string{{"step-down", fmt.Sprintf(`{"election":"billing","token":"%d"}`, term.Token())}, {"drain", `{"name":"a"}`}} {
			began := time.Now()
			w.asks(http.MethodPost, "/api/"+action[0], action[1], "Natsleader-Secret: "+w.secret())
			w.notef("# after %v\n", time.Since(began))
		}
	})
}

// secret returns what requests for actions carry, out of the link that was printed last.
func (w *world) secret() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.shown.String()
	_, link, _ := strings.Cut(text[strings.LastIndex(text, " http://127.0.0.1:80/#secret="):], "#secret=")
	return link[:26]
}
