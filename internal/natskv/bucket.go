// Package natskv is the port of package leader to NATS: a JetStream key-value bucket as the store of its
// candidates, the feed of a key, the roster, and requests to a leader.
//
// Its files:
//
//	bucket.go       a bucket of elections: opening, creating, Info
//	config.go       the stream configuration of a bucket: settings, defaults, purge-protected or not, fit or not
//	ensure.go       EnsureBucket: candidates create a bucket that does not exist, and report one that differs;
//	                CreateOrUpdateBucket: the roster first, then the bucket, and a roster of a bucket that was
//	                refused is deleted
//	domain.go       the JetStream domain that a bucket belongs to
//	adopt.go        checks of an existing bucket before it is changed
//	store.go        settings, reads and writes of a key; entries of the port as entries of a KV bucket, and back
//	stepdown.go     step-down requests over NATS
//	cordon.go       the cordon of a bucket, as its candidates in one process share it
//	roster.go       the bucket of the roster: announcements and views
//	feed.go         one candidate's feed of a key; the ephemeral consumer for buckets that do not republish
//	opening.go      a feed and a read at once
//	foresee.go      what the first answers for a lock will be
//	feed_source.go  the shared subscription of a key, and the hub that keeps them
package natskv

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
)

// Bucket is a bucket of elections on a NATS server: the port of package leader's candidates to
// their bucket. Its methods do not check the keys, because package leader does.
type Bucket struct {
	api    jsapi.Stream
	name   string
	pre    string // prefix of a key's subject in the stream
	put    string // prefix of the subject to which a key is written
	direct string // prefix of the subject from which a key is read, where direct gets are allowed

	feedPrefix string  // given to WithFeed; empty: the stream names it
	ensure     *Config // given to ensureStore; nil: a bucket that does not exist is not created
	made       *latch  // open once candidates have created the bucket; nil: they do not

	home       *atomic.Pointer[string] // the domain in which the bucket was first found
	unanswered atomic.Int32            // direct gets in a row
	warned     atomic.Bool             // see GivesUp

	hub    hub
	roster rosterBucket
	cordon cordonHolder
	memory backend.Memory // of what they have seen
	freed  backend.Memory // of the locks that they have freed, or taken
	crew   backend.Crew
}

// Config holds the settings that leader.BucketConfig describes.
type Config struct {
	Name        string
	Description string
	Replicas    int
	Storage     jetstream.StorageType
	MaxLease    time.Duration
	TTL         time.Duration
	Placement   *jetstream.Placement
	Roster      bool
	Adopt       bool
}

// Info holds the settings that leader.BucketInfo describes.
type Info struct {
	Name           string
	Description    string
	Replicas       int
	Storage        jetstream.StorageType
	Placement      *jetstream.Placement
	PurgeProtected bool
	MaxLease       time.Duration
	TTL            time.Duration
	MaxValue       int
	FeedSubject    string
	Roster         bool
	Domain         string
}

// Open returns the bucket of that name. It sends no request.
func Open(js jetstream.JetStream, name string) (*Bucket, error) {
	if err := jsapi.CheckJetStream(js); err != nil {
		return nil, err
	}
	if err := jsapi.CheckBucketName(name); err != nil {
		return nil, err
	}
	b := &Bucket{name: name, pre: "$KV." + name + ".", home: new(atomic.Pointer[string])}
	b.api.Init(js, "KV_"+b.name)
	b.api.Make = "make it with leader.CreateOrUpdateBucket or leader.EnsureBucket, or by `natsleader bucket add " + b.name + "`"
	b.api.Again = "stop all candidates, or wait for one MaxLease, before you make it again"
	b.direct = b.api.Prefix + "DIRECT.GET." + b.api.Name + "." + b.pre
	b.put = b.api.PutPrefix(b.pre)
	b.roster.open(js, b.name)
	return b, nil
}

// WithFeed returns another Bucket for the same bucket. Its feeds subscribe below prefix.
func (b *Bucket) WithFeed(prefix string) (*Bucket, error) {
	if err := jsapi.CheckSubject("the prefix of the feed", prefix); err != nil {
		return nil, err
	}
	other, err := Open(b.api.JS, b.name)
	if err != nil {
		return nil, err
	}
	other.feedPrefix, other.ensure, other.made, other.api.Seen, other.home = prefix, b.ensure, b.made, b.api.Seen, b.home
	return other, nil
}

// Create creates the bucket, or brings an existing one to these settings.
func Create(ctx context.Context, js jetstream.JetStream, cfg Config) (*Bucket, error) {
	b, err := Open(js, cfg.Name)
	if err != nil {
		return nil, err
	}
	if err = cfg.check(); err != nil {
		return nil, err
	}
	ctx, cancel := deadline.Limit(ctx)
	defer cancel()
	if err = b.establish(ctx, cfg); err != nil {
		return nil, fmt.Errorf("create bucket %s: %w", cfg.Name, err)
	}
	return b, nil
}

// Name returns the name of the bucket.
func (b *Bucket) Name() string { return b.name }

// GivesUp reports, once, that the connection gives up reconnecting, and after how many tries.
func (b *Bucket) GivesUp() (tries int, once bool) {
	tries, forever := b.api.Reconnects()
	return tries, !forever && b.warned.CompareAndSwap(false, true)
}

// LastError returns the last error of the connection.
func (b *Bucket) LastError() error { return b.api.LastError() }

// ConnError returns why requests found the connection down when they last tried, a backend.ConnError or nil.
func (b *Bucket) ConnError() error { return b.api.ConnError() }

// Info reads the settings of the bucket from the server.
func (b *Bucket) Info(ctx context.Context) (Info, error) {
	ctx, cancel := deadline.Limit(ctx)
	defer cancel()
	info, err := b.api.Info(ctx)
	if err != nil {
		return Info{Name: b.name}, err
	}
	c := info.Config
	bi := Info{
		Name: b.name, Description: c.Description, Replicas: c.Replicas, Storage: c.Storage,
		Placement: c.Placement, TTL: c.MaxAge, PurgeProtected: elections(c, b.name).Protected(),
	}
	if prefix, ok := b.feedOf(c); ok {
		bi.FeedSubject = prefix
	}
	s, err := b.judge(c, b.api.MaxPayload())
	bi.Domain = b.Domain()
	bi.MaxLease, bi.MaxValue = s.MaxLease, s.MaxValue
	// A client that needs no roster needs no permission to read its settings.
	bi.Roster = c.Metadata[wire.RosterKey] != "" && !b.roster.isMissing(ctx)
	return bi, err
}
