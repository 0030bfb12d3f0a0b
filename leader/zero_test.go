package leader_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
	"github.com/natsleader/natsleader/seats"
)

// zeros are the zero values of all exported types of packages leader and fence that have
// methods or could have some.
var zeros = []any{
	backend.Announcement{},
	&leader.Bucket{},
	leader.BucketConfig{},
	leader.BucketInfo{},
	&leader.Candidate{},
	leader.Config{},
	leader.Deposed{},
	leader.Elected{},
	backend.Entry{},
	leader.Faulted{},
	backend.FeedEvent{},
	leader.Fenced{},
	&leader.HeldError{},
	leader.Holder{},
	leader.HolderState(0),
	&leader.Lock{},
	leader.Observed{},
	leader.Pending{},
	leader.Queue{},
	&backend.RefusedError{},
	backend.Settings{},
	leader.State(0),
	leader.Stats{},
	leader.StepDownOptions{},
	&leader.Term{},
	new(natskv.Bucket),
	&fence.Bucket{}, &fence.BucketBatch{}, &fence.BucketWriter{},
	&fence.Stream{}, &fence.StreamBatch{}, &fence.StreamWriter{},
}

// The table of zero values has every exported type but interfaces and functions.
func TestZeroValues_AreComplete(t *testing.T) {
	files, err := filepath.Glob("*.go")
	fenced, err2 := filepath.Glob("../fence/*.go")
	check.OK(t, errors.Join(err, err2))
	files = append(files, fenced...)
	listed := make(map[string]bool)
	for _, z := range zeros {
		listed[reflect.Indirect(reflect.ValueOf(z)).Type().String()] = true
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := check.Got(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() {
				return true
			}
			switch spec.Type.(type) {
			case *ast.InterfaceType, *ast.FuncType:
			default:
				is := file.Name.Name + "." + spec.Name.Name
				check.That(t, listed[is], "%s is missing", is)
			}
			return true
		})
	}
}

// No method of a zero value panics, hangs, or starts a goroutine that does.
func TestZeroValues_MethodsReturn(t *testing.T) {
	for _, z := range zeros {
		v := reflect.ValueOf(z)
		for i := range v.NumMethod() {
			name := reflect.Indirect(v).Type().Name() + "." + v.Type().Method(i).Name
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				method, replied := v.Method(i), make(chan struct{}, 8)
				replies := 0
				var args []reflect.Value
				for k := range method.Type().NumIn() {
					if method.Type().IsVariadic() && k == method.Type().NumIn()-1 {
						break // none of these
					}
					in := method.Type().In(k)
					switch {
					case in == reflect.TypeFor[context.Context]():
						args = append(args, reflect.ValueOf(ctx))
					case in.Kind() == reflect.Func: // a reply, or deliver
						if name := in.String(); name != "func(context.Context)" && !strings.Contains(name, "FeedEvent") && !strings.Contains(name, "Announcement") && !strings.Contains(name, "func([]uint8)") && name != "func([]string)" && name != "func(string) bool" {
							replies++
						}
						args = append(args, reflect.MakeFunc(in, func([]reflect.Value) []reflect.Value {
							replied <- struct{}{}
							return nil
						}))
					case in.Kind() == reflect.String: // good for a name and for a session
						args = append(args, reflect.ValueOf("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
					default:
						args = append(args, reflect.Zero(in))
					}
				}
				returned := make(chan struct{})
				go func() {
					defer close(returned)
					for _, result := range method.Call(args) {
						if end, ok := result.Interface().(func()); ok {
							end()
						}
					}
				}()
				for _, done := range append([]chan struct{}{returned}, make([]chan struct{}, replies)...) {
					if done == nil {
						done = replied
					}
					select {
					case <-done:
					case <-time.After(time.Minute):
						t.Fatal("does not return or reply")
					}
				}
			})
		}
	}
}

// A zero Candidate is one that has ended.
func TestZeroCandidate_HasEnded(t *testing.T) {
	var c leader.Candidate
	ctx := t.Context() // without an end
	err := c.Stop()
	check.That(t, err == nil, "Stop: %v", err)
	_, leads := c.Term()
	check.That(t, !leads, "it has a term")
	for e := range c.Events(ctx) {
		t.Error(e)
	}
	check.Is(t, c.Ready(ctx), leader.ErrStopped)
	check.Is(t, c.Stats().Connected(), leader.ErrStopped)
	<-c.Done()
	s := c.State()
	check.That(t, s == leader.StateEnded && !c.IsLeader() && c.Stats().State == s, "state %v", s)
}

// A zero Term is one that is over.
func TestZeroTerm_IsOver(t *testing.T) {
	var term leader.Term
	<-term.Context().Done()
	check.Is(t, context.Cause(term.Context()), leader.ErrStopped)
	revision := new(fence.Bucket).Writer(&term).GuardRevision()
	check.That(t, revision == 0 && term.Remaining() == 0 && term.Token() == 0, "it has a guard, or time left, or a token")
}

