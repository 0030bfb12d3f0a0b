package natskv

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
)

// askEnsured asks for the settings of the bucket E as a candidate of EnsureBucket does.
func askEnsured(t *lab, js jetstream.JetStream) error {
	t.Helper()
	b := check.Got(Ensure(js, Config{Name: "E"}))(t)
	t.buckets = append(t.buckets, b)
	return check.Err(await(func(r func(backend.Settings, error)) { b.SettingsEnsured(t.Context(), r) }))
}

// keptDomain returns the domain in the metadata of the bucket E, and deletes the bucket.
func keptDomain(t *lab, js jetstream.JetStream) string {
	t.Helper()
	domain := check.Got(js.Stream(t.Context(), "KV_E"))(t).CachedInfo().Config.Metadata[wire.DomainKey]
	t.ok(js.DeleteStream(t.Context(), "KV_E"))
	return domain
}

// A server with a domain that is no leaf node gets the bucket, which keeps the name of the domain, also if the client may not
// ask for it. A client that has named a domain then does not know it before it has seen the bucket: the next
// CreateOrUpdateBucket keeps it.
func TestDomain_OfTheServer(t *testing.T) {
	deny := &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.INFO", "$JS.hub.API.INFO", wire.ConnectionsSubject}}}
	users := []*server.User{{Username: "all", Password: "x"}, {Username: "x", Password: "x", Permissions: deny}}
	bubble(t, server.Options{ServerName: "n1", JetStreamDomain: "hub", Users: users}, func(t *lab) {
		for _, k := range []struct{ user, named, want string }{{"all", "", "hub"}, {"all", "hub", "hub"}, {"x", "", "hub"}, {"x", "hub", ""}} {
			nc := dial(t, t.s, nats.UserInfo(k.user, "x"))
			if _, tells := any(nc).(interface{ ConnectedDomain() string }); !tells && k.named == "" { // nats.go 1.53
				k.want = ""
			}
			js := check.Got(jetstream.New(nc))(t)
			if k.named != "" {
				js = check.Got(jetstream.NewWithDomain(nc, k.named))(t)
			}
			t.ok(askEnsured(t, js))
			check.Equal(t, keptDomain(t, js), k.want, "the metadata name %q for %+v", k)
			b := mustCreate(t, js, Config{})
			check.Equal(t, check.Got(b.Info(t.Context()))(t).Domain, "hub", "the domain is %q for %+v", k)
			mustCreate(t, js, Config{})
			check.Equal(t, keptDomain(t, js), "hub", "the metadata name %q for %+v", k)
		}
	})
}

// EnsureBucket makes no bucket on a leaf node with a domain of its own unless the context names a domain.
// CreateOrUpdateBucket makes it there.
func TestEnsure_LeafNode(t *testing.T) {
	bubble(t, server.Options{ServerName: "n1", Cluster: server.ClusterOpts{Name: "n1"}, JetStreamDomain: "edge"}, func(t *lab) {
		nc := dial(t, t.s)
		js := check.Got(jetstream.New(nc))(t)
		wantErr(t, askEnsured(t, js), backend.ErrNoBucket, `on a leaf node, in the JetStream domain "edge"`, "jetstream.NewWithDomain", "leader.CreateOrUpdateBucket")
		check.Is(t, check.Err(js.Stream(t.Context(), "KV_E")), jetstream.ErrStreamNotFound)
		t.ok(askEnsured(t, check.Got(jetstream.NewWithDomain(nc, "edge"))(t)))
		check.Equal(t, keptDomain(t, js), "edge", "the metadata name %q")
		mustCreate(t, js, Config{})
		t.ok(askEnsured(t, js)) // it is there
		check.Equal(t, keptDomain(t, js), "edge", "the metadata name %q")
	})
}

// A leaf node without a domain gets the bucket: where it would be is not known.
func TestEnsure_LeafNodeWithoutDomain(t *testing.T) {
	bubble(t, server.Options{ServerName: "n1", Cluster: server.ClusterOpts{Name: "n1"}}, func(t *lab) {
		js := dialJS(t, t.s)
		t.ok(askEnsured(t, js))
		check.Equal(t, keptDomain(t, js), "", "the metadata name %q")
	})
}

// A bucket that was made in another domain, as a restored backup, is reported until CreateOrUpdateBucket makes
// it one of this domain.
func TestDomain_OfAnother(t *testing.T) {
	for name, opts := range map[string]server.Options{"hub": {JetStreamDomain: "hub"}, "": {}} {
		bubble(t, opts, func(t *lab) {
			js := dialJS(t, t.s)
			b := mustCreate(t, js, Config{MaxLease: time.Minute})
			move := func(domain string) {
				conf := check.Got(js.Stream(t.Context(), "KV_E"))(t).CachedInfo().Config
				conf.Metadata[wire.DomainKey] = domain
				check.Got(js.UpdateStream(t.Context(), conf))(t)
			}
			move("edge")
			s, err := settingsOf(t.Context(), b)
			wantErr(t, err, backend.ErrIncompatibleBucket, `was made in the JetStream domain "edge"`, "`natsleader bucket add E`")
			check.Equal(t, s.MaxLease, time.Minute, "MaxLease is %v") // a leader goes on with them
			info, err := b.Info(t.Context())
			wantErr(t, err, backend.ErrIncompatibleBucket)
			check.Equal(t, info.Domain, name, "the domain is %q")
			_, _, err = b.Known()
			wantErr(t, err, backend.ErrIncompatibleBucket)
			mustCreate(t, js, Config{})
			t.ok(check.Err(settingsOf(t.Context(), b)))
			check.Equal(t, keptDomain(t, js), name, "the metadata name %q")
		})
	}
}
