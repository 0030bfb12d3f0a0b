package natskv

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/hazards"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// minTTL is the least MaxAge of a stream (nats-server, checkStreamCfg).
const minTTL = 100 * time.Millisecond

// check returns an error for the first setting that cannot work. The error names the
// relation that does not hold.
func (c Config) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{backend.ErrInvalidConfig}, args...)...)
	}
	switch {
	case c.Replicas != 0 && c.Replicas != 1 && c.Replicas != 3 && c.Replicas != 5:
		return bad("Replicas %d is not 1, 3 or 5", c.Replicas)
	case c.Storage != jetstream.FileStorage && c.Storage != jetstream.MemoryStorage:
		return bad("Storage %d is neither jetstream.FileStorage nor jetstream.MemoryStorage", int(c.Storage))
	case c.TTL < 0:
		return bad("TTL %v is negative", c.TTL)
	case c.TTL > 0 && c.TTL < minTTL:
		return bad("TTL %v is less than %v, the least that NATS takes", c.TTL, minTTL)
	case c.TTL > record.MaxLease:
		return bad("TTL %v is more than %v", c.TTL, record.MaxLease)
	case c.MaxLease < 0:
		return bad("MaxLease %v is negative", c.MaxLease)
	case c.TTL > 0 && c.MaxLease >= c.TTL:
		return bad("MaxLease %v is not less than TTL %v", c.MaxLease, c.TTL)
	case c.MaxLease != 0 && c.MaxLease < leastMaxLease:
		return bad("MaxLease %v is less than %v", c.MaxLease, leastMaxLease)
	case c.MaxLease > wire.MostMaxLease:
		return bad("MaxLease %v is more than %v", c.MaxLease, wire.MostMaxLease)
	}
	return nil
}

// maxLease returns MaxLease, or its default for a stream with that metadata.
func (c Config) maxLease(metadata map[string]string) time.Duration {
	if c.MaxLease > 0 {
		return c.MaxLease
	}
	if d, err := parseMaxLease(metadata); err == nil && d > 0 && (c.TTL == 0 || d < c.TTL) {
		return d
	}
	return wire.Lease(0, c.TTL)
}

