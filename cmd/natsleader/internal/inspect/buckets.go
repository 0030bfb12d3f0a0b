package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// ListedBucket describes a bucket in a list.
type ListedBucket struct {
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

// Buckets returns all buckets, but no roster.
func (s *Inspector) Buckets(ctx context.Context) (found []ListedBucket, err error) {
	found = []ListedBucket{} // not nil: in JSON it is a list
	streams := s.Js.ListStreams(ctx, jetstream.WithStreamListSubject("$KV.>"))
	for info := range streams.Info() {
		if b, ok := newListedBucket(info); ok {
			found = append(found, b)
		}
	}
	return found, streams.Err()
}

// newListedBucket returns false for a stream that is no bucket, and for a roster.
func newListedBucket(info *jetstream.StreamInfo) (ListedBucket, bool) {
	c := info.Config
	name, ok := strings.CutPrefix(c.Name, "KV_")
	if !ok || c.Metadata[wire.RosterOfKey] != "" {
		return ListedBucket{}, false
	}
	b := ListedBucket{
		Name: name, Description: c.Description, Keys: info.State.NumSubjects, Replicas: c.Replicas,
		Storage: front.StorageName(c.Storage), TTL: c.MaxAge.Seconds(), ttl: c.MaxAge,
		Roster: c.Metadata[wire.RosterKey] != "", History: c.Metadata[facts.HistoryKey] != "",
	}
	b.maxLease, b.Elections = c.Metadata[wire.MaxLeaseKey]
	if lease, err := time.ParseDuration(b.maxLease); err == nil {
		b.MaxLease = lease.Seconds()
	}
	return b, true
}

// Row returns the cells of the bucket in a table.
func (b ListedBucket) Row() []string {
	return []string{
		front.Printable(b.Name), fmt.Sprint(b.Keys), fmt.Sprint(b.Replicas), b.Storage, front.Shorten(front.Printable(cmp.Or(b.maxLease, "-")), front.LongID),
		front.OrNone(b.ttl, "none"), front.YesNo(b.Roster), front.YesNo(b.History), front.Shorten(front.Printable(b.Description), front.LongValue),
	}
}

// HistoryOfKey is in the metadata of the stream of a history, and names the bucket.
const HistoryOfKey = "natsleader.history_of"

// OnAllBuckets returns an inspector for each bucket that natsleader has made, on the same connection.
func (s *Inspector) OnAllBuckets(ctx context.Context) ([]*Inspector, error) {
	found, err := Answer(ctx, s, s.Buckets)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b ListedBucket) int { return strings.Compare(a.Name, b.Name) })
	var all []*Inspector
	for _, b := range found {
		if bucket, err := leader.OpenBucket(s.Js, b.Name); b.Elections && err == nil {
			on := *s
			on.Bucket, on.Name = bucket, b.Name
			all = append(all, &on)
		}
	}
	return all, nil
}
