//go:build field && prove

package leader_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
	"github.com/natsleader/natsleader/seats"
)

// features are what docs/compatibility.md lists, with the first version that has each, and what the
// error says on servers that are older.
var features = []struct {
	name, since, refusal string
	try                  func(t *testing.T, js jetstream.JetStream) error
}{
	{name: "elections", since: "2.10.0", try: func(t *testing.T, js jetstream.JetStream) error {
		tcpCreate(t, js, leader.BucketConfig{MaxLease: 3 * time.Second})
		bucket := func() *leader.Bucket { return tcpBucket(t, js) }
		tcpHandover(t, bucket, bucket, leader.Config{})
		return nil
	}},
	{name: "seats", since: "2.10.0", try: func(t *testing.T, js jetstream.JetStream) error {
		for _, id := range []string{"a", "b"} {
			tcpElectionOf(t, "seats").stand(seats.Of(tcpBucket(t, js), 2), leader.Config{ID: id}).Expect(leadertest.Elected())
		}
		return nil
	}},
	{name: "guards", since: "2.11.8", refusal: "nats-server 2.11.8 or later", try: func(t *testing.T, js jetstream.JetStream) error {
		orders, err := fence.CreateOrUpdateBucket(t.Context(), js, jetstream.KeyValueConfig{Bucket: "orders"})
		if err == nil {
			err = checked(t.Context(), orders)
		}
		if err != nil {
			return err
		}
		el := tcpElectionOf(t, "guards")
		a := el.stand(tcpBucket(t, js), leader.Config{ID: "a", Guards: []leader.Guard{orders}})
		zombie := orders.Writer(tcpTerm(a))
		check.OK(t, a.Stop())
		b := el.stand(tcpBucket(t, js), leader.Config{ID: "b", Guards: []leader.Guard{orders}})
		if _, err := orders.Writer(tcpTerm(b)).Put(t.Context(), "k", nil); err != nil {
			return err
		}
		check.Is(t, check.Err(zombie.Put(t.Context(), "k", nil)), leader.ErrFenced)
		return nil
	}},
	{name: "batches", since: "2.12.0", refusal: "nats-server 2.12 or later", try: func(t *testing.T, js jetstream.JetStream) error {
		stock, err := fence.CreateOrUpdateBucket(t.Context(), js, jetstream.KeyValueConfig{Bucket: "stock"})
		if err == nil && checked(t.Context(), stock) != nil {
			proof.Skip(t, "there are no guards")
		}
		if err != nil {
			return err
		}
		c := tcpElectionOf(t, "batches").stand(tcpBucket(t, js), leader.Config{ID: "a", Guards: []leader.Guard{stock}})
		batch := stock.Writer(tcpTerm(c)).Batch()
		batch.Put("k", nil)
		batch.Put("l", nil)
		_, err = batch.Commit(t.Context())
		return err
	}},
	{name: "roster", since: "2.11.0", refusal: "nats-server 2.11 or later", try: func(t *testing.T, js jetstream.JetStream) error {
		b, err := leader.CreateOrUpdateBucket(t.Context(), js, leader.BucketConfig{Name: "listed", Roster: true})
		if err != nil {
			return err
		}
		el := tcpElectionOf(t, "roster")
		el.stand(b, leader.Config{ID: "a", Queue: &leader.Queue{}}).Expect(leadertest.Elected())
		el.stand(b, leader.Config{ID: "b", Queue: &leader.Queue{}})
		tcpEventually(t, "b stands", func() bool {
			all, err := roster.Lookup(t.Context(), b, "roster")
			return err == nil && slices.ContainsFunc(all, func(e roster.Entry) bool { return e.ID == "b" })
		})
		return nil
	}},
}

// releases are the newest patch releases of each minor release from 2.10 on. There is no 2.13.
var releases = []string{"v2.10.29", "v2.11.17", "v2.12.15", "v2.14.9", "v" + server.VERSION}

// older compares two versions.
func older(version, than string) bool {
	numbers := func(v string) (all []int) {
		for _, part := range strings.Split(v, ".") {
			n, _ := strconv.Atoi(part) // not of a pre-release, as it never is
			all = append(all, n)
		}
		return all
	}
	return slices.Compare(numbers(version), numbers(than)) < 0
}

// Each feature works on the newest patch release of each minor release from 2.10 on, or its error
// says which version it needs.
func TestCompatibility(t *testing.T) {
	for _, version := range releases {
		t.Run(version, func(t *testing.T) {
			url := oldServers(t, version).URLs
			var works []string
			for _, f := range features {
				t.Run(f.name, func(t *testing.T) {
					js := tcpJS(t, tcpDial(t, url))
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					_, err := js.AccountInfo(ctx) // JetStream answers
					check.OK(t, err)
					err = f.try(t, js)
					if !older(version[1:], f.since) {
						check.OK(t, err)
						works = append(works, f.name)
					} else if err == nil || !strings.Contains(err.Error(), f.refusal) {
						t.Errorf("%v does not say %q", err, f.refusal)
					}
				})
			}
			t.Logf("%s has %s", version, strings.Join(works, ", "))
		})
	}
}