// An argument that is nil, or that its function did not make, is rejected.
func TestZeroArguments_AreRefused(t *testing.T) {
	ctx := t.Context()
	js := jetstream.JetStream(nil)
	calls := map[string]func() error{}
	for name, store := range map[string]leader.Store{"nil": nil, "nil Bucket": (*leader.Bucket)(nil), "zero Bucket": &leader.Bucket{}} {
		add := func(call string, f func() error) { calls[call+" with "+name] = f }
		for n := range 3 {
			add([]string{"Campaign", "Campaign for a seat", "Campaign for two seats"}[n], func() error {
				_, err := leader.Campaign(ctx, seats.Of(store, n), "e", leader.Config{})
				return err
			})
		}
		add("Campaign with a roster", func() error {
			_, err := leader.Campaign(ctx, store, "e", leader.Config{Queue: &leader.Queue{AtOnce: true}})
			return err
		})
		add("Acquire", func() error { _, err := leader.Acquire(ctx, store, "e", leader.Config{}); return err })
		add("TryAcquire", func() error { _, err := leader.TryAcquire(ctx, store, "e", leader.Config{}); return err })
		add("Observe", func() error { _, err := leader.Observe(ctx, store, "e"); return err })
		add("Lookup", func() error { _, err := leader.Lookup(ctx, store, "e"); return err })
		add("roster.Lookup", func() error { _, err := roster.Lookup(ctx, store, "e"); return err })
		add("roster.Observe", func() error { _, err := roster.Observe(ctx, store, "e"); return err })
		add("StepDown", func() error { _, err := leader.StepDown(ctx, store, "e", leader.StepDownOptions{By: "me"}); return err })
	}
	bucket := openUnconnected(t)
	for name, g := range map[string]leader.Guard{
		"nil": nil, "nil fence.Bucket": (*fence.Bucket)(nil), "zero fence.Bucket": &fence.Bucket{},
		"nil fence.Stream": (*fence.Stream)(nil), "zero fence.Stream": &fence.Stream{},
	} {
		calls["Campaign with a guard that is "+name] = func() error {
			_, err := leader.Campaign(ctx, bucket, "e", leader.Config{Guards: []leader.Guard{g}})
			return err
		}
	}
	calls["OpenBucket"] = func() error { _, err := leader.OpenBucket(js, "E"); return err }
	calls["WithFeedSubject"] = func() error { _, err := new(leader.Bucket).WithFeedSubject("feed"); return err }
	calls["CreateOrUpdateBucket"] = func() error {
		_, err := leader.CreateOrUpdateBucket(ctx, js, leader.BucketConfig{Name: "E"})
		return err
	}
	calls["fence.OpenBucket"] = func() error { _, err := fence.OpenBucket(js, "E"); return err }
	calls["fence.OpenBucket with a nil option"] = func() error {
		_, err := fence.OpenBucket(unconnected(t), "E", nil)
		return err
	}
	calls["fence.OpenStream"] = func() error { _, err := fence.OpenStream(js, "S", "g"); return err }
	calls["fence.CreateOrUpdateBucket"] = func() error {
		_, err := fence.CreateOrUpdateBucket(ctx, js, jetstream.KeyValueConfig{Bucket: "E"})
		return err
	}
	calls["fence.CreateOrUpdateStream"] = func() error {
		_, err := fence.CreateOrUpdateStream(ctx, js, jetstream.StreamConfig{Name: "S"}, "g")
		return err
	}
	guarded := check.Got(fence.OpenBucket(unconnected(t), "G"))(t)
	stream := check.Got(fence.OpenStream(unconnected(t), "S", "g"))(t)
	calls["fence.Bucket.Writer(nil).Put"] = func() error { _, err := guarded.Writer(nil).Put(ctx, "k", nil); return err }
	calls["fence.Stream.Writer(nil).Publish"] = func() error { _, err := stream.Writer(nil).Publish(ctx, "s", nil); return err }
	calls["StreamWriter.PublishMsg(nil)"] = func() error { _, err := stream.Writer(nil).PublishMsg(ctx, nil); return err }
	calls["zero BucketWriter.Put"] = func() error { _, err := new(fence.BucketWriter).Put(ctx, "k", nil); return err }
	calls["zero StreamWriter.Publish"] = func() error { _, err := new(fence.StreamWriter).Publish(ctx, "s", nil); return err }
	calls["zero BucketBatch.Commit"] = func() error { _, err := new(fence.BucketBatch).Commit(ctx); return err }
	calls["zero StreamBatch.Commit"] = func() error { _, err := new(fence.StreamBatch).Commit(ctx); return err }
	calls["zero Bucket.Info"] = func() error { _, err := new(leader.Bucket).Info(ctx); return err }
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			check.Is(t, call(), leader.ErrInvalidConfig)
		})
	}
}

// unconnected is a JetStream on a connection that was never made.
func unconnected(t *testing.T) jetstream.JetStream {
	t.Helper()
	js := check.Got(jetstream.New(&nats.Conn{}))(t)
	return js
}

// openUnconnected is a bucket of a connection that is not made.
func openUnconnected(t *testing.T) *leader.Bucket {
	t.Helper()
	bucket := check.Got(leader.OpenBucket(unconnected(t), "E"))(t)
	return bucket
}
