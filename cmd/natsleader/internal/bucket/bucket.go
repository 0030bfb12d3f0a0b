// Package bucket makes, shows and removes buckets.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/choria-io/fisk"
	"github.com/choria-io/fisk/units"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/internal/hazards"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

const bucketAddHelp = `An existing bucket is brought to these settings, and its roster follows it.
Replicas, storage, longest lease and description stay as they are where nothing is
given.

A --max-lease below a lease that may be valid is refused. The message names the
election: stop its candidate, or wait.

Without --ttl the bucket is purge-protected: nothing but a delete marker can remove a
record, and that cannot be undone.

A bucket that was made for something else keeps one revision of each key from then
on, and cannot be purged any more. So one that holds the history of keys, or keys that are no records of elections,
is refused without --adopt.

With --history a second stream keeps all that is written to the bucket, renewals
too: see natsleader history. To end that, delete the stream with 'nats stream rm
natsleader_history_NAME', and run bucket add once more.

  natsleader bucket add --replicas 3 --history 30d
  natsleader bucket add fast --max-lease 5s`

// Register adds the commands bucket, add and info.
func Register(app *fisk.Application, g *front.Globals) {
	bucket := app.Command("bucket", "Make, list, show or delete buckets for elections")

	var cfg leader.BucketConfig
	var storage string
	var history historySettings
	var size units.Base2Bytes
	var addJSON bool
	add := bucket.Command("add", "Make a bucket, or bring one to these settings").HelpLong(bucketAddHelp)
	add.Arg("name", "Name of the bucket; that of --bucket by default").StringVar(&cfg.Name)
	add.Flag("replicas", "On how many servers: 1, 3 or 5 (default: as many as it has; a new one, 3 of a cluster that has them, otherwise 1)").PlaceHolder("N").IntVar(&cfg.Replicas)
	add.Flag("storage", "Where it is kept, file or memory; cannot be changed later (default: file)").PlaceHolder("KIND").EnumVar(&storage, "file", "memory")
	add.Flag("max-lease", fmt.Sprintf("Longest lease that a candidate may ask for, 100ms to 24h (default: %v, or as it is)", wire.DefaultLease)).PlaceHolder("DURATION").DurationVar(&cfg.MaxLease)
	add.Flag("ttl", "Drop records after this time (default: never, and the bucket is purge-protected)").PlaceHolder("DURATION").DurationVar(&cfg.TTL)
	add.Flag("roster", "Keep a roster of who stands, in a bucket beside this one").UnNegatableBoolVar(&cfg.Roster)
	add.Flag("adopt", "Take a bucket that holds something else, too, or has a TTL; its history is dropped, which cannot be undone").UnNegatableBoolVar(&cfg.Adopt)
	add.Flag("description", "What it is for").PlaceHolder("TEXT").StringVar(&cfg.Description)
	add.Flag("history", "Keep for this time the terms of all elections, for natsleader history (default: none, or as it is)").PlaceHolder("DURATION").IsSetByUser(&history.given).DurationVar(&history.age)
	add.Flag("history-size", "With --history, the most that it may take (default: 1GB)").PlaceHolder("SIZE").BytesVar(&size)
	add.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&addJSON)
	add.Action(func(*fisk.ParseContext) error {
		if cfg.Name != "" {
			g.Bucket = cfg.Name
		}
		history.size = int64(size)
		if err := history.check(g.Bucket); err != nil {
			return err
		}
		return inspect.Do(g, func(ctx context.Context, s *inspect.Inspector) error {
			return bucketAdd(ctx, g, s, cfg, storage, history, addJSON)
		})
	})
	registerBucketList(bucket, g)

	var name string
	var asJSON bool
	info := bucket.Command("info", "Show what a bucket is set to, and whether elections can work with it")
	info.Arg("name", "Name of the bucket; that of --bucket by default").HintAction(func() []string { return inspect.BucketNames(g) }).StringVar(&name)
	info.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&asJSON)
	info.Action(func(*fisk.ParseContext) error {
		if name != "" {
			g.Bucket = name
		}
		return inspect.Do(g, func(ctx context.Context, s *inspect.Inspector) error { return bucketInfo(ctx, g, s, asJSON) })
	})
	registerBucketRemove(bucket, g)
}

