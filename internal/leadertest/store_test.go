package leadertest_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/golden"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

const second = time.Second

// The scripts in testdata/store drive a store by clients, each on the link of its name.
//
//	store [latency=1s] [maxlease=0s] [ttl=12s] [maxvalue=3] [ordinary]
//	advance 5s, configure [ttl=12s], snapshot, rollback
//	s Put k x                     a method of the store
//	a Refuse 1 true               a method of the link
//	a get, settings, watch, unwatch, view, unview
//	a update VALUE REVISION       of the key k
//	a announce e b [ENTRY]        b in the election e, or its withdrawal
//	a cancel                      ends the contexts of the requests so far
//
// Below a line are the results, and the replies and messages that have come, with their times.
func TestStore(t *testing.T) {
	golden.Scripts(t, "store", func(t *testing.T, file string) {
		for range 10 { // the order in which goroutines run must not matter
			s := &storeScript{t: t}
			golden.Script(t, file, func(_ string, words []string) []string { return s.do(words) })
		}
	})
}

type storeScript struct {
	t       *testing.T
	j       *journal
	store   *leadertest.Store
	clients map[string]*client
	snap    leadertest.Snapshot
}

func (s *storeScript) do(words []string) (lines []string) {
	s.t.Helper()
	switch words[0] {
	case "store":
		clock := leadertest.NewClock()
		store := leadertest.NewStore(clock, s.options(words)...)
		*s = storeScript{t: s.t, j: &journal{clock: clock}, store: store, clients: map[string]*client{}}
	case "configure":
		s.store.Configure(s.options(words)...)
	case "advance":
		s.j.clock.Advance(check.Got(time.ParseDuration(words[1]))(s.t))
	case "snapshot":
		s.snap = s.store.Snapshot()
	case "rollback":
		s.store.Rollback(s.snap)
	case "s":
		lines = s.invoke(s.store, words[1:])
	default:
		c, link := s.clients[words[0]], s.store.Link(words[0])
		if c == nil {
			c = newClient(s.t, s.j, link, words[0])
			s.clients[words[0]] = c
		}
		if !c.request(s.t, words[1], append(words[2:], "", "", "")) {
			lines = s.invoke(link, words[1:])
		}
	}
	return append(lines, s.j.take()...)
}

func (s *storeScript) options(words []string) (opts []leadertest.Option) {
	s.t.Helper()
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		d, _ := time.ParseDuration(value)
		n, _ := strconv.Atoi(value)
		opts = append(opts, map[string]leadertest.Option{
			"latency": leadertest.WithLatency(d), "maxlease": leadertest.WithMaxLease(d), "ttl": leadertest.WithTTL(d),
			"maxvalue": leadertest.WithMaxValue(n), "ordinary": leadertest.WithoutPurgeProtection(),
		}[name])
	}
	return opts
}

// invoke calls a method by its name, and returns its results.
func (s *storeScript) invoke(on any, words []string) (lines []string) {
	s.t.Helper()
	method := reflect.ValueOf(on).MethodByName(words[0])
	check.Must(s.t, method.IsValid(), "there is no method %s", words[0])
	var args []reflect.Value
	for i := range method.Type().NumIn() {
		arg := reflect.New(method.Type().In(i)).Elem()
		if i+1 < len(words) {
			text := words[i+1]
			switch to := arg.Addr().Interface().(type) {
			case *int:
				*to = check.Got(strconv.Atoi(text))(s.t)
			case *bool:
				*to = text == "true"
			case *string:
				*to = text
			case *[]byte:
				*to = []byte(text)
			case *time.Duration:
				*to = check.Got(time.ParseDuration(text))(s.t)
			case *error:
				*to = map[string]error{
					"denied": leader.ErrPermission, "unfit": leader.ErrIncompatibleBucket, "nofeed": leader.ErrNoFeed,
					"unreachable": leader.ErrUnreachable, "noroster": leader.ErrNoRoster,
				}[text]
				check.Must(s.t, *to != nil, "there is no error %s", text)
			}
		}
		args = append(args, arg)
	}
	for _, result := range method.Call(args) {
		switch v := result.Interface().(type) {
		case leadertest.Entry:
			at := time.Duration(0)
			if !v.Created.IsZero() {
				at = v.Created.Sub(start)
			}
			lines = append(lines, fmt.Sprintf("%d %q marker=%t, created at %v", v.Revision, v.Value, v.Marker, at))
		default:
			lines = append(lines, fmt.Sprintf("%+v", v))
		}
	}
	return lines
}

