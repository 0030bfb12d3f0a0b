package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	redisserver "github.com/alicebob/miniredis/v2/server"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func redsyncSystem() system {
	of := func(lease time.Duration) settings {
		return settings{Lease: lease, Renew: lease / 3, Poll: 250 * time.Millisecond, Late: 2 * time.Second}
	}
	return system{
		name:      "redsync",
		libraries: []string{"github.com/go-redsync/redsync/v4", "github.com/redis/go-redis/v9", "github.com/alicebob/miniredis/v2"},
		serve:     serveRedis,
		ready:     30 * time.Millisecond,
		dial: func(addr string, s settings) (client, error) {
			quietRedis()
			rc := redis.NewClient(&redis.Options{Addr: addr})
			if err := rc.Ping(context.Background()).Err(); err != nil { // connects
				return nil, errors.Join(err, rc.Close())
			}
			return &redsyncClient{rc: rc, rs: redsync.New(goredis.NewPool(rc)), lease: s.Lease}, nil
		},
		usual: of(8 * time.Second),
		short: of(time.Second),
	}
}

// quietRedis drops what go-redis logs about connections that this program closes.
var quietRedis = sync.OnceFunc(func() { redis.SetLogger(redisSilence{}) })

type redisSilence struct{}

func (redisSilence) Printf(context.Context, string, ...any) {}

// redisServer is a Redis in Go, in memory.
type redisServer struct {
	m     *miniredis.Miniredis
	count atomic.Uint64
}

// ofScripts are the commands that the scripts of redsync call. Its clients send none of them.
var ofScripts = []string{"GET", "PEXPIRE", "DEL"}

func serveRedis() (server, error) {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		return nil, err
	}
	m.ClockTTL(true)
	r := &redisServer{m: m}
	m.Server().SetPreHook(func(_ *redisserver.Peer, cmd string, _ ...string) bool {
		if !slices.Contains(ofScripts, cmd) {
			r.count.Add(1)
		}
		return false
	})
	return r, nil
}

func (r *redisServer) addr() string     { return r.m.Addr() }
func (r *redisServer) requests() uint64 { return r.count.Load() }

func (r *redisServer) close() { r.m.Close() }

type redsyncClient struct {
	rc    *redis.Client
	rs    *redsync.Redsync
	lease time.Duration
}

func (c *redsyncClient) close() { _ = c.rc.Close() }

func (c *redsyncClient) campaign(election, _ string) candidate {
	r := &redsyncCandidate{mutex: c.rs.NewMutex(election, redsync.WithExpiry(c.lease))}
	r.start(func(ctx context.Context) { r.run(ctx, c.lease/3) })
	return r
}

// redsyncCandidate is the loop that an application writes around a mutex: lock, then extend at
// intervals of a third of the expiry. It leads until Mutex.Until.
type redsyncCandidate struct {
	running
	mutex *redsync.Mutex

	mu    sync.Mutex
	until time.Time
}

func (r *redsyncCandidate) run(ctx context.Context, every time.Duration) {
	if (redsyncLock{r.mutex}).take(ctx) != nil {
		return
	}
	r.extended()
	r.set()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			ok, err := r.mutex.ExtendContext(ctx)
			switch {
			case ok:
				r.extended()
			case err == nil || errors.Is(err, redsync.ErrExtendFailed):
				r.lost()
			default:
				var taken *redsync.ErrTaken
				if errors.As(err, &taken) {
					r.lost()
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

func (r *redsyncCandidate) extended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = r.mutex.Until()
}

func (r *redsyncCandidate) lost() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = time.Time{}
}

func (r *redsyncCandidate) leads() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until)
}

func (r *redsyncCandidate) resign(ctx context.Context) error {
	if err := r.running.resign(ctx); err != nil {
		return err
	}
	r.lost()
	_, err := r.mutex.UnlockContext(ctx)
	return err
}

func (c *redsyncClient) lock(name, _ string) lock {
	return redsyncLock{c.rs.NewMutex(name, redsync.WithExpiry(c.lease))}
}

type redsyncLock struct{ mutex *redsync.Mutex }

// take goes on where the library gives up, after 32 tries.
func (l redsyncLock) take(ctx context.Context) error {
	for l.mutex.LockContext(ctx) != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (l redsyncLock) try(ctx context.Context) error {
	err := l.mutex.TryLockContext(ctx)
	if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) {
		return errHeld
	}
	return err
}

func (l redsyncLock) giveBack(ctx context.Context) error {
	_, err := l.mutex.UnlockContext(ctx)
	return err
}
