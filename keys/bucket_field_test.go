//go:build field

package keys_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/keyset"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/keys"
	"github.com/natsleader/natsleader/leader"
)

// follower follows a bucket on a server.
type follower struct {
	*testing.T
	changes chan keyset.Change
	ended   chan error
	end     context.CancelFunc
}

func follow(t *testing.T, b keyset.Bucket) *follower {
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{t, make(chan keyset.Change), make(chan error, 1), cancel}
	go func() {
		f.ended <- b.Follow(ctx, []string{"t.*"}, func(c keyset.Change) {
			select {
			case f.changes <- c:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(cancel)
	return f
}

// shows checks the next changes, "Remade" for example, or the key that was put.
func (f *follower) shows(want ...string) {
	f.Helper()
	for _, w := range want {
		c := check.Comes(f, w, f.changes)
		got := map[keyset.Kind]string{keyset.Put: c.Name, keyset.Gone: "no " + c.Name, keyset.Listed: "Listed", keyset.Remade: "Remade", keyset.Away: "Away"}[c.Kind]
		check.Equal(f, got, w, "%s")
	}
}

// stop ends the follower.
func (f *follower) stop() {
	f.end()
	check.Is(f, check.Comes(f, "the end of Follow", f.ended), context.Canceled)
}

// The changes of a bucket: a loss of the connection ends Follow, and the list has the last revision of the bucket.
func TestBucket_Follow(t *testing.T) {
	c := newCrew(t, "")
	c.put(0, 2, "1")
	nc := c.connect()
	b := check.Got(keys.OpenBucket(check.Got(jetstream.New(nc))(t), "tenants"))(t).KeySet()
	f := follow(t, b)
	f.shows("t.0", "t.1")
	status := check.Got(c.kv.Status(t.Context()))(t).(*jetstream.KeyValueBucketStatus)
	check.Equal(t, check.Comes(t, "Listed", f.changes).Revision, status.StreamInfo().State.LastSeq, "the last revision is %d")
	check.OK(t, c.kv.Delete(t.Context(), "t.0"))
	f.shows("no t.0")
	check.OK(t, nc.ForceReconnect())
	f.shows("Away")
	check.OK(t, check.Comes(t, "the end of Follow", f.ended))
	f = follow(t, b)
	f.shows("t.1", "no t.0", "Listed")
	f.stop()
}

// Each set that shares a bucket learns that it was made again, and the first call of Follow says nothing of it.
func TestBucket_RemadeForEachSet(t *testing.T) {
	defer keys.SetLookEach(keys.SetLookEach(50 * time.Millisecond))
	c := newCrew(t, "")
	js := check.Got(jetstream.New(c.connect()))(t)
	shared := check.Got(keys.OpenBucket(js, "tenants"))(t)
	sets := []keyset.Bucket{shared.KeySet(), shared.KeySet()}
	var followers []*follower
	for _, b := range sets {
		f := follow(t, b)
		f.shows("Listed")
		followers = append(followers, f)
	}
	check.OK(t, js.DeleteKeyValue(t.Context(), "tenants"))
	c.kv = check.Got(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "tenants"}))(t)
	c.put(0, 1, "1")
	for i, b := range sets {
		t.Log(<-followers[i].ended) // with an error, or without one if the look came after the bucket was made again
		f := follow(t, b)
		f.shows("Remade", "t.0", "Listed")
		f.stop()
	}
}

// A watch that ends while many messages wait leaves no goroutine behind.
func TestBucket_EndsWhileMessagesWait(t *testing.T) {
	c := newCrew(t, "")
	c.put(0, 2000, "1")
	b := check.Got(keys.OpenBucket(check.Got(jetstream.New(c.connect()))(t), "tenants"))(t).KeySet()
	check.OK(t, b.Check(t.Context())) // which starts the goroutine for replies of the connection
	before := goleak.IgnoreCurrent()
	f := follow(t, b)
	f.shows("t.0")
	f.stop()
	goleak.VerifyNone(t, before)
}

// Follow returns the error of its context, also if it sees the end of the watch first, which ends with the context.
func TestBucket_EndsWithItsWatch(t *testing.T) {
	c := newCrew(t, "")
	nc := c.connect()
	b := check.Got(keys.OpenBucket(check.Got(jetstream.New(nc))(t), "tenants"))(t).KeySet()
	check.OK(t, b.Check(t.Context()))
	before := nc.NumSubscriptions()
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		check.Is(t, b.Follow(ctx, []string{"t.*"}, func(keyset.Change) {
			cancel()
			testcluster.Eventually(t, "the end of the watch", func() bool { return nc.NumSubscriptions() == before })
		}), context.Canceled)
	}
}

// A bucket whose keys expire without a marker is refused, also if it gets its TTL later. One with markers shows what expires.
func TestBucket_Expires(t *testing.T) {
	defer keys.SetLookEach(keys.SetLookEach(50 * time.Millisecond))
	c := newCrew(t, "")
	js := check.Got(jetstream.New(c.connect()))(t)
	groups := check.Got(leader.OpenBucket(js, "groups"))(t)
	open := func(name string) keys.Bucket { return check.Got(keys.OpenBucket(js, name))(t) }
	f := follow(t, open("tenants").KeySet())
	f.shows("Listed")
	s := check.Got(js.Stream(t.Context(), "KV_tenants"))(t).CachedInfo().Config
	s.MaxAge, s.AllowMsgTTL, s.SubjectDeleteMarkerTTL = time.Hour, false, 0
	if _, err := js.UpdateStream(t.Context(), s); err != nil { // AllowMsgTTL cannot be taken back
		s.AllowMsgTTL = true
		check.OK(t, check.Err(js.UpdateStream(t.Context(), s)))
	}
	check.Is(t, check.Comes(t, "the end of Follow", f.ended), leader.ErrIncompatibleBucket)
	_, err := keys.Join(t.Context(), groups, "tenants", keys.Config{Bucket: open("tenants"), Filter: "t.*"})
	check.Is(t, err, leader.ErrIncompatibleBucket)
	check.OK(t, check.Err(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "expire", TTL: 2 * time.Second, LimitMarkerTTL: time.Hour})))
	c.kv = check.Got(js.KeyValue(t.Context(), "expire"))(t)
	c.put(0, 1, "1")
	f = follow(t, open("expire").KeySet())
	f.shows("t.0", "Listed", "no t.0")
	f.stop()
}