func bucketAdd(ctx context.Context, g *front.Globals, s *inspect.Inspector, cfg leader.BucketConfig, storage string, history historySettings, asJSON bool) error {
	cfg.Name = g.Bucket
	if storage == "memory" {
		cfg.Storage = jetstream.MemoryStorage
	}
	var info leader.BucketInfo
	var fresh bool
	err := s.Within(ctx, func(ctx context.Context) (err error) {
		info, err = s.Bucket.Info(ctx)
		if fresh = errors.Is(err, leader.ErrNoBucket); err != nil && !fresh && !errors.Is(err, leader.ErrIncompatibleBucket) {
			return err
		}
		if storage == "" {
			cfg.Storage = info.Storage // file, if it does not exist
		}
		cfg.Roster = cfg.Roster || info.Roster // the roster then gets the replicas of the bucket
		three := fresh && cfg.Replicas == 0 && s.Nc.ConnectedClusterName() != ""
		if three {
			cfg.Replicas = 3
		}
		_, err = leader.CreateOrUpdateBucket(ctx, s.Js, cfg)
		if three && (front.RefusedWith(err, front.CodeNoPeers) || front.RefusedWith(err, front.CodeNoCluster)) {
			cfg.Replicas = 1
			_, err = leader.CreateOrUpdateBucket(ctx, s.Js, cfg)
		}
		if err == nil {
			info, err = s.Bucket.Info(ctx)
		}
		return err
	})
	if err != nil {
		return refusedBucket(err)
	}
	kept, err := applyHistory(ctx, s, history, fresh)
	if err != nil {
		return front.Exitf(front.CodeOf(err), "bucket %s has its settings, but its history could not be set up: %w", g.Bucket, refusedBucket(err))
	}
	if err = showBucket(ctx, g, s, newBucketSummary(info, nil, kept), kept, asJSON); err != nil {
		return err
	}
	if alone := Alone(s, info.Replicas); alone != "" {
		_, _ = fmt.Fprintf(g.Errs(), "natsleader: %s: `natsleader bucket add %s --replicas 3`\n", alone, g.Bucket)
	}
	return nil
}

// Alone returns what is wrong with a bucket on one server of a cluster, or nothing.
func Alone(s *inspect.Inspector, replicas int) string {
	cluster := s.Nc.ConnectedClusterName()
	if replicas > 1 || cluster == "" {
		return ""
	}
	e := &inspect.Asker{Nc: s.Nc, Wait: min(s.Limit, time.Second)} // the number of servers that answer is not known
	names := map[string]bool{s.Nc.ConnectedServerName(): true}
	err := e.Gather(inspect.AskVersions(), func(reply []byte) bool {
		if got := inspect.StatusOf(reply); got.Server.Cluster == cluster && got.Server.JetStream {
			names[got.Server.Name] = true
		}
		return false
	})
	count := fmt.Sprintf("has %d servers", len(names))
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		count = "may have several servers"
	case len(names) == 1:
		return ""
	}
	return fmt.Sprintf("cluster %s %s, and the bucket is on one of them: while that is away nobody can lead; on three it survives the loss of one", front.Printable(cluster), count)
}

// refusedBucket is the error of a bucket that package leader refuses, with flags in
// place of the fields that they set.
func refusedBucket(err error) error {
	switch text := bucketPrefix.ReplaceAllString(front.ErrorText(err), ""); {
	case errors.Is(err, leader.ErrInvalidConfig):
		return front.ExitError{Code: front.CodeOf(err), Err: errors.New(bucketField.ReplaceAllStringFunc(text, func(field string) string { return bucketFlags[field] }))}
	case errors.Is(err, leader.ErrIncompatibleBucket):
		return front.ExitError{Code: front.CodeOf(err), Err: errors.New(adoptField.ReplaceAllString(text, "--adopt"))}
	case front.RefusedWith(err, front.CodeNoPeers):
		return front.Exitf(front.ExitUsage, "the cluster has too few servers with room for --replicas: %s", text)
	case bucketPrefix.MatchString(front.ErrorText(err)):
		return front.ExitError{Code: front.CodeOf(err), Err: errors.New(text)}
	}
	return err
}

var (
	bucketPrefix = regexp.MustCompile(`^(create (the roster of )?bucket [^:]*: |the bucket is not fit for this election: |invalid configuration: )+`)
	bucketFlags  = map[string]string{"MaxLease": "--max-lease", "Replicas": "--replicas", "TTL": "--ttl", "Adopt": "--adopt"}
	bucketField  = regexp.MustCompile(`\b(MaxLease|Replicas|TTL|Adopt)\b`)
	adoptField   = regexp.MustCompile(`\b(BucketConfig\.)?Adopt\b`)
)

func bucketInfo(ctx context.Context, g *front.Globals, s *inspect.Inspector, asJSON bool) error {
	info, unfit := inspect.Answer(ctx, s, s.Bucket.Info)
	if unfit != nil && !errors.Is(unfit, leader.ErrIncompatibleBucket) {
		return unfit
	}
	kept, err := readHistory(ctx, s)
	if err != nil {
		return err
	}
	return front.ExitIf(unfit != nil, front.ExitBucket, showBucket(ctx, g, s, newBucketSummary(info, unfit, kept), kept, asJSON))
}

// showBucket prints all that is known of a bucket.
func showBucket(ctx context.Context, g *front.Globals, s *inspect.Inspector, b bucketSummary, history keptHistory, asJSON bool) error {
	info, err := inspect.Answer(ctx, s, s.Info)
	if err != nil {
		return err
	}
	found := hazards.Bucket(info.Config, hazards.Elections, s.Name).Of(hazards.Unprotected)
	b.Unprotected = hazards.Join(found)
	b.protects = b.Fit && !slices.ContainsFunc(found, func(h hazards.Hazard) bool { return h.Remedy != "" })
	return front.PrintResult(g.Out(), asJSON, b, front.Columns(b.details(history)))
}

