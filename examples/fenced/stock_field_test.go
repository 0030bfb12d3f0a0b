//go:build field

package main

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/examples/internal/embedded"
	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
)

// connect connects to a server of its own.
func connect(t *testing.T) jetstream.JetStream {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	server := check.Got(embedded.Start())(t)
	t.Cleanup(func() {
		if closing := server.Close(); closing != nil {
			t.Error(closing)
		}
	})
	nc := check.Got(nats.Connect(server.URL()))(t)
	t.Cleanup(nc.Close)
	js := check.Got(jetstream.New(nc))(t)
	return js
}

// The stock is taken up to the guard. The replica that answers knows no more than the
// first writes, until the others have reached it.
func TestStock_TakenUpToGuard(t *testing.T) {
	ctx := t.Context()
	kv, err := connect(t).CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "b"})
	check.OK(t, err)
	put := func(key, value string) uint64 {
		revision, failed := kv.PutString(ctx, key, value)
		check.OK(t, failed)
		return revision
	}
	put("changed", "old")
	put("deleted", "old")
	put("kept", "old")
	earlier := put(fence.DefaultGuardKey, "an earlier term's")
	raised := earlier + 3

	type taken struct {
		stock map[string]jetstream.KeyValueEntry
		err   error
	}
	done := make(chan taken, 1)
	go func() {
		stock, failed := takeStock(ctx, kv, raised)
		done <- taken{stock, failed}
	}()
	put("changed", "new")
	check.OK(t, kv.Delete(ctx, "deleted"))
	select {
	case got := <-done:
		t.Fatalf("taken before the guard was raised: %v, %v", got.stock, got.err)
	default:
	}
	if revision := put(fence.DefaultGuardKey, "this term's"); revision != raised {
		t.Fatalf("the guard is raised as revision %d, not %d", revision, raised)
	}
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	for key, want := range map[string]string{"changed": "new", "kept": "old"} {
		e := got.stock[key]
		check.That(t, e != nil && string(e.Value()) == want, "%s is %v, want %q", key, e, want)
	}
	check.That(t, len(got.stock) == 2, "%d keys in stock, want 2", len(got.stock))
}
