//go:build field && prove

package leader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/leader"
)

// Guards on servers of earlier versions, which "make servers" builds. The results for
// 2.11.4 are the reason why guards refuse it.

// binaryOf returns the path of a server of that version.
func binaryOf(t *testing.T, version string) string {
	t.Helper()
	binary := check.Got(filepath.Abs("../.tools/nats-server-" + version))(t)
	check.Got(os.Stat(binary))(t)
	return binary
}

// oldServers starts a cluster of servers of those versions, or one server. The user "least" of each may
// not ask for versions.
func oldServers(t *testing.T, versions ...string) *testcluster.Cluster {
	t.Helper()
	o := testcluster.Options{
		Connect: func(urls string) *nats.Conn { return tcpDial(t, urls, nats.RetryOnFailedConnect(true)) },
		More: func(string) string {
			return `no_auth_user: all
			authorization { users: [
				{ user: all, password: x }
				{ user: least, password: x, permissions: { publish: { deny: "$SYS.>" } } } ] }`
		},
	}
	for _, v := range versions {
		o.Binaries = append(o.Binaries, binaryOf(t, v))
	}
	c := testcluster.New(t, o)
	for i, url := range strings.Split(c.URLs, ",") {
		tcpEventually(t, "the server answers", func() bool {
			nc, err := nats.Connect(url)
			if err != nil {
				return false
			}
			defer nc.Close()
			got := nc.ConnectedServerVersion()
			check.Must(t, "v"+got == versions[i], "%s is of version %s", o.Binaries[i], got)
			return true
		})
	}
	return c
}

// lyingConn replaces the server's version with another one for the client.
type lyingConn struct {
	net.Conn
	from, to []byte
}

func (c *lyingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	copy(p, bytes.ReplaceAll(p[:n], c.from, c.to))
	return n, err
}

// lyingDialer makes a server of that version report a version 2.99.
type lyingDialer string

func (v lyingDialer) Dial(network, address string) (net.Conn, error) {
	nc, err := net.Dial(network, address)
	lie := "2.99." + strings.Repeat("9", len(v)-len("v2.99."))
	return &lyingConn{nc, []byte(`_nats.ver":"` + v[1:]), []byte(`_nats.ver":"` + lie)}, err
}

// staleWrites sends writes with a condition that does not hold, with the headers of a
// writer and others. It returns how many were stored.
func staleWrites(t *testing.T, nc *nats.Conn, kv jetstream.KeyValue, n int, others nats.Header) (stored int) {
	t.Helper()
	js := tcpJS(t, nc)
	check.Got(kv.PutString(t.Context(), fence.DefaultGuardKey, "x"))(t)
	stale := check.Got(kv.PutString(t.Context(), fence.DefaultGuardKey, "x"))(t)
	check.Got(kv.PutString(t.Context(), fence.DefaultGuardKey, "y"))(t)
	pre := "$KV." + kv.Bucket() + "."
	for range n {
		h := nats.Header{
			jetstream.ExpectedLastSubjSeqHeader:     {strconv.FormatUint(stale, 10)},
			jetstream.ExpectedLastSubjSeqSubjHeader: {pre + fence.DefaultGuardKey},
		}
		maps.Copy(h, others)
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: pre + "k", Header: h})
		var api *jetstream.APIError
		switch {
		case err == nil:
			stored++
		case !errors.As(err, &api) || api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence:
			t.Fatal(err)
		}
	}
	return stored
}

// The table says which versions apply the condition on another subject. The facts behind
// the least version.
func TestOldServers_Conditions(t *testing.T) {
	const n = 400
	for version, sound := range map[string]bool{"v2.10.29": false, "v2.11.4": false, "v2.11.8": true} {
		t.Run(version, func(t *testing.T) {
			nc := tcpDial(t, oldServers(t, version).URLs)
			kv := check.Got(tcpJS(t, nc).CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "orders"}))(t)
			stored := staleWrites(t, nc, kv, n, nil)
			t.Logf("%s stored %d of %d writes whose condition does not hold", version, stored, n)
			check.That(t, sound == (stored == 0), "%d of %d were stored, sound: %v", stored, n, sound)
		})
	}
}

// The table says which headers hide the condition on the least version. The reason why
// writers refuse some headers of the caller, also on the least version.
func TestOldServers_HidingHeaders(t *testing.T) {
	nc := tcpDial(t, oldServers(t, "v2.11.8").URLs)
	kv := check.Got(tcpJS(t, nc).CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "orders"}))(t)
	for name, value := range map[string]string{
		"X-Nats-Expected-Last-Subject-Sequence": "1",
		"X":                                     "Nats-Expected-Last-Subject-Sequence: 1",
	} {
		stored := staleWrites(t, nc, kv, 100, nats.Header{name: {value}})
		t.Logf("with %s: %s, %d of 100 writes were stored whose condition does not hold", name, value, stored)
		check.That(t, stored != 0, "none was stored with %s: %s", name, value)
	}
}

