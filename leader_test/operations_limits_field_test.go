//go:build field

package leader_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// tcpAccount starts a server with one account, which has these limits of JetStream.
func tcpAccount(t *testing.T, limits, more string) string {
	t.Helper()
	return tcpServe(t, tcpOptions(t, `
		accounts { APP { users: [ { user: app, password: x } ], jetstream { `+limits+` } } }
		no_auth_user: app
		`+more)).ClientURL()
}

// Other streams use up the storage of the account. The server refuses renewals, so the leader is
// fenced and nobody leads. When there is room again, a candidate leads without a restart of anything.
func TestOperations_AccountStorageUsedUp(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	url := tcpAccount(t, "max_file: 1MB, max_mem: 1MB", "")
	js := tcpJS(t, tcpDial(t, url))
	tcpCreate(t, js, leader.BucketConfig{})
	other, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "other", Subjects: []string{"other"}})
	check.OK(t, err)
	el := tcpElectionOf(t, "e")
	a := el.stand(tcpBucket(t, tcpJS(t, tcpDial(t, url))), leader.Config{ID: "a", LeaseDuration: operationLease})
	tcpTerm(a)
	for size := 64 << 10; size > 0; size /= 2 { // until not even a byte fits
		for err = nil; err == nil; {
			_, err = js.Publish(t.Context(), "other", bytes.Repeat([]byte{1}, size))
		}
		var api *jetstream.APIError
		check.Must(t, errors.As(err, &api) && api.ErrorCode == resourceLimits, "the storage is not used up: %v", err)
	}
	a.Expect(refusedFor(resourceLimits), leadertest.Fenced(leader.ErrLeaseExpired))
	check.OK(t, other.Purge(t.Context()))
	a.Expect(leadertest.Deposed(leader.ErrLeaseExpired), leadertest.Elected())
}

// refusedFor matches a Faulted event with that code of the JetStream API.
func refusedFor(code jetstream.ErrorCode) leadertest.Matcher {
	return leadertest.Match(fmt.Sprintf("Faulted with code %d", code), func(e leader.Event) bool {
		f, ok := e.(leader.Faulted)
		var api *jetstream.APIError
		return ok && errors.As(f.Err, &api) && api.ErrorCode == code
	})
}

// resourceLimits is the server's JSAccountResourcesExceededErr.
const resourceLimits = 10002

// streamsUsedUp is the server's JSMaximumStreamsLimitErr.
const streamsUsedUp = 10027

// The account may have no more streams. A bucket cannot be made, and the error quotes the server.
// The elections of the bucket that is there go on.
func TestOperations_AccountStreamsUsedUp(t *testing.T) {
	t.Parallel()
	url := tcpAccount(t, "max_streams: 1", "")
	js := tcpJS(t, tcpDial(t, url))
	tcpCreate(t, js, leader.BucketConfig{MaxLease: tcpLong})
	_, err := leader.CreateOrUpdateBucket(t.Context(), js, leader.BucketConfig{Name: "F"})
	var api *jetstream.APIError
	check.That(t, errors.As(err, &api) && api.ErrorCode == streamsUsedUp, "CreateOrUpdateBucket: %v", err)
	open := func() *leader.Bucket { return tcpBucket(t, tcpJS(t, tcpDial(t, url))) }
	tcpHandover(t, open, open, leader.Config{})
}

// The server takes no more connections. A process that starts has none to give to the library, and
// the leader and the waiting candidate go on.
func TestOperations_ConnectionsUsedUp(t *testing.T) {
	t.Parallel()
	url := tcpAccount(t, "max_streams: 1", "max_connections: 2")
	first, second := tcpJS(t, tcpDial(t, url)), tcpJS(t, tcpDial(t, url))
	if nc, err := nats.Connect(url); err == nil {
		nc.Close()
		t.Error("there is a third connection")
	}
	tcpCreate(t, first, leader.BucketConfig{MaxLease: tcpLong})
	tcpHandover(t,
		func() *leader.Bucket { return tcpBucket(t, first) },
		func() *leader.Bucket { return tcpBucket(t, second) },
		leader.Config{})
}
