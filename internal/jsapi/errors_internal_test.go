package jsapi

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/testserver"
)

func TestRefusal_NamesRevision(t *testing.T) {
	a := &Stream{Name: "KV_E"}
	for _, c := range []struct {
		code jetstream.ErrorCode
		text string
		want backend.RefusedError
	}{
		{10164, "wrong last sequence", backend.RefusedError{}},
		{10071, "wrong last sequence: 7", backend.RefusedError{Actual: 7, Named: true}},
		{10071, "wrong last sequence: 0", backend.RefusedError{Named: true}},
		{10071, "wrong last sequence", backend.RefusedError{}},
		{10071, "wrong last sequence: many", backend.RefusedError{}},
	} {
		err := a.refusal(&jetstream.APIError{ErrorCode: c.code, Description: c.text})
		if r, ok := err.(*backend.RefusedError); !ok || *r != c.want { //nolint:errorlint // the port says so
			t.Errorf("%d %q: got %#v", c.code, c.text, err)
		}
	}
}

// A denial that the connection's slot held before a request is not about that request.
func TestDenied_IgnoresAnOldDenial(t *testing.T) {
	runtime.GC() // two collections empty nats.go's pool of timers, which must not cross bubbles
	runtime.GC()
	dir := testserver.StoreDir(t)
	synctest.Test(t, func(t *testing.T) {
		s, err := server.NewServer(&server.Options{
			DontListen: true, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
			Users: []*server.User{{Username: "u", Password: "x", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"$KV.E.a"}},
			}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		if !s.ReadyForConnections(time.Minute) {
			t.Fatal("the server does not start")
		}
		nc, err := nats.Connect("", nats.InProcessServer(s), nats.UserInfo("u", "x"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		var a Stream
		a.Init(js, "KV_E")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = a.Store(ctx, &nats.Msg{Subject: "$KV.E.a"}); !errors.Is(err, backend.ErrPermission) {
			t.Fatalf("a denied write: %v", err)
		}
		if err = a.denied("$KV.E.a", nc.LastError()); err != nil {
			t.Errorf("an old denial is taken for a new one: %v", err)
		}
	})
}