// A check refuses an old server by its version. Whatever version the server reports,
// the check also refuses it by its behaviour, in each of many tries.
func TestOldServers_CheckRefuses(t *testing.T) {
	for version, text := range map[string]string{
		"v2.10.29": "which leads the stream, does not tell its version, as before 2.11; update it",
		"v2.11.4":  "which leads the stream, is of version 2.11.4; update it",
	} {
		t.Run(version, func(t *testing.T) {
			nc := tcpDial(t, oldServers(t, version).URLs)
			js := tcpJS(t, nc)
			check.Got(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "orders"}))(t)
			g := check.Got(fence.OpenBucket(js, "orders"))(t)
			err := checked(t.Context(), g)
			want := leader.ErrIncompatibleBucket.Error() + ": bucket orders needs nats-server 2.11.8 or later on all servers that keep it, " +
				"or else some writes of earlier terms are accepted: server s1, " + text
			check.That(t, errors.Is(err, leader.ErrIncompatibleBucket) && err.Error() == want,
				"got\n %v\nwant\n %s", err, want)
			a := tcpElectionOf(t, "e").stand(oldBucket(t, js), leader.Config{ID: "a", Guards: []leader.Guard{g}})
			a.Expect(leadertest.Faulted(leader.ErrIncompatibleBucket))
			check.That(t, a.State() == leader.StateCandidate, "a is %v", a.State())
			if h, err := leader.Lookup(t.Context(), tcpBucket(t, js), "e"); err != nil || h.ID != "" {
				t.Errorf("Lookup: %v, %v", h, err)
			}
		})
	}
	t.Run("v2.11.4 that tells another version", func(t *testing.T) {
		nc := tcpDial(t, oldServers(t, "v2.11.4").URLs, nats.SetCustomDialer(lyingDialer("v2.11.4")))
		js := tcpJS(t, nc)
		kv := check.Got(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "orders"}))(t)
		_, err := kv.Create(t.Context(), fence.DefaultGuardKey, []byte("x")) // on a condition, as a candidate does
		check.OK(t, err)
		g := check.Got(fence.OpenBucket(js, "orders"))(t)
		for range 200 {
			if err := checked(t.Context(), g); !errors.Is(err, leader.ErrIncompatibleBucket) || !strings.Contains(err.Error(), "says that it is of version 2.99.9") {
				t.Fatal(err)
			}
		}
		if e, err := kv.Get(t.Context(), fence.DefaultGuardKey); err != nil || string(e.Value()) != "x" {
			t.Errorf("the guard is %v, %v", e, err)
		}
	})
}

// oldBucket makes the bucket E on a server that may not have everything that
// CreateOrUpdateBucket asks for.
func oldBucket(t *testing.T, js jetstream.JetStream) *leader.Bucket {
	t.Helper()
	check.Got(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "E"}))(t)
	return tcpBucket(t, js)
}

// On the least version every zombie is fenced.
func TestOldServers_LeastVersionFences(t *testing.T) {
	const zombies = 100
	js := tcpJS(t, tcpDial(t, oldServers(t, "v2.11.8").URLs))
	tcpCreate(t, js, leader.BucketConfig{})
	b := tcpBucket(t, js)
	kv := check.Got(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "orders"}))(t)
	el := tcpElectionOf(t, "e")
	var writers []*fence.BucketWriter
	for i := range zombies + 1 {
		g := check.Got(fence.OpenBucket(js, "orders"))(t)
		c := el.stand(b, leader.Config{ID: strconv.Itoa(i), Guards: []leader.Guard{g}})
		writers = append(writers, g.Writer(tcpTerm(c)))
		if i < zombies {
			check.OK(t, c.Stop())
		}
	}
	leads := writers[zombies]
	check.Got(leads.Put(t.Context(), "k", []byte("the leader's")))(t)
	for i, w := range writers[:zombies] {
		_, err := w.Put(t.Context(), "k", []byte("a zombie's"))
		check.That(t, errors.Is(err, leader.ErrFenced), "zombie %d: %v", i, err)
	}
	e := check.Got(kv.Get(t.Context(), "k"))(t)
	check.That(t, string(e.Value()) == "the leader's", "the key holds %q", e.Value())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	check.Got(leads.Put(ctx, "k", []byte("again")))(t)
}

// In a cluster that is being updated, the check covers every server that keeps the
// stream, whichever leads it, and whichever the candidate is connected to.
func TestOldServers_OneInACluster(t *testing.T) {
	c := oldServers(t, "v2.11.8", "v2.11.4", "v2.11.8")
	testcluster.Until(t, "the bucket can be made", func(ctx context.Context) error {
		return check.Err(c.JS.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "orders", Replicas: 3}))
	})
	// refused waits for the result of a check on each server.
	refused := func(text string) {
		t.Helper()
		for i, url := range strings.Split(c.URLs, ",") {
			g := check.Got(fence.OpenBucket(tcpJS(t, tcpDial(t, url)), "orders"))(t)
			tcpEventually(t, fmt.Sprintf("connected to s%d: %s", i+1, text), func() bool {
				err := checked(t.Context(), g)
				check.Must(t, err != nil, "connected to s%d: fit", i+1)
				return errors.Is(err, leader.ErrIncompatibleBucket) && strings.Contains(err.Error(), ": "+text+"; update it")
			})
		}
	}
	c.Lead("orders", c.Nodes[1])
	refused("server s2, which leads the stream, is of version 2.11.4")
	c.Lead("orders", c.Nodes[0])
	refused("server s2, which may come to lead the stream, is of version 2.11.4")

	// Without the permission to ask, the servers that do not lead are not known. The
	// application is notified of one denial.
	var denials atomic.Int32
	nc := tcpDial(t, "nats://"+c.Nodes[0].Address, nats.UserInfo("least", "x"),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) { denials.Add(1) }))
	g := check.Got(fence.OpenBucket(tcpJS(t, nc), "orders"))(t)
	for range 3 {
		check.OK(t, checked(t.Context(), g))
	}
	n := denials.Load()
	check.That(t, n >= 1 && n <= 2, "%d denials", n) // one for each of the other servers
}
