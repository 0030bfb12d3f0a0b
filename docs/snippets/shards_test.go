package snippets_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/shard"
)

// shards works on the shards that are granted to this process, until ctx ends.
func shards(
	ctx context.Context, bucket leader.Store, hostname string, item func(ctx context.Context, shard int, token uint64),
) error {
	m, err := shard.Join(ctx, bucket, "orders", shard.Config{Shards: 50, ID: hostname})
	if err != nil {
		return err
	}
	return m.Serve(func(lead context.Context, s *shard.Shard) { // for each shard, on a goroutine of its own
		for lead.Err() == nil { // asks the clock
			item(lead, s.Number(), s.Token())
		}
	}) // nil if ctx has ended
}

func guardKey(shard int) string { return fmt.Sprintf("%d.guard", shard) }

func countKey(shard int) string { return fmt.Sprintf("%d.count", shard) }

// lastCount returns the count of a shard as its earlier owners have left it. raised is the revision of its guard.
func lastCount(ctx context.Context, counts jetstream.KeyValue, shard int, raised uint64) (n int, err error) {
	watch, err := counts.Watch(ctx, fmt.Sprintf("%d.*", shard))
	if err != nil {
		return 0, err
	}
	defer func() { _ = watch.Stop() }()
	for entry := range watch.Updates() {
		switch {
		case entry == nil: // all that this replica has, which may lag
		case entry.Key() != guardKey(shard):
			n, err = strconv.Atoi(string(entry.Value()))
		case entry.Revision() >= raised:
			return n, err
		}
	}
	return 0, errors.Join(errors.New("the watch has ended"), context.Cause(ctx))
}

// count counts the items of a shard. last returns the count of the earlier owners, as lastCount does.
func count(
	s *shard.Shard, counts fence.KVWriter, last func(raised uint64) (int, error), item func(context.Context),
) error {
	lead := s.Context()
	n, err := last(counts.GuardRevision())
	for err == nil && lead.Err() == nil {
		item(lead)
		n++
		for again := true; again; { // also after the end of the context: the guard refuses what is too late
			_, err = counts.Put(context.WithoutCancel(lead), countKey(s.Number()), []byte(strconv.Itoa(n)))
			again = errors.Is(err, fence.ErrUnknownOutcome) && lead.Err() == nil
		}
	}
	return err // leader.ErrFenced: another process owns the shard, and nothing was written
}

// counters counts the items of the shards that are granted to this process, until ctx ends.
func counters(
	ctx context.Context, js jetstream.JetStream, bucket leader.Store, hostname string, item func(context.Context),
) error {
	if _, err := fence.CreateOrUpdateBucket(ctx, js, jetstream.KeyValueConfig{Bucket: "counts"}); err != nil {
		return err
	}
	counts, err := js.KeyValue(ctx, "counts")
	if err != nil {
		return err
	}
	guards := make([]*fence.Bucket, 50)
	for n := range guards {
		if guards[n], err = fence.OpenBucket(js, "counts", fence.GuardKey(guardKey(n))); err != nil {
			return err
		}
	}
	m, err := shard.Join(ctx, bucket, "orders", shard.Config{
		Shards: 50, ID: hostname, Guards: func(n int) []leader.Guard { return []leader.Guard{guards[n]} },
	})
	if err != nil {
		return err
	}
	return m.Serve(func(lead context.Context, s *shard.Shard) {
		last := func(raised uint64) (int, error) { return lastCount(lead, counts, s.Number(), raised) }
		if err := count(s, guards[s.Number()].Writer(s.Term()), last, item); err != nil {
			log.Printf("shard %d: %v", s.Number(), err) // it begins again after 5 s if it still is this process's
		}
	})
}

// shardOf returns the shard of a key: its FNV-1a hash of 64 bits, modulo the number of shards.
func shardOf(key string, shards uint64) int {
	h := fnv.New64a()
	h.Write([]byte(key))
	return int(h.Sum64() % shards)
}