// client sends requests to a store from the goroutine of an actor, as a candidate does, and writes down the
// replies.
type client struct {
	*actor
	*journal
	store      backend.Store
	name       string
	ctx        context.Context // of its requests
	end        context.CancelFunc
	feed, view backend.Feed
}

func newClient(t *testing.T, j *journal, store leader.Store, name string) *client {
	t.Helper()
	c := &client{journal: j, store: store.Backend(), name: name}
	c.ctx, c.end = context.WithCancel(context.Background())
	c.actor = newActor(j.clock, func(*actor) {}, 0)
	t.Cleanup(c.stop)
	return c
}

// note writes a line on the goroutine of the actor.
func (c *client) note(format string, args ...any) {
	c.send(func() { c.add(c.name+" "+format, args...) })
}

const life = 45 * time.Second

// session returns the session of a candidate with that name of one letter.
func session(name string) string { return strings.Repeat(strings.ToUpper(name), 26) }

// request sends a request, or reports that there is none of that name.
func (c *client) request(t *testing.T, name string, words []string) bool {
	t.Helper()
	ctx := c.ctx
	var do func()
	switch name {
	case "update":
		revision := check.Got(strconv.ParseUint(words[1], 10, 64))(t)
		do = func() {
			c.store.Update(ctx, "k", []byte(words[0]), revision, func(r uint64, err error) {
				c.note("update %s: %d %v", words[0], r, err)
			})
		}
	case "get":
		do = func() {
			c.store.Get(ctx, "k", func(e backend.Entry, err error) { c.note("get: %d %q %t %v", e.Revision, e.Value, e.Marker, err) })
		}
	case "settings":
		do = func() {
			c.store.Settings(ctx, func(s backend.Settings, err error) {
				c.note("settings: %t %v %d %v", s.PurgeProtected, s.MaxLease, s.LastRevision, err)
			})
		}
	case "watch":
		do = func() {
			c.store.Watch(ctx, "k", nil, func(e backend.FeedEvent) {
				c.note("receives: %d %q %t %t %v", e.Entry.Revision, e.Entry.Value, e.Entry.Marker, e.Reconnected, e.Err)
			}, func(f backend.Feed, err error) {
				c.send(func() { c.feed = f })
				c.note("watches: %v", err)
			})
		}
	case "unwatch":
		do = func() { c.feed.Stop() }
	case "announce":
		var entry []byte
		if words[2] != "" {
			entry = []byte(words[2])
		}
		do = func() {
			c.store.Announce(ctx, words[0], session(words[1]), entry, life, func(r uint64, err error) {
				c.note("announce %s %s: %d %v", words[1], words[2], r, err)
			})
		}
	case "view":
		do = func() {
			c.store.View(ctx, "e", c.viewed, func(f backend.Feed, err error) {
				c.send(func() { c.view = f })
				c.note("views: %v", err)
			})
		}
	case "unview":
		do = func() { c.view.Stop() }
	case "cancel":
		do = c.end
		c.ctx, c.end = context.WithCancel(context.Background())
	default:
		return false
	}
	c.send(do)
	return true
}

// viewed notes what a view delivers.
func (c *client) viewed(a backend.Announcement) {
	who := strings.ToLower(a.Session[:min(len(a.Session), 1)])
	switch {
	case errors.Is(a.Err, leader.ErrUnreachable):
		c.note("sees the end")
	case a.Err != nil:
		c.note("sees the end: %v", a.Err)
	case a.Complete:
		c.note("sees all")
	case a.Entry == nil:
		c.note("sees %s withdraw", who)
	default:
		c.note("sees %s=%s", who, a.Entry)
	}
}

// A store without a clock lives in the time of the bubble.
func TestStore_InBubbleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leadertest.NewStore(nil, leadertest.WithLatency(second))
		begin := time.Now()
		revision := make(chan uint64)
		s.Backend().Update(t.Context(), "k", nil, 0, func(r uint64, _ error) { revision <- r })
		if got := <-revision; got != 1 || time.Since(begin) != 2*second {
			t.Fatal(got, time.Since(begin))
		}
		link := s.Link("a")
		link.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		failed := make(chan error)
		link.Backend().Get(ctx, "k", func(_ backend.Entry, err error) { failed <- err })
		if err := <-failed; !errors.Is(err, leader.ErrUnreachable) || time.Since(begin) != 3*second {
			t.Fatal(err, time.Since(begin))
		}
	})
}
