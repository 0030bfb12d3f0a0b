//go:build field

package main

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// streamsOf returns the names of all streams.
func streamsOf(t *testing.T, js jetstream.JetStream) []string {
	t.Helper()
	names := []string{}
	for name := range js.StreamNames(t.Context()).Name() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// bucket ls lists the buckets for elections, and with --all every bucket.
func TestBucketList(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	if out := succeeds(t, "bucket", "ls", "-s", url); out != "no bucket for elections\n" {
		t.Errorf("%q", out)
	}
	if out := succeeds(t, "bucket", "ls", "--json", "-s", url); out != "[]\n" {
		t.Errorf("%q", out)
	}
	_, js := connectTo(t, url)
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "plain", Description: "\x1b]0;title\a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}}); err != nil {
		t.Fatal(err)
	}
	succeeds(t, "bucket", "add", "--roster", "--history", "30d", "--description", "of the shop", "-s", url)
	succeeds(t, "bucket", "add", "short", "--ttl", "1m", "--storage", "memory", "-s", url)
	campaigns(t, url, "elections", "billing", leader.Config{})
	var got []listedBucket
	if err := json.Unmarshal([]byte(succeeds(t, "bucket", "ls", "--json", "-s", url)), &got); err != nil {
		t.Fatal(err)
	}
	if want := []listedBucket{
		{Name: "elections", Description: "of the shop", Elections: true, Keys: 1, Replicas: 1, Storage: "file", MaxLease: 15, Roster: true, History: true},
		{Name: "short", Elections: true, Replicas: 1, Storage: "memory", MaxLease: 15, TTL: 60},
	}; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	out := succeeds(t, "bucket", "ls", "--all", "-s", url)
	if strings.Count(out, "\n") != 4 || !strings.Contains(out, "\nplain ") || strings.Contains(out, "_roster") || rawIn(out) {
		t.Errorf("%s", out)
	}
}