// Three processes share 50 shards, and two of them the shards of the one that stops.
func TestShards_AreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		var mu sync.Mutex
		owners := make([]string, 50)
		item := func(id string) func(context.Context, int, uint64) {
			return func(ctx context.Context, shard int, _ uint64) {
				mu.Lock()
				check.Equal(t, owners[shard], "", "%d is owned by %s", shard)
				owners[shard] = id
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				owners[shard] = ""
				mu.Unlock()
			}
		}
		spread := func() map[string]int {
			mu.Lock()
			defer mu.Unlock()
			of := make(map[string]int)
			for _, id := range owners {
				of[id]++
			}
			return of
		}
		stops := make(map[string]context.CancelFunc)
		var processes sync.WaitGroup
		for _, id := range []string{"a", "b", "c"} {
			ctx, cancel := context.WithCancel(t.Context())
			stops[id] = cancel
			processes.Go(func() { check.OK(t, shards(ctx, store.Link(id), id, item(id))) })
			time.Sleep(time.Second)
		}
		check.Equal(t, fmt.Sprint(spread()), "map[a:17 b:17 c:16]", "%s, want %s")
		stops["a"]()
		time.Sleep(time.Second)
		check.Equal(t, fmt.Sprint(spread()), "map[b:25 c:25]", "%s, want %s")
		stops["b"]()
		stops["c"]()
		processes.Wait()
	})
}

// A member loses shards to one that joins, and the others with its connection.
func TestShards_AreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ends := leadertest.NewStore(nil), make(chan error, 100)
		item := func(ctx context.Context, _ int, _ uint64) {
			<-ctx.Done()
			ends <- context.Cause(ctx)
		}
		var processes sync.WaitGroup
		t.Cleanup(processes.Wait)
		for _, id := range []string{"a", "b"} {
			processes.Go(func() { _ = shards(t.Context(), store.Link(id), id, item) })
			time.Sleep(time.Second) // a owns 50 shards, until b takes 25
		}
		store.Link("a").Cut()
		time.Sleep(12 * time.Second)
		causes := make(map[error]int)
		for len(ends) > 0 {
			causes[<-ends]++
		}
		if want := (map[error]int{shard.ErrMoved: 25, leader.ErrLeaseExpired: 25}); !maps.Equal(causes, want) {
			t.Errorf("the work ended with %v", causes)
		}
	})
}

// A later owner goes on from the last count, and refuses the count of the one before.
func TestCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := leadertest.NewStore(nil)
		link := counts.Link("a")
		last := func(uint64) (int, error) { return strconv.Atoi(cmp.Or(string(counts.Value(countKey(7))), "0")) }
		item := func(context.Context) { time.Sleep(time.Second) }
		for token := range uint64(3) {
			s := leadertest.NewShard(t, 7, 40+2*token, link.Guard(guardKey(7)))
			ended := make(chan error)
			go func() { ended <- count(s.Shard, link.Writer(s.Term(), guardKey(7)), last, item) }()
			time.Sleep(2500 * time.Millisecond) // in the third item
			s.End(leader.ErrFenced)
			if err := <-ended; !errors.Is(err, leader.ErrFenced) {
				t.Error(err)
			}
		}
		if got := string(counts.Value(countKey(7))); got != "6" {
			t.Errorf("counted %s", got)
		}
	})
}

// Owners forwards requests to the processes that own their shards.
type Owners struct {
	Next   http.RoundTripper // for example http.DefaultTransport
	newest atomic.Pointer[shard.View]
}

// Follow keeps the newest view of the group, until ctx ends.
func (o *Owners) Follow(ctx context.Context, bucket leader.Store) error {
	views, err := shard.Observe(ctx, bucket, "orders")
	if err != nil {
		return err
	}
	for v := range views { // at once, and whenever it changes
		o.newest.Store(&v)
	}
	return ctx.Err()
}

// address returns what the owner of the shard of a key has published; empty if there is none.
func (o *Owners) address(key string) string {
	v := o.newest.Load()
	if v == nil || len(v.Owners) == 0 {
		return ""
	}
	return string(v.Owners[shardOf(key, uint64(len(v.Owners)))].Value)
}

// RoundTrip sends a request to the owner, again while there is none or it has just changed. After 5 s it answers 503.
func (o *Owners) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte // to send it again
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	for late := time.After(5 * time.Second); ; {
		out := r.Clone(r.Context())
		out.Body = io.NopCloser(bytes.NewReader(body))
		if out.URL.Host = o.address(r.URL.Path); out.URL.Host != "" {
			resp, err := o.Next.RoundTrip(out)
			if err != nil || resp.StatusCode != http.StatusMisdirectedRequest {
				return resp, err // after another error the owner may have done the work
			}
			_ = resp.Body.Close()
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-late:
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Request: r}, nil
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
}

