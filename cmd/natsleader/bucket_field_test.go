//go:build field

package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func TestBucket_AddAndInfo(t *testing.T) {
	url := startServer(t).ClientURL()
	_, js := connectTo(t, url)
	fails(t, natsleader(t, "bucket", "info", "-s", url), exitBucket, "bucket elections does not exist; if it was deleted, a leader of it may lead for one more lease (at most its MaxLease, which is 15s by default and 1 day at the most): wait for that; then `natsleader bucket add elections` makes it")
	succeeds(t, "bucket", "add", "-s", url)
	succeeds(t, "bucket", "add", "fast", "--max-lease", "5s", "--storage", "memory", "--description", "for tests", "-s", url)
	succeeds(t, "bucket", "add", "short", "--ttl", "1m", "-s", url)
	succeeds(t, "bucket", "add", "fast", "-s", url) // keeps what is not given
	if out := succeeds(t, "bucket", "add", "queued", "--roster", "-s", url); !strings.Contains(out, "Roster:         yes\n") {
		t.Errorf("with a roster:\n%s", out)
	}
	var confs [2]jetstream.StreamConfig // of the bucket and of its roster
	read := func() {
		t.Helper()
		for i, name := range []string{"KV_queued", "KV_queued_roster"} {
			stream, err := js.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			confs[i] = stream.CachedInfo().Config
		}
	}
	read()
	confs[0].Placement = &jetstream.Placement{Tags: []string{"fast"}}
	if _, err := js.UpdateStream(t.Context(), confs[0]); err != nil {
		t.Fatal(err)
	}
	succeeds(t, "bucket", "add", "queued", "--max-lease", "5s", "-s", url)
	if read(); !reflect.DeepEqual(confs[0].Placement, confs[1].Placement) {
		t.Errorf("the roster does not follow its bucket: placement %+v, not %+v", confs[1].Placement, confs[0].Placement)
	}

	for _, want := range []bucketSummary{
		{Name: "elections", Fit: true, PurgeProtected: true, Replicas: 1, Storage: "file", MaxLease: 15, Feed: "natsleader.feed.elections"},
		{Name: "fast", Description: "for tests", Fit: true, PurgeProtected: true, Replicas: 1, Storage: "memory", MaxLease: 5, Feed: "natsleader.feed.fast"},
		{Name: "queued", Fit: true, PurgeProtected: true, Replicas: 1, Storage: "file", MaxLease: 5, Feed: "natsleader.feed.queued", Roster: true},
		{Name: "short", Fit: true, Replicas: 1, Storage: "file", MaxLease: 15, TTL: 60, Feed: "natsleader.feed.short"},
	} {
		byEnv := withEnv(natsleader(t, "bucket", "info", "--json", "-s", url), "NATSLEADER_BUCKET="+want.Name)
		for _, cmd := range []*exec.Cmd{
			natsleader(t, "bucket", "info", want.Name, "--json", "-s", url),
			natsleader(t, "bucket", "info", "--bucket", want.Name, "--json", "-s", url),
			byEnv,
		} {
			out, errs, code := outcome(t, cmd)
			var got bucketSummary
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%v: %s%s", err, out, errs)
			}
			got.MaxValue = 0 // the server's limit
			if got != want || code != 0 {
				t.Errorf("%v: exit code %d, %+v", cmd.Args[1:], code, got)
			}
		}
	}
}

// bucket info reports what is unfit.
func TestBucketInfo_ReportsUnfit(t *testing.T) {
	url := startServer(t).ClientURL()
	_, js := connectTo(t, url)
	for _, cfg := range []jetstream.KeyValueConfig{{Bucket: "plain"}, {Bucket: "mirror", Mirror: &jetstream.StreamSource{Name: "KV_plain"}}} {
		if _, err := js.CreateKeyValue(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	out := succeeds(t, "bucket", "info", "plain", "-s", url)
	for _, says := range []string{"Fit:            yes", "`natsleader bucket add plain` protects it", "Longest lease:  unlimited", "Feed:           none"} {
		if !strings.Contains(out, says) {
			t.Errorf("does not say %q:\n%s", says, out)
		}
	}
	out, errs, code := outcome(t, natsleader(t, "bucket", "info", "mirror", "-s", url))
	if code != exitBucket || !strings.Contains(out, "Fit:            no: ") || errs != "" {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	evil := jetstream.StreamConfig{
		Name: "KV_evil", Subjects: []string{"$KV.evil.>"}, MaxMsgsPerSubject: 1, AllowDirect: true, DenyDelete: true, Discard: jetstream.DiscardNew,
		Description: "\x1b]0;title\a", RePublish: &jetstream.RePublish{Source: "$KV.evil.>", Destination: "\x1b]0;title\a.$KV.evil.>"},
	}
	if _, err := js.CreateStream(t.Context(), evil); err != nil {
		t.Fatal(err)
	}
	if out := succeeds(t, "bucket", "info", "evil", "-s", url); rawIn(out) || strings.Count(out, `\x1b]0;title`) != 2 {
		t.Errorf("%q", out)
	}
	fails(t, natsleader(t, "bucket", "add", "mirror", "-s", url), exitBucket)
	fails(t, natsleader(t, "bucket", "add", "x", "--replicas", "2", "-s", url), exitUsage, "--replicas 2 is not 1, 3 or 5")
	fails(t, natsleader(t, "bucket", "add", "x", "--max-lease", "9000h", "-s", url), exitUsage, "--max-lease 9000h0m0s is more than")
	fails(t, natsleader(t, "bucket", "add", "x.y", "-s", url), exitUsage, "x.y")
	fails(t, natsleader(t, "bucket", "add", "x", "--storage", "paper", "-s", url), exitUsage, "paper")
	fails(t, natsleader(t, "bucket"), exitUsage, "subcommand")
}

// With --adopt, bucket add takes a bucket although it holds something else.
func TestBucketAdd_Adopt(t *testing.T) {
	url := startServer(t).ClientURL()
	_, js := connectTo(t, url)
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "elections", History: 5})
	for i := 0; err == nil && i < 5; i++ {
		_, err = kv.PutString(t.Context(), "config", fmt.Sprint(i))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, errs, code := outcome(t, natsleader(t, "bucket", "add", "-s", url)); code != 0 { // package leader refuses
		if code == exitUnreachable || !strings.Contains(errs, "--adopt") {
			t.Errorf("exit code %d\n%s", code, errs)
		}
		if history, err := kv.History(t.Context(), "config"); err != nil || len(history) != 5 {
			t.Errorf("%d revisions are left, %v", len(history), err)
		}
	}
	if out := succeeds(t, "bucket", "add", "--adopt", "-s", url); !strings.Contains(out, "Protected:      yes") {
		t.Errorf("%s", out)
	}
}
