//go:build field && unix

package main

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// startInDomain starts a server with a JetStream domain.
func startInDomain(t *testing.T, domain, leafnodes string) *server.Server {
	t.Helper()
	return startServer(t, func(o *server.Options) {
		expect.OK(t, o.ProcessConfigString(fmt.Sprintf("server_name: %s-1, jetstream { domain: %[1]s }\nleafnodes { %s }", domain, leafnodes)))
	})
}

// A hub and a leaf node have a JetStream domain each, and a bucket of the same name. Commands name the domain of the
// bucket that they show, and doctor notes the other bucket.
func TestDomains_AreNamed(t *testing.T) {
	t.Parallel()
	hub := startInDomain(t, "hub", "host: 127.0.0.1, port: -1")
	v := expect.Got(hub.Varz(nil))(t)
	edge := startInDomain(t, "edge", fmt.Sprintf(`reconnect: "50ms", remotes: [ { url: "nats-leaf://127.0.0.1:%d" } ]`, v.LeafNode.Port))
	testworld.Eventually(t, "the leaf node is connected", func() bool { return hub.NumLeafNodes() == 1 && edge.NumLeafNodes() == 1 })
	makes := func(s *server.Server) {
		nc := expect.Got(nats.Connect(s.ClientURL()))(t)
		defer nc.Close()
		js := expect.Got(jetstream.New(nc))(t)
		expect.Got(leader.CreateOrUpdateBucket(t.Context(), js, leader.BucketConfig{Name: "elections"}))(t)
	}
	shows := func(code int, args []string, texts ...string) {
		t.Helper()
		out, errs, got := outcome(t, natsleader(t, args...))
		expect.That(t, got == code, "%v: exit code %d\n%s%s", args, got, out, errs)
		printed(t, out, texts...)
	}
	makes(hub)
	out, _ := diagnose(t, hub.ClientURL())
	printed(t, out, "\nok domain the bucket is in the JetStream domain hub, and not in edge\n")
	makes(edge)
	for _, k := range []struct{ here, there string }{{"hub", "edge"}, {"edge", "hub"}} {
		url := map[string]string{"hub": hub.ClientURL(), "edge": edge.ClientURL()}[k.here]
		out, _ := diagnose(t, url)
		printed(t, out, "\nok domain the bucket is in the JetStream domain "+k.here+"\n",
			"\nnote domain the JetStream domain "+k.there+" has a bucket of this name, too: ",
			"natsleader bucket rm elections --js-domain "+k.there+"\n")
		out, _ = diagnose(t, url, "--js-domain", k.there)
		printed(t, out, "\nok domain the bucket is in the JetStream domain "+k.there+"\n", "the JetStream domain "+k.here+" has a bucket")
		shows(0, []string{"bucket", "info", "-s", url}, "\nDomain:         "+k.here+"\n")
		shows(0, []string{"status", "-s", url}, "\nJetStream domain: "+k.here+"\n")
		shows(1, []string{"status", "billing", "-s", url}, "\nDomain:    "+k.here+"\n")
		shows(1, []string{"status", "billing", "--json", "-s", url, "--js-domain", k.there}, `"domain": "`+k.there+`"`)
	}
}