func gateway(o *Owners) http.Handler {
	return &httputil.ReverseProxy{Transport: o, Rewrite: func(p *httputil.ProxyRequest) { p.Out.URL.Scheme = "http" }}
}

// Owned serves requests for the shards that this process owns.
type Owned struct {
	Serve  func(s *shard.Shard, w http.ResponseWriter, r *http.Request)
	mu     sync.Mutex
	served map[int]*served // by the number of the shard
}

type served struct {
	*shard.Shard
	requests sync.WaitGroup
}

// work lets requests for a shard be served until it ends. Serve calls it.
func (o *Owned) work(lead context.Context, s *shard.Shard) {
	it := &served{Shard: s}
	o.mu.Lock()
	o.served[s.Number()] = it
	o.mu.Unlock()
	<-lead.Done()
	o.mu.Lock()
	if o.served[s.Number()] == it {
		delete(o.served, s.Number())
	}
	o.mu.Unlock()
	it.requests.Wait() // for those under way
}

func (o *Owned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	s := o.served[shardOf(r.URL.Path, 50)]
	if s == nil || s.Context().Err() != nil { // asks the clock
		o.mu.Unlock()
		http.Error(w, "another process owns the shard", http.StatusMisdirectedRequest)
		return
	}
	s.requests.Add(1)
	o.mu.Unlock()
	defer s.requests.Done()
	o.Serve(s.Shard, w, r)
}

// network connects a gateway to the processes that serve.
type network struct {
	processes map[string]http.Handler // by address
	misses    int                     // requests to a process that was not the owner any more
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	n.processes[r.URL.Host].ServeHTTP(w, r)
	if w.Code == http.StatusMisdirectedRequest {
		n.misses++
	}
	return w.Result(), nil
}

// Each request for a key reaches the owner of its shard, also while a member joins and one stops. Without an owner it
// fails after a while.
func TestGateway_FindsTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		n := &network{processes: make(map[string]http.Handler)}
		var processes sync.WaitGroup
		t.Cleanup(processes.Wait)
		stops := make(map[string]context.CancelFunc)
		start := func(id string) {
			owned := &Owned{served: make(map[int]*served), Serve: func(s *shard.Shard, w http.ResponseWriter, r *http.Request) {
				check.OK(t, s.Context().Err())
				body := check.Got(io.ReadAll(r.Body))(t)
				time.Sleep(3 * time.Millisecond)
				_, _ = fmt.Fprintf(w, "%s %s", id, body)
			}}
			n.processes[id+":80"] = owned
			ctx, cancel := context.WithCancel(t.Context())
			stops[id] = cancel
			m := check.Got(shard.Join(ctx, store.Link(id), "orders", shard.Config{Shards: 50, ID: id, Value: []byte(id + ":80")}))(t)
			processes.Go(func() {
				_ = m.Serve(owned.work)
			})
		}
		owners := &Owners{Next: n}
		store.Link("gateway").Delay(10 * time.Millisecond) // or it never has an old view
		processes.Go(func() { check.Is(t, owners.Follow(t.Context(), store.Link("gateway")), context.Canceled) })
		handler := gateway(owners)
		send := func(customer int) (code int, text string) {
			w := httptest.NewRecorder()
			url := fmt.Sprintf("http://gateway/customer-%d", customer)
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, url, strings.NewReader("pays")))
			return w.Code, w.Body.String()
		}
		serves := func(ids ...string) {
			t.Helper()
			for i := range 500 {
				code, text := send(i)
				id, body, _ := strings.Cut(text, " ")
				check.That(t, code == http.StatusOK && body == "pays" && slices.Contains(ids, id), "%d %q", code, text)
			}
		}
		start("a")
		serves("a")
		start("b")
		serves("a", "b")
		stops["a"]()
		serves("a", "b")
		serves("b")
		check.That(t, n.misses > 0, "no request has reached an earlier owner")
		stops["b"]()
		time.Sleep(time.Second)
		began := time.Now()
		code, text := send(17)
		check.That(t, code == http.StatusServiceUnavailable, "%d %q", code, text)
		check.Equal(t, time.Since(began), 5*time.Second, "503 after %v, want %v")
	})
}

// Programs in other languages compute the same shards of these keys.
func TestShardOf_IsStable(t *testing.T) {
	for key, want := range map[string]int{"": 37, "customer-17": 12, "order-4711": 39} {
		check.Equal(t, shardOf(key, 50), want, "shard %d, want %d, for "+key)
	}
}