// A bucket that takes keys with a TTL and makes no markers for them is refused. With markers it shows what expires.
func TestBucket_KeysExpire(t *testing.T) {
	c := newCrew(t, "")
	js := check.Got(jetstream.New(c.connect()))(t)
	cfg := jetstream.KeyValueConfig{Bucket: "expire", LimitMarkerTTL: time.Hour}
	kv := check.Got(js.CreateKeyValue(t.Context(), cfg))(t)
	s := check.Got(js.Stream(t.Context(), "KV_expire"))(t).CachedInfo().Config
	s.SubjectDeleteMarkerTTL = 0
	check.OK(t, check.Err(js.UpdateStream(t.Context(), s)))
	b := check.Got(keys.OpenBucket(js, "expire"))(t).KeySet()
	check.Says(t, b.Check(t.Context()), leader.ErrIncompatibleBucket, "keys with a TTL expire without a sign")
	check.OK(t, check.Err(js.UpdateKeyValue(t.Context(), cfg)))
	check.OK(t, b.Check(t.Context()))
	check.OK(t, check.Err(kv.Create(t.Context(), "t.0", nil, jetstream.KeyTTL(time.Second))))
	f := follow(t, b)
	f.shows("t.0", "Listed", "no t.0")
	f.stop()
}

// Two sets of one process share a bucket that is made again: both go on.
func TestServer_SharedBucketMadeAgain(t *testing.T) {
	defer keys.SetLookEach(keys.SetLookEach(100 * time.Millisecond))
	for _, guards := range []string{"", "guards"} {
		t.Run("guards="+guards, func(t *testing.T) {
			c := newCrew(t, guards)
			js := check.Got(jetstream.New(c.connect()))(t)
			c.shared = check.Got(keys.OpenBucket(js, "tenants"))(t)
			c.put(0, 20, "1")
			c.start("a")
			c.start("b")
			c.have("a cold start", 20)
			check.OK(t, js.DeleteKeyValue(t.Context(), "tenants"))
			c.kv = check.Got(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "tenants"}))(t)
			c.put(10, 40, "2")
			c.eventually("work on the keys of the new bucket", func() bool {
				for i := range 40 {
					if k := c.works[fmt.Sprint("t.", i)]; (k != nil) != (i >= 10) || k != nil && string(k.Entry().Value) != "2" {
						return false
					}
				}
				return true
			})
		})
	}
}

// The keys are not in the bucket of the group.
func TestJoin_RejectsTheBucketOfTheGroup(t *testing.T) {
	js := check.Got(jetstream.New(newCrew(t, "").connect()))(t)
	_, err := keys.Join(t.Context(), check.Got(leader.OpenBucket(js, "groups"))(t), "tenants", keys.Config{
		Bucket: check.Got(keys.OpenBucket(js, "groups"))(t), Filter: "t.*",
	})
	check.Says(t, err, leader.ErrInvalidConfig, "is that of the group")
}
