package keys_test

import (
	"context"
	"fmt"
	"log"

	"github.com/natsleader/natsleader/keys"
	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/shard"
)

// A process works on each tenant from the moment that it is put until it is deleted.
func Example() {
	bucket := leadertest.NewStore(nil)                    // in production a leader.Bucket
	tenants := leadertest.NewStore(nil)                   // in production the result of keys.OpenBucket
	ctx, stop := context.WithCancel(context.Background()) // in production signal.NotifyContext
	tenants.Put("tenants.acme", []byte("gold"))
	s, err := keys.Join(ctx, bucket, "tenants", keys.Config{
		Bucket: tenants, Filter: "tenants.*", Member: shard.Config{ID: "web-1"},
	})
	if err != nil {
		log.Fatal(err)
	}
	err = s.Serve(func(lead context.Context, k *keys.Key) { // on a goroutine for each key
		fmt.Println(k.Name(), "begins:", string(k.Entry().Value))
		tenants.Delete("tenants.acme") // in production an operator
		for lead.Err() == nil {        // reads the clock
			item(lead)
		}
		fmt.Println(k.Name(), "ends:", context.Cause(lead))
		stop()
	})
	fmt.Println("the member has left:", err)
	// Output:
	// tenants.acme begins: gold
	// tenants.acme ends: keys: the key was deleted
	// the member has left: <nil>
}

// A worker that is done with a job completes it, and goes on with a later value if there is one.
func ExampleKey_Complete() {
	bucket, jobs := leadertest.NewStore(nil), leadertest.NewStore(nil)
	ctx, stop := context.WithCancel(context.Background())
	jobs.Put("job.1", []byte("convert a.png"))
	s, err := keys.Join(ctx, bucket, "jobs", keys.Config{Bucket: jobs, Filter: "job.*", Member: shard.Config{ID: "web-1"}})
	if err != nil {
		log.Fatal(err)
	}
	err = s.Serve(func(_ context.Context, k *keys.Key) {
		fmt.Println(string(k.Entry().Value))
		fmt.Println("complete:", k.Complete())
		stop()
	})
	fmt.Println(err, jobs.Value("job.1") == nil)
	// Output:
	// convert a.png
	// complete: <nil>
	// <nil> true
}

// item is the work on one item of a tenant.
func item(ctx context.Context) { <-ctx.Done() }