// details returns it for people.
func (b bucketSummary) details(history keptHistory) [][]string {
	rows := [][]string{{"Bucket:", b.Name}}
	if b.Description != "" {
		rows = append(rows, []string{"Description:", front.Printable(b.Description)})
	}
	if b.Domain != "" {
		rows = append(rows, []string{"Domain:", front.Printable(b.Domain)})
	}
	fit, protected, feed, roster := "yes", "yes: nothing but a delete marker removes a record", front.Printable(b.Feed)+".>", "none: candidates are not listed"
	if !b.Fit {
		fit = "no: " + b.Unfit
	}
	switch {
	case b.Unprotected != "":
		protected = "no: it " + b.Unprotected
		if b.protects {
			protected += fmt.Sprintf("; `natsleader bucket add %s` protects it", b.Name)
		}
	case !b.PurgeProtected:
		protected = "no"
	}
	if b.Feed == "" {
		feed = "none: each candidate needs a consumer"
	}
	if b.Roster {
		roster = "yes"
	}
	return append(rows,
		[]string{"Fit:", fit},
		[]string{"Protected:", protected},
		[]string{"Replicas:", fmt.Sprint(b.Replicas)},
		[]string{"Storage:", b.Storage},
		[]string{"Longest lease:", front.OrNone(b.maxLease, "unlimited")},
		[]string{"TTL:", front.OrNone(b.ttl, "none")},
		[]string{"Feed:", feed},
		[]string{"Roster:", roster},
		[]string{"History:", history.text()})
}

// bucketSummary describes a bucket for programs.
type bucketSummary struct {
	Name           string  `json:"name"`
	Description    string  `json:"description,omitempty"`
	Domain         string  `json:"domain,omitempty"` // of JetStream
	Fit            bool    `json:"fit"`
	Unfit          string  `json:"unfit,omitempty"` // why
	PurgeProtected bool    `json:"purge_protected"`
	Unprotected    string  `json:"unprotected,omitempty"` // how a record can vanish
	Replicas       int     `json:"replicas"`
	Storage        string  `json:"storage"`
	MaxLease       float64 `json:"max_lease_seconds,omitempty"`
	TTL            float64 `json:"ttl_seconds,omitempty"`
	MaxValue       int     `json:"max_value_bytes,omitempty"`
	Feed           string  `json:"feed_subject,omitempty"` // a dot and the key follow
	Roster         bool    `json:"roster"`

	History      float64 `json:"history_seconds,omitempty"`
	HistorySize  int64   `json:"history_size_bytes,omitempty"` // the most that it may take
	HistoryBytes uint64  `json:"history_bytes,omitempty"`

	maxLease, ttl time.Duration
	protects      bool // bucket add would
}

func newBucketSummary(info leader.BucketInfo, unfit error, history keptHistory) bucketSummary {
	s := bucketSummary{
		Name: info.Name, Description: info.Description, Domain: info.Domain, Fit: unfit == nil, PurgeProtected: info.PurgeProtected,
		Replicas: info.Replicas, Storage: front.StorageName(info.Storage), MaxLease: info.MaxLease.Seconds(),
		TTL: info.TTL.Seconds(), MaxValue: info.MaxValue, Feed: info.FeedSubject,
		Roster: info.Roster, History: history.age.Seconds(), HistorySize: history.size, HistoryBytes: history.bytes,
		maxLease: info.MaxLease, ttl: info.TTL,
	}
	if unfit != nil {
		s.Unfit = front.ErrorText(unfit)
	}
	return s
}

const bucketListHelp = `The keys are the elections, also those that no candidate stands in any more, and
notes. A bucket that natsleader has not made is shown with --all.

  natsleader bucket ls --json | jq -r '.[].name'`

func registerBucketList(bucket *fisk.CmdClause, g *front.Globals) {
	var asJSON, all bool
	cmd := bucket.Command("ls", "List the buckets for elections").Alias("list").HelpLong(bucketListHelp)
	cmd.Flag("all", "Also buckets that natsleader has not made").Short('a').UnNegatableBoolVar(&all)
	cmd.Flag("json", "Print JSON").Short('j').UnNegatableBoolVar(&asJSON)
	cmd.Action(func(*fisk.ParseContext) error {
		return inspect.Do(g, func(ctx context.Context, s *inspect.Inspector) error { return bucketList(ctx, g, s, all, asJSON) })
	})
}

func bucketList(ctx context.Context, g *front.Globals, s *inspect.Inspector, all, asJSON bool) error {
	found, err := inspect.Answer(ctx, s, s.Buckets)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(b inspect.ListedBucket) bool { return !all && !b.Elections })
	slices.SortFunc(found, func(a, b inspect.ListedBucket) int { return strings.Compare(a.Name, b.Name) })
	rows := [][]string{{"BUCKET", "KEYS", "REPLICAS", "STORAGE", "MAX LEASE", "TTL", "ROSTER", "HISTORY", "DESCRIPTION"}}
	for _, b := range found {
		rows = append(rows, b.Row())
	}
	lines := front.Columns(rows)
	if len(found) == 0 {
		lines = []string{"no bucket for elections"}
	}
	return front.PrintResult(g.Out(), asJSON, found, lines)
}
