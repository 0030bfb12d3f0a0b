package snippets_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/keys"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/shard"
)

// tenants works on the tenants that are this process's, until ctx ends.
func tenants(
	ctx context.Context, store leader.Store, bucket keys.Bucket, hostname string,
	item func(ctx context.Context, tenant keys.Entry, token uint64),
) error {
	s, err := keys.Join(ctx, store, "tenants", keys.Config{
		Bucket: bucket, Filter: "tenants.*", Member: shard.Config{ID: hostname},
	})
	if err != nil {
		return err
	}
	return s.Serve(func(lead context.Context, k *keys.Key) { // for each key, on a goroutine of its own
		for lead.Err() == nil { // asks the clock
			item(lead, k.Entry(), k.Token())
		}
	}) // nil if ctx has ended
}

// convert works on jobs until each is done.
func convert(work func(ctx context.Context, value []byte) error) func(context.Context, *keys.Key) {
	return func(lead context.Context, k *keys.Key) {
		for lead.Err() == nil {
			if work(lead, k.Entry().Value) != nil {
				return // and begin again in 5 s
			}
			if err := k.Complete(); !errors.Is(err, keys.ErrChanged) {
				return
			}
		}
	}
}

// streams joins a group whose keys have a status, a parent, and guards.
func streams(ctx context.Context, store leader.Store, bucket keys.Bucket, hostname string) (*keys.Set, error) {
	parent := func(e keys.Entry) string { _, name, _ := strings.Cut(string(e.Value), " "); return name }
	return keys.Join(ctx, store, "streams", keys.Config{
		Bucket: bucket, Filter: "stream.*", Guards: "guards", Member: shard.Config{ID: hostname},
		Wants: func(e keys.Entry) bool { return strings.HasPrefix(string(e.Value), "open") },
		Ready: func(e keys.Entry, get func(string) (keys.Entry, bool)) bool {
			p, has := get(parent(e))
			return parent(e) == "" || has && strings.HasPrefix(string(p.Value), "closed")
		},
	})
}

// A tenant comes, moves and goes.
func TestTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groups, bucket, lines := leadertest.NewStore(nil), leadertest.NewStore(nil), make(chan string, 10)
		start := func(id string) (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- tenants(ctx, groups.Link(id), bucket.Link(id), id, func(lead context.Context, e keys.Entry, _ uint64) {
					lines <- fmt.Sprint(id, " begins ", e.Name)
					<-lead.Done()
					lines <- fmt.Sprint(id, " ends ", e.Name)
				})
			}()
			return func() { cancel(); check.OK(t, <-ended) }
		}
		stopA := start("a")
		bucket.Put("tenants.acme", nil)
		check.Equal(t, <-lines, "a begins tenants.acme", "%s")
		start("b")
		stopA()
		check.Equal(t, <-lines+", "+<-lines, "a ends tenants.acme, b begins tenants.acme", "%s")
		bucket.Delete("tenants.acme")
		check.Equal(t, <-lines, "b ends tenants.acme", "%s")
	})
}

// A job begins again while it fails, and when its value has changed.
func TestConvert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groups, bucket, works := leadertest.NewStore(nil), leadertest.NewStore(nil), make(chan string, 10)
		s := check.Got(keys.Join(t.Context(), groups, "jobs", keys.Config{Bucket: bucket, Filter: "job.*", Member: shard.Config{ID: "a"}}))(t)
		ended := make(chan error)
		go func() {
			ended <- s.Serve(convert(func(_ context.Context, value []byte) error {
				works <- string(value)
				switch string(value) {
				case "1":
					bucket.Put("job.1", []byte("2"))
					return errors.New("not done")
				case "2":
					bucket.Put("job.1", []byte("3"))
					time.Sleep(time.Second)
				}
				return nil
			}))
		}()
		bucket.Put("job.1", []byte("1"))
		time.Sleep(time.Hour)
		close(works)
		var all []string
		for value := range works {
			all = append(all, value)
		}
		check.Deep(t, all, []string{"1", "2", "3"})
		check.That(t, bucket.Value("job.1") == nil, "the job is there")
		check.OK(t, s.Member().Stop())
		check.OK(t, <-ended)
	})
}

// A stream waits until its parent is closed, and knows what the owner of that has written.
func TestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groups, bucket := leadertest.NewStore(nil), leadertest.NewStore(nil)
		bucket.Put("stream.1", []byte("open"))
		bucket.Put("stream.2", []byte("open stream.1"))
		bucket.Put("stream.3", []byte("open stream.4"))
		s := check.Got(streams(t.Context(), groups, bucket, "a"))(t)
		var order []string
		err := s.Serve(func(lead context.Context, k *keys.Key) {
			order = append(order, k.Name())
			check.OK(t, check.Err(k.Writer().Update(lead, k.Name(), []byte("closed"), k.Entry().Revision)))
			if k.Name() == "stream.2" { // not by order, to which this one may append before that of stream.1 has returned
				go func() { check.OK(t, s.Member().Stop()) }()
			}
		})
		check.OK(t, err)
		check.Deep(t, order, []string{"stream.1", "stream.2"})
	})
}
