//go:build field

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// historyJSON runs the command until it shows as many spans.
func historyJSON(t *testing.T, url string, spans int, args ...string) timeline {
	t.Helper()
	var got timeline
	eventually(t, "the history is complete", func() bool {
		out := succeeds(t, append([]string{"history", "--json", "-s", url}, args...)...)
		got = timeline{}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return len(got.Spans) >= spans
	})
	return got
}

// recorded waits until the stream itself has as many messages of the election. It begins a
// moment after it was made, and the bucket keeps only the newest.
func recorded(t *testing.T, url, election string, messages uint64) {
	t.Helper()
	_, js := connectTo(t, url)
	subject := "$KV.elections." + election
	eventually(t, "the history has it", func() bool {
		stream, err := js.Stream(t.Context(), historyStream("elections"))
		if err != nil {
			t.Fatal(err)
		}
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(subject))
		return err == nil && info.State.Subjects[subject] >= messages
	})
}

// history shows the leaders one after the other, with the reasons for which their terms ended.
func TestHistory_Terms(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	succeeds(t, "bucket", "add", "--history", "30d", "-s", url)
	a := campaigns(t, url, "elections", "billing", leader.Config{ID: "a", Value: []byte("10.0.0.7")})
	campaigns(t, url, "elections", "billing.x", leader.Config{ID: "another election"})
	tokenA := tokenOf(t, a)
	recorded(t, url, "billing", 1)
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	recorded(t, url, "billing", 2) // the release, before it is replaced
	_, js := connectTo(t, url)
	put(t, js, "billing", record(t, js, "billing.x", "b", time.Hour)) // a holder that does not answer the deletion
	recorded(t, url, "billing", 3)
	succeeds(t, "step-down", "billing", "--force", "--yes", "-s", url)
	got := historyJSON(t, url, 4, "billing")
	var shape []string
	for _, x := range got.Spans[:4] {
		shape = append(shape, string(x.State)+" "+x.ID+" "+string(x.Ended))
	}
	if s := strings.Join(shape, ", "); s != "leading a released, released  , leading b deleted, deleted  " {
		t.Errorf("%s", s)
	}
	first, third := got.Spans[0], got.Spans[2]
	if !strings.HasSuffix(tokenA, jsonNumber(first.Token)) || third.Token <= first.Token || first.Value != "10.0.0.7" {
		t.Errorf("%s: %+v", tokenA, got)
	}
	for i, x := range got.Spans[:3] {
		if !x.Until.Equal(got.Spans[i+1].Since) {
			t.Errorf("a gap after %+v", x)
		}
	}

	// A moment in the first term, in the time without a leader, and before the history.
	moment := func(at time.Time) (string, int) {
		cmd := natsleader(t, "history", "billing", "--at", at.Format(time.RFC3339Nano), "-s", url)
		out, errs, code := outcome(t, cmd)
		if errs != "" {
			t.Errorf("%s", errs)
		}
		return out, code
	}
	if out, code := moment(first.Since.Add(first.Until.Sub(first.Since) / 2)); code != 0 ||
		!strings.HasPrefix(out, "a led billing at ") || !strings.HasSuffix(out, ": handed over\n") || !strings.Contains(out, jsonNumber(first.Token)) {
		t.Errorf("exit code %d: %s", code, out)
	}
	gap := got.Spans[1]
	if out, code := moment(gap.Since.Add(gap.Until.Sub(gap.Since) / 2)); code != exitFailed ||
		!strings.HasPrefix(out, "nobody led billing at ") || !strings.HasSuffix(out, ": the key was free\n") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code := moment(first.Since.Add(-time.Minute)); code != exitFailed || !strings.Contains(out, "does not reach back so far") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func jsonNumber(n uint64) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// history begins with the leader of that moment, also if it was elected before.
func TestHistory_SinceWithinTerm(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	succeeds(t, "bucket", "add", "--history", "30d", "-s", url)
	campaigns(t, url, "elections", "billing", leader.Config{ID: "a"})
	recorded(t, url, "billing", 1)
	if got := historyJSON(t, url, 1, "billing", "--since", "0s"); got.Spans[0].ID != "a" || got.Spans[0].Since.After(got.From) {
		t.Errorf("%+v", got)
	}
	if out := succeeds(t, "history", "nothing", "-s", url); out != "the history has nothing about nothing\n" {
		t.Errorf("%q", out)
	}
}

// A bucket with a TTL stores a marker with a roll-up for a record that expires, and takes
// roll-ups of clients. Neither wipes the history.
func TestHistory_TTLBucket(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	succeeds(t, "bucket", "add", "--ttl", "1s", "--max-lease", "500ms", "--history", "1h", "-s", url)
	nc, js := connectTo(t, url)
	campaigns(t, url, "elections", "model", leader.Config{ID: "m", LeaseDuration: 400 * time.Millisecond})
	recorded(t, url, "model", 1)
	put(t, js, "billing", renewal(t, js, "a", 300*time.Millisecond))
	got := historyJSON(t, url, 3, "billing")
	if s := got.Spans; s[0].ID != "a" || s[0].Ended != endedExpired || s[1].State != stateExpired || s[2].State != stateDeleted {
		t.Errorf("%+v", got)
	}
	m := nats.NewMsg("$KV.elections.other")
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupAll)
	if _, err := nc.RequestMsg(m, patience); err != nil {
		t.Fatal(err)
	}
	recorded(t, url, "other", 1)
	if again := historyJSON(t, url, 3, "billing"); again.Spans[0].ID != "a" {
		t.Errorf("%+v", again)
	}
}

