//go:build field

package migration_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/kvelect"
	"github.com/natsleader/natsleader/leader"
)

func campaignForBilling(ctx context.Context, nc *nats.Conn, name string, log *slog.Logger, won func(context.Context), lost func()) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	bucket, err := leader.OpenBucket(js, "ELECTIONS") // not EnsureBucket: the bucket stays as it is
	if err != nil {
		return err
	}
	c, err := leader.Campaign(ctx, bucket, "billing", leader.Config{ID: name, Logger: log})
	if err != nil {
		return err
	}
	for term := range c.Terms() {
		won(term.Context()) // OnWon, which returns when the context has ended
		lost()              // OnLost
	}
	return c.Err()
}

// besideOldProcesses campaigns for the key of the old processes.
func besideOldProcesses(ctx context.Context, bucket leader.Store, name string) (*leader.Candidate, error) {
	return leader.Campaign(ctx, kvelect.Beside(bucket), "billing", leader.Config{ID: name})
}

// lastToken is the MinToken for the candidates of another bucket.
func lastToken(ctx context.Context, js jetstream.JetStream, old *leader.Bucket, name string) (uint64, error) {
	last, err := leader.Lookup(ctx, old, "billing")
	if err != nil {
		return 0, err
	}
	stream, err := js.Stream(ctx, "KV_"+name)
	if err != nil {
		return 0, err
	}
	return max(last.Token, stream.CachedInfo().State.LastSeq), nil
}

// connect starts a server, which ends with the test.
func connect(t *testing.T) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		DontListen: true, JetStream: true, StoreDir: testserver.StoreDir(t), NoSigs: true, NoLog: true,
	})
	check.OK(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	nc, err := nats.Connect("", nats.InProcessServer(s))
	check.OK(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	check.OK(t, err)
	return nc, js
}

// The bucket of the old processes serves as it is.
func TestOldBucket_ServesAsItIs(t *testing.T) {
	nc, js := connect(t)
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "ELECTIONS", TTL: 6 * time.Second})
	check.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	won, lost, ended := make(chan context.Context), make(chan struct{}), make(chan error)
	go func() {
		ended <- campaignForBilling(ctx, nc, "member 1", nil,
			func(term context.Context) { won <- term; <-term.Done() }, func() { close(lost) })
	}()
	term := <-won // one TTL later: the key is absent, and may have expired a moment ago
	cancel()
	<-lost
	if cause := context.Cause(term); !errors.Is(cause, leader.ErrStopped) {
		t.Error(cause)
	}
	if err = <-ended; err != nil {
		t.Error(err)
	}
	status, err := kv.Status(t.Context())
	if err != nil || status.TTL() != 6*time.Second {
		t.Errorf("the bucket has another TTL: %v, %v", status, err)
	}
}

// Beside old processes, a win is pending for one TTL.
func TestOldProcesses_PendingWin(t *testing.T) {
	f := newFake(t)
	f.store = leadertest.NewStore(f.clock, leadertest.WithTTL(30*time.Second))
	f.store.Put("billing", []byte("member 1"))
	c, err := besideOldProcesses(t.Context(), f.store.Link("new"), "new")
	check.OK(t, err)
	t.Cleanup(func() {
		f.store.Link("new").Close()
		<-c.Done()
	})
	w := leadertest.Watch(t, f.clock, c)
	f.clock.Advance(30 * time.Second) // member 1 is dead, and its record expires
	w.Ignore(leadertest.Observed()).ExpectExactly(leadertest.Pending())
	f.clock.Advance(29 * time.Second)
	w.ExpectExactly()
	f.clock.Advance(10 * time.Second)
	w.ExpectExactly(leadertest.Elected())
}

// A record of the old processes is foreign, and no candidate overwrites it while it is
// renewed.
func TestOldRecord_IsForeign(t *testing.T) {
	f := newFake(t)
	f.store = leadertest.NewStore(f.clock, leadertest.WithTTL(30*time.Second))
	f.store.Put("billing", []byte("member 1"))
	_, w := f.stand("billing", "new")
	for range 10 {
		f.clock.Advance(22500 * time.Millisecond) // their interval: 75% of the TTL
		f.store.Put("billing", []byte("member 1"))
	}
	foreign := leadertest.Match("Observed a foreign record", func(e leader.Event) bool {
		o, ok := e.(leader.Observed)
		return ok && o.Holder.State == leader.HolderForeign
	})
	w.Expect(foreign)
	w.Ignore(leadertest.Observed(), leadertest.Faulted(leader.ErrForeignRecord)).ExpectExactly()
}

