package snippets_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// Leader serves requests on the leader, and forwards them on all other replicas.
type Leader struct {
	Local     http.Handler
	Candidate *leader.Candidate
}

func (l Leader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.Candidate.IsLeader() { // asks the clock
		l.Local.ServeHTTP(w, r)
		return
	}
	h := l.Candidate.Leader() // from memory; with the Value that the leader has published
	if h.State != leader.HolderLeading || r.Header.Get("X-Forwarded-By") != "" {
		w.Header().Set("Retry-After", "1") // no leader, or it has just changed
		http.Error(w, "no leader", http.StatusServiceUnavailable)
		return
	}
	proxy := httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(&url.URL{Scheme: "http", Host: string(h.Value)})
		p.Out.Header.Set("X-Forwarded-By", l.Candidate.ID()) // once, and never in a circle
	}}
	proxy.ServeHTTP(w, r)
}

func publishAddress(ctx context.Context, store leader.Store, address string) (*leader.Candidate, error) {
	return leader.Campaign(ctx, store, "billing", leader.Config{Value: []byte(address)})
}

// newestFirst stands so that the newest build follows.
func newestFirst(ctx context.Context, store leader.Store, build string) (*leader.Candidate, error) {
	number, err := strconv.Atoi(build) // from -ldflags "-X main.build=4711", or the image's tag
	if err != nil {
		return nil, err
	}
	return leader.Campaign(ctx, store, "billing", leader.Config{Queue: &leader.Queue{Priority: number}})
}

func threeLeaders(ctx context.Context, bucket leader.Store) (*leader.Candidate, error) {
	return leader.Campaign(ctx, seats.Of(bucket, 3), "import", leader.Config{Queue: &leader.Queue{}})
}

func replaceTheSecond(ctx context.Context, bucket leader.Store) error {
	_, err := leader.StepDown(ctx, bucket, seats.Key("import", 2), leader.StepDownOptions{By: "jane"})
	return err
}

// nightly runs on one of the processes that call it.
func nightly(ctx context.Context, store leader.Store, report func(context.Context, uint64) error) error {
	lock, err := leader.TryAcquire(ctx, store, "nightly", leader.Config{})
	if held := (*leader.HeldError)(nil); errors.As(err, &held) {
		fmt.Println("runs on", held.Holder.ID)
		return nil
	}
	if err != nil {
		return err // the store did not answer
	}
	err = report(lock.Context(), lock.Token())
	return errors.Join(err, lock.Unlock(context.WithoutCancel(ctx)))
}

func migrate(ctx context.Context, store leader.Store, up func(context.Context) error) error {
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	lock, err := leader.Acquire(waiting, store, "migrations", leader.Config{}) // waiting ends here
	if err != nil {
		return err
	}
	err = up(lock.Context())
	return errors.Join(err, lock.Unlock(context.WithoutCancel(ctx)))
}

var _ = []any{publishAddress, newestFirst, threeLeaders, replaceTheSecond, nightly, migrate, Leader{}}
