package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/examples/internal/scaffold"
	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/keys"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

const (
	bucketName  = "natsleader-examples"
	groupName   = "tenants"
	tenantsName = "example_tenants" // the bucket of the tenants: at NATS_URL there may be one with the name tenants
)

// office is the processes of the example, and which of them works on which tenant.
type office struct {
	*scaffold.Scaffold
	nc      *nats.Conn
	tenants jetstream.KeyValue
	live    sync.WaitGroup

	mu      sync.Mutex
	stops   map[string]context.CancelFunc // by the ID of the process
	by      map[string]string             // the process that works on a tenant
	changed chan struct{}                 // closed at the next change of by
	broken  []error
}

// open connects to the server, and makes the buckets.
func open(ctx context.Context, s *scaffold.Scaffold) (_ *office, err error) {
	o := &office{Scaffold: s, stops: make(map[string]context.CancelFunc), by: make(map[string]string), changed: make(chan struct{})}
	if o.nc, err = nats.Connect(s.URL, nats.MaxReconnects(-1)); err != nil {
		return nil, err
	}
	js, err := jetstream.New(o.nc)
	if err == nil {
		_, err = leader.CreateOrUpdateBucket(ctx, js, leader.BucketConfig{Name: bucketName})
	}
	if err == nil {
		o.tenants, err = js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: tenantsName})
	}
	if err != nil {
		o.nc.Close()
	}
	return o, err
}

// close stops all processes, and returns what was wrong.
func (o *office) close() error {
	o.mu.Lock()
	for _, stop := range o.stops {
		stop()
	}
	o.mu.Unlock()
	o.live.Wait()
	o.nc.Close()
	return errors.Join(o.broken...)
}

// start starts processes, each with a connection of its own.
func (o *office) start(ids ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		if o.stops[id] != nil {
			o.Line(timeline.Bold, "there is a process %s", id)
			continue
		}
		ctx, stop := context.WithCancel(context.Background())
		o.stops[id] = stop
		o.live.Go(func() {
			if err := o.Connect(ctx, id, o.work); err != nil {
				o.Say(id, "FAILED", "%v", err)
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(o.stops, id)
		})
	}
}

// stop stops a process.
func (o *office) stop(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if stop := o.stops[id]; stop != nil {
		stop()
		return
	}
	o.Line(timeline.Bold, "there is no process %s", id)
}

// work is all that a process of a service needs: it works on its tenants until ctx ends.
func (o *office) work(ctx context.Context, id string, js jetstream.JetStream) error {
	bucket, err := leader.OpenBucket(js, bucketName)
	if err != nil {
		return err
	}
	tenants, err := keys.OpenBucket(js, tenantsName)
	if err != nil {
		return err
	}
	s, err := keys.Join(ctx, bucket, groupName, keys.Config{
		Bucket: tenants, Filter: "tenants.*", Member: shard.Config{ID: id},
	})
	if err != nil {
		return err
	}
	return s.Serve(func(lead context.Context, k *keys.Key) { // for each tenant, on a goroutine of its own
		o.begins(id, k)
		defer func() { o.ends(id, k.Name(), context.Cause(lead)) }()
		for {
			select {
			case <-lead.Done():
				return
			case <-k.Changed():
				o.Say(id, "goes on", "%s is %s", k.Name(), k.Entry().Value)
			}
		}
	})
}

func (o *office) begins(id string, k *keys.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if other, has := o.by[k.Name()]; has {
		o.broken = append(o.broken, fmt.Errorf("%s begins %s, on which %s works", id, k.Name(), other))
	}
	o.by[k.Name()] = id
	o.Say(id, "begins", "%s is %s, token %d", k.Name(), k.Entry().Value, k.Token())
	o.change()
}

func (o *office) ends(id, name string, cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.by, name)
	o.Say(id, "ends", "%s: %v", name, cause)
	o.change()
}

// change wakes those who wait for a change. The lock is held.
func (o *office) change() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// patience bounds a wait.
const patience = time.Minute

// wait waits until all of these tenants have a worker, each one of these, and no other tenant has one.
func (o *office) wait(ctx context.Context, names, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		o.mu.Lock()
		changed, isSo := o.changed, len(o.by) == len(names)
		for _, name := range names {
			isSo = isSo && slices.Contains(ids, o.by[name])
		}
		o.mu.Unlock()
		if isSo {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("not all of %v are on %v: %w", names, ids, ctx.Err())
		}
	}
}