// bucket rm deletes a bucket with its roster, and with its history if that is asked for, but no bucket that is in use.
func TestBucketRemove(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	_, js := connectTo(t, url)
	succeeds(t, "bucket", "add", "--roster", "--history", "30d", "-s", url)
	c := campaigns(t, url, "elections", "billing", leader.Config{ID: "a"})
	fails(t, natsleader(t, "bucket", "rm", "elections", "-s", url), exitUsage, "--yes")
	fails(t, natsleader(t, "bucket", "rm", "--yes", "-s", url), exitUsage, "name")
	fails(t, natsleader(t, "bucket", "rm", "elections", "--yes", "-s", url), exitFailed, "bucket elections is in use: the key of billing is held: stop the candidates")
	crashed := record(t, js, "billing", "x", time.Nanosecond)
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, js, "crashed", crashed) // by the server's clock its lease is over
	put(t, js, "foreign", "not ours")
	fails(t, natsleader(t, "bucket", "rm", "elections", "--yes", "-s", url), exitFailed, "the key of foreign is held")
	all := []string{"KV_elections", "KV_elections_roster", "natsleader_history_elections"}
	if got := streamsOf(t, js); !slices.Equal(got, all) {
		t.Fatalf("%q", got)
	}
	out, errs, code := outcome(t, natsleader(t, "bucket", "rm", "elections", "--yes", "--force", "--history", "--json", "-s", url))
	var got struct {
		Deleted []string `json:"deleted_streams"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || !slices.Equal(got.Deleted, all) || len(streamsOf(t, js)) != 0 {
		t.Errorf("%v, exit code %d: %s", err, code, out)
	}
	for _, says := range []string{"- stream KV_elections with 3 elections.\n", "- its roster in stream", "- its history in stream", "- The key of foreign is held."} {
		if !strings.Contains(errs, says) {
			t.Errorf("does not say %q:\n%s", says, errs)
		}
	}
	fails(t, natsleader(t, "bucket", "rm", "elections", "--yes", "-s", url), exitBucket, "bucket elections does not exist; nothing was deleted")
}

// bucket rm leaves alone what natsleader has not made, and deletes what is left of a bucket.
func TestBucketRemove_OnlyOwn(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	_, js := connectTo(t, url)
	for _, name := range []string{"plain", "mine_roster"} {
		if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: name}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: historyStream("mine")}); err != nil {
		t.Fatal(err)
	}
	fails(t, natsleader(t, "bucket", "rm", "plain", "--yes", "-s", url), exitBucket, "natsleader has not made bucket plain: `nats kv del plain` deletes it")
	newBucket(t, url, "mine", leader.BucketConfig{})
	fails(t, natsleader(t, "bucket", "add", "mine", "--history", "1d", "-s", url), exitBucket, "has its settings, but its history could not be set up", "is no history of bucket mine")
	succeeds(t, "bucket", "rm", "mine", "--yes", "-s", url)
	if got := streamsOf(t, js); !slices.Equal(got, []string{"KV_mine_roster", "KV_plain", "natsleader_history_mine"}) {
		t.Errorf("%q", got)
	}
	succeeds(t, "bucket", "add", "left", "--roster", "--history", "1d", "-s", url)
	fails(t, natsleader(t, "bucket", "rm", "left_roster", "--yes", "-s", url), exitBucket, "is the roster of bucket left")
	if err := js.DeleteStream(t.Context(), "KV_left"); err != nil {
		t.Fatal(err)
	}
	succeeds(t, "bucket", "rm", "left", "--yes", "-s", url)
	if _, err := js.Stream(t.Context(), historyStream("left")); err != nil {
		t.Error(err)
	}
	succeeds(t, "bucket", "rm", "left", "--yes", "--history", "-s", url)
	if _, err := js.Stream(t.Context(), "KV_left_roster"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Error(err)
	}
	succeeds(t, "bucket", "rm", "plain", "--yes", "--force", "-s", url)
}

// bucket add keeps a history that it is not told about, and changes the one that it is.
func TestBucketAdd_History(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	_, js := connectTo(t, url)
	fails(t, natsleader(t, "bucket", "add", "--history", "30s", "-s", url), exitUsage, "--history 30s is less than 1m0s")
	fails(t, natsleader(t, "bucket", "add", "--history", "0s", "-s", url), exitUsage, "to end a history: nats stream rm natsleader_history_elections, then natsleader bucket add elections")
	fails(t, natsleader(t, "bucket", "add", "--history-size", "1GB", "-s", url), exitUsage, "--history-size needs --history")
	fails(t, natsleader(t, "bucket", "add", "--history", "1d", "--history-size", "1KB", "-s", url), exitUsage, "--history-size 1KiB is less than 1MiB")
	settings := func() (time.Duration, int64) {
		stream, err := js.Stream(t.Context(), historyStream("elections"))
		if err != nil {
			t.Fatal(err)
		}
		conf := stream.CachedInfo().Config
		return conf.MaxAge, conf.MaxBytes
	}
	for _, x := range []struct {
		args []string
		age  time.Duration
		size int64
		says string
	}{
		{[]string{"--history", "30d"}, 30 * 24 * time.Hour, 1 << 30, "History:        30 days, and 1GiB at most\n"},
		{[]string{"--max-lease", "20s"}, 30 * 24 * time.Hour, 1 << 30, "History:        30 days, and 1GiB at most\n"},
		{[]string{"--history", "36h"}, 36 * time.Hour, 1 << 30, "History:        36h0m0s, and 1GiB at most\n"},
		{[]string{"--history", "1d", "--history-size", "10MB"}, 24 * time.Hour, 10 << 20, "History:        1 day, and 10MiB at most\n"},
	} {
		out := succeeds(t, append([]string{"bucket", "add", "-s", url}, x.args...)...)
		if age, size := settings(); age != x.age || size != x.size || !strings.Contains(out, x.says) {
			t.Errorf("%q: %v, %d\n%s", x.args, age, size, out)
		}
	}
	var got bucketSummary
	if err := json.Unmarshal([]byte(succeeds(t, "bucket", "add", "--json", "-s", url)), &got); err != nil || got.History != 86400 || got.HistorySize != 10<<20 {
		t.Errorf("%v: %+v", err, got)
	}
	// A history that is gone is forgotten, and not made again without an age.
	if err := js.DeleteStream(t.Context(), historyStream("elections")); err != nil {
		t.Fatal(err)
	}
	if out := succeeds(t, "bucket", "add", "-s", url); !strings.Contains(out, "History:        none\n") {
		t.Errorf("%s", out)
	}
}
