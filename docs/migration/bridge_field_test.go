//go:build field

package migration_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// bucketOf returns the bucket of a KeyValue of package jetstream or of the legacy nats.JetStreamContext.
func bucketOf(nc *nats.Conn, kv interface{ Bucket() string }) (*leader.Bucket, error) {
	js, err := jetstream.New(nc) // where there is a domain or a prefix: NewWithDomain, NewWithAPIPrefix
	if err != nil {
		return nil, err
	}
	return leader.OpenBucket(js, kv.Bucket())
}

// bucketLike returns a bucket that must exist, and must have the TTL and the MaxLease of want.
func bucketLike(ctx context.Context, js jetstream.JetStream, want leader.BucketConfig) (*leader.Bucket, error) {
	bucket, err := leader.OpenBucket(js, want.Name)
	if err != nil {
		return nil, err
	}
	is, err := bucket.Info(ctx)
	if err == nil && (is.TTL != want.TTL || is.MaxLease != want.MaxLease) {
		err = fmt.Errorf("bucket %s has TTL %v and MaxLease %v, not %v and %v", is.Name, is.TTL, is.MaxLease, want.TTL, want.MaxLease)
	}
	return bucket, err
}

// A bucket is found by a KeyValue of either API, and one with other settings stops the program.
func TestBridges(t *testing.T) {
	nc, js := connect(t)
	want := leader.BucketConfig{Name: "elections", TTL: 6 * time.Second}
	check.Is(t, check.Err(bucketLike(t.Context(), js, want)), leader.ErrNoBucket)
	kv := check.Got(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: want.Name, TTL: want.TTL}))(t)
	old := check.Got(check.Got(nc.JetStream())(t).KeyValue(want.Name))(t)
	for _, has := range []interface{ Bucket() string }{kv, old} {
		bucket := check.Got(bucketOf(nc, has))(t)
		check.Equal(t, check.Got(bucket.Info(t.Context()))(t).TTL, want.TTL, "%v")
	}
	check.OK(t, check.Err(bucketLike(t.Context(), js, want)))
	want.TTL = time.Minute
	err := check.Err(bucketLike(t.Context(), js, want))
	check.That(t, err != nil && err.Error() == "bucket elections has TTL 6s and MaxLease 0s, not 1m0s and 0s", "%v", err)
}
