//go:build field

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// doctorStreams names the streams that a user sees.
func doctorStreams(t *testing.T, url string) (names []string) {
	t.Helper()
	_, js := connectTo(t, url)
	all := js.StreamNames(t.Context())
	for name := range all.Name() {
		names = append(names, name)
	}
	if err := all.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

// Doctor stores a message in a stream of its own, and removes the stream.
func TestDoctor_Store(t *testing.T) {
	s := configured(t, fmt.Sprintf(`host: 127.0.0.1, port: -1, jetstream { store_dir: %q } %s`, testserver.StoreDir(t), permitted))
	admin := asUser(s, "admin")
	nc, _ := connectTo(t, admin)
	created, err := nc.SubscribeSync("$JS.EVENT.ADVISORY.STREAM.CREATED.*")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	newBucket(t, admin, "elections", leader.BucketConfig{})
	stored := func() int {
		t.Helper()
		n, _, err := created.Pending()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	diagnose(t, admin, "--read-only").says(t, "store", "note", "--read-only")
	// A candidate may not create streams. Doctor then leaves nothing that it cannot delete.
	diagnose(t, asUser(s, "candidate")).says(t, "store", "note", "may not publish to $JS.API.STREAM.DELETE", "candidates need not")
	diagnose(t, admin).says(t, "store", "ok", "a message of 1024 bytes is stored")
	// Advisories come in order: that of the bucket, which may be late, and then those of the runs before
	// that of the last.
	eventually(t, "a stream is created", func() bool { return stored() > 1 })
	if n := stored(); n != 2 {
		t.Errorf("%d streams were created beside the bucket", n-1)
	}
	if names := doctorStreams(t, admin); len(names) != 1 || names[0] != "KV_elections" {
		t.Errorf("%v", names)
	}
}

// An account at its limit of storage stores nothing.
func TestDoctor_AccountAtLimit(t *testing.T) {
	s := configured(t, fmt.Sprintf(`host: 127.0.0.1, port: -1, jetstream { store_dir: %q }
		accounts { A { jetstream { max_store: 10000 }, users: [ { user: a, password: x } ] } }`, testserver.StoreDir(t)))
	url := asUser(s, "a")
	newBucket(t, url, "elections", leader.BucketConfig{})
	diagnose(t, url).says(t, "store", "ok")
	_, js := connectTo(t, url)
	if _, err := js.Publish(t.Context(), "$KV.elections.a", make([]byte, 9700)); err != nil {
		t.Fatal(err)
	}
	d := diagnose(t, url)
	d.says(t, "store", "critical", "store nothing of file kind", "raise the limits of the account")
	if names := doctorStreams(t, url); len(names) != 1 {
		t.Errorf("%v", names)
	}
}

// Elections that nobody has renewed or taken for more than a lease are a warning. Elections
// that were given up in order, or ended just now, are none.
func TestDoctor_Abandoned(t *testing.T) {
	now := time.Now()
	at := func(election string, ended time.Duration, change func(*electionStatus)) electionStatus {
		x := electionStatus{election: election, entry: backend.Entry{Revision: 7}, holder: leader.Holder{ID: "a", Lease: 10 * time.Second}}
		x.holder.Renewed = now.Add(-ended - x.holder.Lease)
		change(&x)
		return x
	}
	as := func(*electionStatus) {}
	all := []electionStatus{
		at("led", -time.Second, as), at("ended", 10*time.Second, as), at("df", 10*time.Second+1, as),
		at("released", time.Hour, func(x *electionStatus) { x.holder.Released = true }),
		at("deleted", time.Hour, func(x *electionStatus) { x.entry.Marker = true }),
		at("foreign", time.Hour, func(x *electionStatus) { x.holder.Foreign = true }),
	}
	if got := strings.Join(abandoned(all, now), " "); got != "df" {
		t.Errorf("%s", got)
	}

	s := startServer(t)
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{})
	expire(t, s.ClientURL(), "df")
	var said string
	eventually(t, "doctor finds it", func() bool {
		said = fmt.Sprint(diagnose(t, s.ClientURL()))
		return strings.Contains(said, "warning elections: nobody renews or takes df: writes fail, or all candidates are gone")
	})
	// After a full disk a deletion is not stored either, and the key is the memory of the last lease. The advice works.
	const advice = "natsleader run --bucket elections ELECTION -- true"
	if !strings.Contains(said, advice) || strings.Contains(said, "kv del") {
		t.Error(said)
	}
	succeeds(t, append([]string{"-s", s.ClientURL()}, strings.Fields(strings.Replace(advice, "ELECTION", "df", 1))[1:]...)...)
	if said := fmt.Sprint(diagnose(t, s.ClientURL())); strings.Contains(said, "nobody renews") {
		t.Error(said)
	}
}

// expire leaves the record of an election whose leader is gone.
func expire(t *testing.T, url, election string) {
	t.Helper()
	c := campaigns(t, url, "elections", "model", leader.Config{ID: "a"})
	_, js := connectTo(t, url)
	put(t, js, election, record(t, js, "model", "worker-c", 100*time.Millisecond))
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}
