//go:build field

package leader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// The application may be denied an inbox of its own. That has no bearing on the replies
// to requests.
func TestPermissions_DeniedAppInbox(t *testing.T) {
	for _, old := range []bool{false, true} {
		s := tcpServe(t, tcpOptions(t, `
			authorization { users: [
				{ user: all, password: x }
				{ user: app, password: x, permissions: { subscribe: { deny: "_INBOX.secret.>" } } }
			] }`))
		tcpCreate(t, tcpJS(t, tcpDial(t, s.ClientURL(), nats.UserInfo("all", "x"))), leader.BucketConfig{})
		opts := []nats.Option{nats.UserInfo("app", "x")}
		if old {
			opts = append(opts, nats.UseOldRequestStyle())
		}
		nc := tcpDial(t, s.ClientURL(), opts...)
		check.Got(nc.SubscribeSync("_INBOX.secret.x"))(t)
		check.OK(t, nc.Flush())
		check.Is(t, nc.LastError(), nats.ErrPermissionViolation)
		b := tcpBucket(t, tcpJS(t, nc))

		heard := make(chan error, 1)
		b.Backend().Watch(t.Context(), "e", nil, func(backend.FeedEvent) {}, func(f backend.Feed, err error) {
			if f != nil {
				defer f.Stop()
			}
			heard <- err
		})
		check.Is(t, <-heard, nil)
		c := tcpElectionOf(t, "e").stand(b, leader.Config{})
		c.Expect(leadertest.Elected())
		check.Is(t, check.Err(leader.StepDown(t.Context(), b, "e", leader.StepDownOptions{By: "test"})), nil)

		// A request that is received and not answered.
		quiet := tcpDial(t, s.ClientURL(), nats.UserInfo("all", "x"))
		check.Got(quiet.SubscribeSync("quiet.>"))(t)
		check.OK(t, quiet.Flush())
		js := check.Got(jetstream.NewWithAPIPrefix(nc, "quiet"))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := leader.Lookup(ctx, tcpBucket(t, js), "e")
		check.That(t, errors.Is(err, leader.ErrUnreachable) && !errors.Is(err, leader.ErrPermission),
			"without an answer: %v", err)
	}
}

// Denied replies are reported with every request. The subscription to the replies is made
// once for a connection, so its denial lasts.
func TestPermissions_DeniedReplies(t *testing.T) {
	t.Parallel()
	s := tcpServe(t, tcpOptions(t, `
		authorization { users: [ { user: app, password: x, permissions: { subscribe: { deny: "_INBOX.>" } } } ] }`))
	nc := tcpDial(t, s.ClientURL(), nats.UserInfo("app", "x"))
	b := tcpBucket(t, tcpJS(t, nc))
	for _, limit := range []time.Duration{4 * time.Second, 100 * time.Millisecond, 100 * time.Millisecond} { // the denial comes once
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		check.Is(t, check.Err(leader.Lookup(ctx, b, "e")), leader.ErrPermission)
		cancel()
	}
}

// The leader on the same connection hands over. A connection with nats.NoEcho does not
// receive its own messages: neither its requests to its own candidates, nor its writes,
// except when the server republishes them.
func TestNoEcho_HandsOver(t *testing.T) {
	t.Parallel()
	for _, republishes := range []bool{true, false} {
		s := tcpServe(t, tcpOptions(t, ""))
		nc := tcpDial(t, s.ClientURL(), nats.NoEcho())
		js := tcpJS(t, nc)
		tcpCreate(t, js, leader.BucketConfig{MaxLease: tcpLong})
		if !republishes {
			stream := check.Got(js.Stream(t.Context(), "KV_E"))(t)
			conf := stream.CachedInfo().Config
			conf.RePublish = nil
			check.Got(js.UpdateStream(t.Context(), conf))(t)
		}
		el := tcpElectionOf(t, "e")
		a := el.stand(tcpBucket(t, js), leader.Config{ID: "a"})
		term := tcpTerm(a)
		b := el.stand(tcpBucket(t, js), leader.Config{ID: "b"})
		b.Expect(leadertest.Observed("a"))
		check.Got(leader.StepDown(t.Context(), tcpBucket(t, js), "e", leader.StepDownOptions{By: "test"}))(t)
		check.Is(t, context.Cause(term.Context()), leader.ErrResigned)
		b.Expect(leadertest.Elected()) // it heard of the release: the lease is an hour
		_, err := leader.StepDown(t.Context(), tcpBucket(t, tcpJS(t, tcpDial(t, s.ClientURL()))), "e", leader.StepDownOptions{By: "another connection"})
		check.That(t, err == nil, "%v", err)
	}
}