// The history outlives its bucket, and goes on with the next one of that name.
func TestHistory_DeletedBucket(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	succeeds(t, "bucket", "add", "--history", "30d", "-s", url)
	c := campaigns(t, url, "elections", "billing", leader.Config{ID: "a"})
	recorded(t, url, "billing", 1)
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	recorded(t, url, "billing", 2)
	if out := succeeds(t, "bucket", "rm", "elections", "--yes", "-s", url); !strings.Contains(out, "Its history in stream natsleader_history_elections is kept. --history deletes that, too.\n") {
		t.Errorf("%s", out)
	}
	out, errs, code := outcome(t, natsleader(t, "history", "billing", "-s", url))
	if code != 0 || !strings.Contains(out, "  a  ") || errs != "natsleader: bucket elections does not exist any more: this is what its history has kept\n" {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if out := succeeds(t, "bucket", "add", "-s", url); !strings.Contains(out, "History:        30 days, and 1GiB at most\n") {
		t.Errorf("%s", out)
	}
	campaigns(t, url, "elections", "billing", leader.Config{ID: "b"})
	if got := historyJSON(t, url, 3, "billing"); got.Spans[0].ID != "a" || got.Spans[2].ID != "b" {
		t.Errorf("%+v", got)
	}
}

// history says what it cannot know: without a stream, without a permission, and behind.
func TestHistory_Troubles(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin"}, {Username: "denied", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.INFO.natsleader_history_elections"}},
		}}, {Username: "blind", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"$JS.API.DIRECT.GET.KV_elections.>"}},
		}}}
		o.NoAuthUser = "admin"
	})
	url := s.ClientURL()
	fails(t, natsleader(t, "history", "billing", "-s", url), exitBucket, "bucket elections does not exist; if it was deleted, ")
	succeeds(t, "bucket", "add", "-s", "nats://denied:@"+s.Addr().String()) // it cannot know whether there was a history
	fails(t, natsleader(t, "history", "billing", "-s", url), exitBucket, "`natsleader bucket add elections --history 30d` lets it begin")
	fails(t, natsleader(t, "history", "b*", "-s", url), exitUsage, `"b*"`)
	fails(t, natsleader(t, "history", "billing", "--since", "soon", "-s", url), exitUsage, `--since "soon" is neither a duration`)
	fails(t, natsleader(t, "history", "billing", "--at", "all", "-s", url), exitUsage, `--at "all" is no moment`)
	fails(t, natsleader(t, "history", "billing", "--at", "2999-01-01", "-s", url), exitUsage, "2999-01-01 00:00:00 is in the future")
	succeeds(t, "bucket", "add", "--history", "30d", "-s", url)
	campaigns(t, url, "elections", "billing", leader.Config{ID: "a"})
	recorded(t, url, "billing", 1)
	fails(t, natsleader(t, "history", "billing", "-s", "nats://denied:@"+s.Addr().String()), exitDenied, "STREAM.INFO.natsleader_history_elections")
	out, errs, code := outcome(t, natsleader(t, "history", "billing", "--timeout", "3s", "-s", "nats://blind:@"+s.Addr().String()))
	if code != 0 || !strings.Contains(out, "  a  ") || !strings.HasPrefix(errs, "natsleader: the bucket itself was not read, so the newest changes may be missing: ") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}

	// A history that does not get the key any more.
	_, js := connectTo(t, url)
	if err := js.DeleteStream(t.Context(), historyStream("elections")); err != nil {
		t.Fatal(err)
	}
	if out := succeeds(t, "bucket", "info", "-s", url); !strings.Contains(out, "History:        lost: stream natsleader_history_elections does not exist\n") {
		t.Errorf("%s", out)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: historyStream("elections"), AllowDirect: true, Metadata: map[string]string{historyOfKey: "elections"},
		Sources: []*jetstream.StreamSource{{Name: "KV_elections", FilterSubject: "$KV.elections.other"}},
	}); err != nil {
		t.Fatal(err)
	}
	put(t, js, "behind", record(t, js, "billing", "b", time.Hour))
	kv, err := js.KeyValue(t.Context(), "elections")
	if err != nil {
		t.Fatal(err)
	}
	newest, err := kv.Get(t.Context(), "behind")
	if err != nil {
		t.Fatal(err)
	}
	before := " behind the bucket: changes before " + formatTime(newest.Created())
	eventually(t, "it says that the history is behind", func() bool {
		out, errs, code := outcome(t, natsleader(t, "history", "behind", "-s", url))
		return code == 0 && strings.Contains(out, "  b  ") && strings.Contains(errs, before)
	})
}
