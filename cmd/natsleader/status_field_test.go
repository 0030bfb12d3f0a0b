//go:build field

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// manyElections makes a bucket of n elections, with one waiting candidate in each, and
// returns its server's URL.
func manyElections(tb testing.TB, n int) string {
	tb.Helper()
	url := startServer(tb).ClientURL()
	newBucket(tb, url, "elections", leader.BucketConfig{Roster: true})
	campaigns(tb, url, "elections", "e", leader.Config{ID: "a", Value: []byte("10.0.0.7:80"), Roster: true})
	stands(tb, url, "e", leader.Config{ID: "b", Roster: true})
	inLine(tb, url, "e", "b")
	nc, js := connectTo(tb, url)
	value := []byte(record(tb, js, "e", "b", time.Hour))
	for i := range n - 1 {
		announcement := nats.NewMsg(fmt.Sprintf("$KV.elections_roster.e%05d.%s", i, anySession))
		announcement.Header.Set(jetstream.MsgTTLHeader, "1h")
		announcement.Data = []byte(`{"v":1,"id":"b"}`)
		expect.OK(tb, errors.Join(nc.Publish(fmt.Sprintf("$KV.elections.e%05d", i), value), nc.PublishMsg(announcement)))
	}
	for _, name := range []string{"KV_elections", "KV_elections_roster"} {
		eventually(tb, "the records are stored", func() bool {
			stream, err := js.Stream(tb.Context(), name)
			return err == nil && stream.CachedInfo().State.NumSubjects >= uint64(n)
		})
	}
	return url
}

func TestStatus_10000Elections(t *testing.T) {
	const n = 10_000
	url := manyElections(t, n)
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"status", "--roster"}, {"status", "--roster", "--json"}} {
		out := succeeds(t, append(args, "-s", url)...)
		one := strings.Count(out, `"stand": 1`)
		expect.That(t, !slices.Contains(args, "--roster") || !slices.Contains(args, "--json") || one == n,
			"%v: one stands in %d of %d elections", args, one, n)
		got := strings.Count(out, "leading")
		expect.That(t, got == n, "%v: %d of %d elections", args, got, n)
	}
}
