package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/wire"
)

const bucketListHelp = `The keys are the elections, also those that no candidate stands in any more. A bucket
that natsleader has not made is shown with --all.

  natsleader bucket ls --json | jq -r '.[].name'`

func registerBucketList(bucket *fisk.CmdClause, g *globals) {
	var asJSON, all bool
	cmd := bucket.Command("ls", "List the buckets for elections").Alias("list").HelpLong(bucketListHelp)
	cmd.Flag("all", "Also buckets that natsleader has not made").Short('a').UnNegatableBoolVar(&all)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&asJSON)
	cmd.Action(func(*fisk.ParseContext) error { return g.bucketList(all, asJSON) })
}

// listedBucket describes a bucket in a list.
type listedBucket struct {
	Name        string  `json:"name"`
	Description string  `json:"description,omitempty"`
	Elections   bool    `json:"elections"` // natsleader has made it
	Keys        uint64  `json:"keys"`
	Replicas    int     `json:"replicas"`
	Storage     string  `json:"storage"`
	MaxLease    float64 `json:"max_lease_seconds,omitempty"`
	TTL         float64 `json:"ttl_seconds,omitempty"`
	Roster      bool    `json:"roster"`
	History     bool    `json:"history"`

	maxLease string
	ttl      time.Duration
}

func (g *globals) bucketList(all, asJSON bool) error {
	s, err := g.openInspector()
	if err != nil {
		return err
	}
	defer s.close()
	found := []listedBucket{}
	err = s.within(context.Background(), func(ctx context.Context) error {
		buckets, failed := s.buckets(ctx)
		for _, b := range buckets {
			if all || b.Elections {
				found = append(found, b)
			}
		}
		return failed
	})
	if err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b listedBucket) int { return strings.Compare(a.Name, b.Name) })
	rows := [][]string{{"BUCKET", "KEYS", "REPLICAS", "STORAGE", "MAX LEASE", "TTL", "ROSTER", "HISTORY", "DESCRIPTION"}}
	for _, b := range found {
		rows = append(rows, b.row())
	}
	lines := columns(rows)
	if len(found) == 0 {
		lines = []string{"no bucket for elections"}
	}
	return printResult(g.out(), asJSON, found, lines)
}

// buckets returns all buckets, but no roster.
func (s *inspector) buckets(ctx context.Context) (found []listedBucket, err error) {
	streams := s.js.ListStreams(ctx, jetstream.WithStreamListSubject("$KV.>"))
	for info := range streams.Info() {
		if b, ok := newListedBucket(info); ok {
			found = append(found, b)
		}
	}
	return found, streams.Err()
}

// newListedBucket returns false for a stream that is no bucket, and for a roster.
func newListedBucket(info *jetstream.StreamInfo) (listedBucket, bool) {
	c := info.Config
	name, ok := strings.CutPrefix(c.Name, "KV_")
	if !ok || c.Metadata[wire.RosterOfKey] != "" {
		return listedBucket{}, false
	}
	b := listedBucket{
		Name: name, Description: c.Description, Keys: info.State.NumSubjects, Replicas: c.Replicas,
		Storage: storageName(c.Storage), TTL: c.MaxAge.Seconds(), ttl: c.MaxAge,
		Roster: c.Metadata[wire.RosterKey] != "", History: c.Metadata[historyKey] != "",
	}
	b.maxLease, b.Elections = c.Metadata[wire.MaxLeaseKey]
	if lease, err := time.ParseDuration(b.maxLease); err == nil {
		b.MaxLease = lease.Seconds()
	}
	return b, true
}

func (b listedBucket) row() []string {
	is := func(b bool) string {
		if b {
			return "yes"
		}
		return "no"
	}
	return []string{
		printable(b.Name), fmt.Sprint(b.Keys), fmt.Sprint(b.Replicas), b.Storage, shorten(printable(cmp.Or(b.maxLease, "-")), longID),
		orNone(b.ttl, "none"), is(b.Roster), is(b.History), shorten(printable(b.Description), longValue),
	}
}