// CreateOrUpdateBucket removes the TTL from the bucket of the old processes, and tokens go on.
func TestOldBucket_Converted(t *testing.T) {
	_, js := connect(t)
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "ELECTIONS", TTL: 30 * time.Second})
	check.OK(t, err)
	last, err := kv.Put(t.Context(), "billing", []byte("member 1"))
	check.OK(t, err)
	cfg := leader.BucketConfig{Name: "ELECTIONS", MaxLease: time.Second}
	if _, err = leader.CreateOrUpdateBucket(t.Context(), js, cfg); !errors.Is(err, leader.ErrIncompatibleBucket) {
		t.Errorf("while an old process may lead: %v", err)
	}
	cfg.Adopt = true
	bucket, err := leader.CreateOrUpdateBucket(t.Context(), js, cfg)
	check.OK(t, err)
	info, err := bucket.Info(t.Context())
	if err != nil || !info.PurgeProtected || info.TTL != 0 {
		t.Errorf("%+v, %v", info, err)
	}
	h, err := leader.Lookup(t.Context(), bucket, "billing")
	if err != nil || h.State != leader.HolderForeign || h.Revision != last {
		t.Errorf("%+v, %v", h, err)
	}
	if token := reign(t, bucket, leader.Config{}); token <= last {
		t.Errorf("token %d, and there is a revision %d", token, last)
	}
}

// A marker for an expired record keeps old processes out. The old processes use the older
// of the two APIs of nats.go.
func TestExpiryMarker_OldProcesses(t *testing.T) {
	nc, js := connect(t)
	old, err := nc.JetStream()
	check.OK(t, err)
	for _, marker := range []time.Duration{0, time.Hour} {
		name := fmt.Sprintf("ELECTIONS%d", marker/time.Hour)
		_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: name, TTL: time.Second, LimitMarkerTTL: marker})
		check.OK(t, err)
		kv, err := old.KeyValue(name)
		check.OK(t, err)
		if _, err = kv.Create("billing", []byte("member 1")); err != nil {
			t.Fatal(err)
		}
		stream, err := js.Stream(t.Context(), "KV_"+name)
		check.OK(t, err)
		limit := time.Now().Add(time.Minute)
		for range time.Tick(10 * time.Millisecond) { // until the record is gone, or a marker in its place
			info, failed := stream.Info(t.Context())
			if failed != nil || time.Now().After(limit) {
				t.Fatal("nothing expires", failed)
			}
			if info.State.Msgs == 0 || info.State.LastSeq > 1 {
				break
			}
		}
		_, err = kv.Create("billing", []byte("member 2"))
		if kept := errors.Is(err, nats.ErrKeyExists); kept != (marker > 0) {
			t.Errorf("marker for %v: %v", marker, err)
		}
	}
}

// The tokens of a new bucket go on with MinToken.
func TestMinToken_TokensGoOn(t *testing.T) {
	_, js := connect(t)
	old, err := leader.CreateOrUpdateBucket(t.Context(), js, leader.BucketConfig{Name: "old"})
	check.OK(t, err)
	var last uint64
	for range 3 {
		last = reign(t, old, leader.Config{})
	}
	least, err := lastToken(t.Context(), js, old, "old")
	check.OK(t, err)
	bucket, err := leader.CreateOrUpdateBucket(t.Context(), js, leader.BucketConfig{Name: "elections"})
	check.OK(t, err)
	if next := reign(t, bucket, leader.Config{MinToken: least}); next <= last {
		t.Errorf("token %d after %d", next, last)
	}
}

// The last token is that of the record that was given up. The token is ahead of the
// bucket's revisions, and only the record has it.
func TestLastToken_IsOfReleasedRecord(t *testing.T) {
	_, js := connect(t)
	_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "ELECTIONS", TTL: 6 * time.Second})
	check.OK(t, err)
	bucket, err := leader.OpenBucket(js, "ELECTIONS")
	check.OK(t, err)
	token := reign(t, kvelect.Beside(bucket), leader.Config{MinToken: 1000})
	if token != 1001 {
		t.Errorf("token %d", token)
	}
	h, err := leader.Lookup(t.Context(), bucket, "billing")
	if err != nil || h.State != leader.HolderReleased || h.Token != token {
		t.Errorf("%+v, %v", h, err)
	}
	last, err := lastToken(t.Context(), js, bucket, "ELECTIONS")
	if err != nil || last != token {
		t.Errorf("%d, %v", last, err)
	}
}

// reign leads for a moment, and returns the term's token.
func reign(t *testing.T, bucket leader.Store, cfg leader.Config) uint64 {
	t.Helper()
	c, err := leader.Campaign(t.Context(), bucket, "billing", cfg)
	check.OK(t, err)
	token := await(t, c).Token()
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	return token
}