func parseMaxLease(metadata map[string]string) (time.Duration, error) {
	text, ok := metadata[wire.MaxLeaseKey]
	if !ok {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > record.MaxLease {
		return 0, fmt.Errorf("%w: the metadata %s %q is not a duration between 0 and %v",
			backend.ErrIncompatibleBucket, wire.MaxLeaseKey, text, record.MaxLease)
	}
	return d, nil
}

// newStream returns the configuration of a bucket that does not exist yet.
func (c Config) newStream() jetstream.StreamConfig {
	conf := jetstream.StreamConfig{
		Name: "KV_" + c.Name, Subjects: []string{"$KV." + c.Name + ".>"},
		MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1,
		Storage: c.Storage, Replicas: 1, Duplicates: jsapi.DuplicateWindow, FirstSeq: jsapi.FirstRevision(),
	}
	c.apply(&conf)
	return conf
}

// apply sets the settings that the bucket's promises rest on, and keeps all others.
func (c Config) apply(conf *jetstream.StreamConfig) {
	ttl := c.TTL > 0
	conf.MaxMsgsPerSubject = 1
	conf.Discard, conf.DiscardNewPerSubject = jetstream.DiscardNew, false
	conf.AllowDirect = true
	conf.DenyDelete, conf.DenyPurge = true, !ttl
	conf.MaxAge = c.TTL
	conf.AllowRollup, conf.AllowMsgTTL = ttl, ttl
	conf.SubjectDeleteMarkerTTL = 0
	if ttl {
		// Markers live for whole seconds, and at least one (ADR-43).
		conf.SubjectDeleteMarkerTTL = (c.TTL + time.Second - 1).Truncate(time.Second)
		conf.Duplicates = min(conf.Duplicates, c.TTL)
	}
	conf.Metadata = maps.Clone(conf.Metadata)
	if conf.Metadata == nil {
		conf.Metadata = make(map[string]string)
	}
	conf.Metadata[wire.MaxLeaseKey] = c.maxLease(conf.Metadata).String()
	if c.Roster {
		conf.Metadata[wire.RosterKey] = wire.RosterName(c.Name)
	}
	if conf.RePublish == nil {
		conf.RePublish = &jetstream.RePublish{
			Source:      "$KV." + c.Name + ".>",
			Destination: wire.FeedPrefix + c.Name + ".>",
		}
	}
	if c.Description != "" {
		conf.Description = c.Description
	}
	if c.Replicas != 0 {
		conf.Replicas = c.Replicas
	}
	if c.Placement != nil {
		conf.Placement = c.Placement
	}
}

// reshape returns the configuration of an existing stream with these settings, and
// reports whether anything changes.
func (c Config) reshape(old jetstream.StreamConfig) (conf jetstream.StreamConfig, changed bool, err error) {
	conf = old
	c.apply(&conf)
	unfit := func(reason string) error {
		return fmt.Errorf("%w: stream %s exists and %s", backend.ErrIncompatibleBucket, old.Name, reason)
	}
	// Some settings cannot be taken back: nats-server, stream.go, jsConfigUpdateCheck.
	switch reason := elections(conf, c.Name).Refusal(); {
	case reason != "":
		return conf, false, unfit(reason)
	case old.Storage != c.Storage:
		return conf, false, unfit(fmt.Sprintf("is stored in %v, which cannot be changed to %v", old.Storage, c.Storage))
	case c.TTL == 0 && old.AllowMsgTTL:
		return conf, false, unfit("allows message TTLs (or a TTL with markers), which cannot be taken back, so it cannot be purge-protected: give it a TTL, or another name")
	case c.TTL == 0 && old.AllowMsgSchedules:
		return conf, false, unfit("allows message schedules, which cannot be taken back and need roll-ups, so it cannot be purge-protected")
	case c.TTL > 0 && old.DenyPurge:
		return conf, false, unfit("denies purges, which cannot be taken back, so it cannot have a TTL")
	}
	if _, ok := republished(conf, c.Name); !ok {
		return conf, false, unfit(fmt.Sprintf("republishes %q to %q already, which is no use as a feed", conf.RePublish.Source, conf.RePublish.Destination))
	}
	return conf, !reflect.DeepEqual(conf, old), nil
}

// elections is a stream, to be judged as that of a bucket for elections.
func elections(c jetstream.StreamConfig, bucket string) hazards.Stream {
	return hazards.Bucket(c, hazards.Elections, bucket)
}

// settings returns the settings of a bucket's stream that a candidate needs, for a
// connection that takes messages of up to payload bytes, 0 for unlimited. Error:
// [ErrIncompatibleBucket].
func settings(c jetstream.StreamConfig, bucket string, payload int64) (backend.Settings, error) {
	s := backend.Settings{PurgeProtected: elections(c, bucket).Protected(), TTL: c.MaxAge}
	largest := int64(math.MaxInt64)
	if c.MaxMsgSize > 0 {
		largest, s.Limit = int64(c.MaxMsgSize), fmt.Sprintf("the bucket's MaxMsgSize %d", c.MaxMsgSize)
	}
	if 0 < payload && payload < largest {
		largest, s.Limit = payload, fmt.Sprintf("the server's max_payload %d", payload)
	}
	if largest < math.MaxInt64 {
		s.MaxValue = int(max(largest-int64(wire.Headroom), 1)) // 0 would mean unlimited
	}
	if reason := elections(c, bucket).Refusal(); reason != "" {
		return s, fmt.Errorf("%w: stream %s %s", backend.ErrIncompatibleBucket, c.Name, reason)
	}
	if s.TTL > record.MaxLease {
		return s, fmt.Errorf("%w: stream %s has a TTL of %v, more than %v", backend.ErrIncompatibleBucket, c.Name, s.TTL, record.MaxLease)
	}
	var err error
	s.MaxLease, err = parseMaxLease(c.Metadata)
	return s, err
}

// republished returns the prefix of the feed subjects of a stream's keys. It returns
// false unless the stream republishes all keys, whole, to subjects that end like those of
// the keys.
func republished(c jetstream.StreamConfig, bucket string) (prefix string, ok bool) {
	r := c.RePublish
	if r == nil || r.HeadersOnly {
		return "", false
	}
	source := r.Source
	if source == "" {
		source = ">"
	}
	if !jsapi.Covers(source, "$KV."+bucket+".>") {
		return "", false
	}
	// Source and destination end in a full wildcard and have no other, so that one maps.
	rest := strings.TrimPrefix("$KV."+bucket, strings.TrimSuffix(source, ">"))
	if source == "$KV."+bucket+".>" {
		rest = ""
	}
	dest, ok := strings.CutSuffix(r.Destination, ".>")
	if strings.Contains(source, "*") || !ok {
		return "", false
	}
	if rest != "" {
		dest += "." + rest
	}
	return dest, jsapi.CheckSubject("the destination", dest) == nil
}

// feedOf returns the prefix of the feed subjects to subscribe to, or false if there are
// none.
func (b *Bucket) feedOf(c jetstream.StreamConfig) (prefix string, ok bool) {
	if b.feedPrefix != "" {
		return b.feedPrefix, c.RePublish == nil || !c.RePublish.HeadersOnly
	}
	return republished(c, b.name)
}
