package main

import (
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// powerless may not read streams: what it is denied shows that a command has connected as this user.
var powerless = testworld.Denied("$JS.API.STREAM.>")

// The selected context is used. Environment variables override it, and flags override both.
func TestConnect_FlagsOverride(t *testing.T) {
	const nowhere = `{"url":"nats://127.0.0.1:1","user":"ada","password":"ada","creds":"nowhere.creds"}`
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		file := w.WithContext("good", `{"url":"nats://127.0.0.1:4222","user":"ada","password":"ada"}`)
		w.Chdir(filepath.Dir(file))
		w.Notef("# the context good is selected\n")
		w.Prompt("bucket ls", "bucket ls -s nats://ada:secret@127.0.0.1:1")
		w.Notef("# the context nowhere is selected\n")
		w.WithContext("nowhere", nowhere)
		w.Prompt("bucket ls", "bucket ls --context good", "bucket ls --context good.json", "bucket ls --context unknown")
		w.Prompt("bucket ls --no-context -s nats://127.0.0.1:4222 --user ada --password ada")
		w.WriteFile("nowhere.creds", "")
		w.Prompt("bucket ls")
		w.Notef("# NATS_URL, NATS_USER and NATS_PASSWORD are set, and the context is selected still\n")
		w.WriteFile("nowhere.json", `{"url":"nats://127.0.0.1:1"}`)
		w.Setenv("NATS_URL", "nats://127.0.0.1:4222")
		w.Setenv("NATS_USER", "ada")
		w.Setenv("NATS_PASSWORD", "ada")
		w.Prompt("bucket ls", "bucket ls -s nats://127.0.0.1:1")
	}, testworld.WithUser("ada", powerless))
}

// A selected context that was removed is an error, unless --server says where to connect to.
func TestConnect_SelectedContextIsGone(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		expect.OK(w, os.Remove(w.WithContext("gone", `{"url":"nats://127.0.0.1:1"}`)))
		w.Prompt("bucket ls", "bucket ls -s nats://127.0.0.1:4222", "bucket ls -s nats://127.0.0.1:4222 --context gone")
	})
}

// An NKey, a token and the JetStream domain of the flags are used. Files that cannot be used are named, and
// are not taken for a server that is gone.
func TestConnect_Credentials(t *testing.T) {
	pair := expect.Got(nkeys.CreateUser())(t)
	public := expect.Got(pair.PublicKey())(t)
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Chdir(w.TempDir())
		seed := expect.Got(pair.Seed())(w)
		w.WriteFile("user.nk", string(seed))
		w.WriteFile("cert.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
		w.WriteFile("text", "no key and no certificate")
		w.Prompt("bucket ls --nkey user.nk", "bucket ls --nkey text")
		for _, flag := range []string{"--creds", "--nkey", "--tlscert", "--tlskey", "--tlsca"} {
			w.Prompt("bucket ls " + flag + " nowhere")
		}
		w.Prompt("bucket ls --tlscert cert.pem", "bucket ls --tlskey text", "bucket ls --tlscert cert.pem --tlskey text", "bucket ls --tlsca text")
	}, testworld.WithUser("ada", nil), func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public, Permissions: powerless}} })
}

// A token is used, also as the name of a user, as `nats` does; and so is the JetStream domain.
func TestConnect_TokenAndDomain(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("bucket ls --token opensesame", "bucket ls --user opensesame")
		w.Setenv("NATS_TOKEN", "opensesame")
		w.Prompt("bucket ls --js-domain hub", "bucket ls --js-api-prefix $JS.hub.API")
		w.Prompt("bucket info --js-domain no", "bucket add --js-domain no", "status --js-domain no")
		w.Prompt("bucket info --bucket KV_jobs")
	}, func(o *server.Options) { o.Authorization, o.JetStreamDomain = "opensesame", "hub" })
}

// sized is a deaf connection that notes how long its last write could wait.
type sized struct {
	deaf
	limit atomic.Int64
}

func (s *sized) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() {
		s.limit.Store(int64(time.Until(t)))
	}
	return s.deaf.SetWriteDeadline(t)
}

// A server that hangs is given up within seconds, and so is a write that it does not take. The connection comes back when
// the server does, however late.
func TestConnect_HungServer(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		var hung atomic.Bool
		var last *sized
		w.Dialled = func(c net.Conn) net.Conn {
			last = &sized{deaf: deaf{c, func([]byte) bool { return !hung.Load() }}}
			return last
		}
		lost := make(chan time.Time, 1)
		nc := expect.Got(w.Globals().Connect(nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				lost <- time.Now()
			}
		})))(w)
		defer nc.Close()
		expect.OK(w, nc.Flush())
		expect.Equal(w, time.Duration(last.limit.Load()), front.FlusherTimeout, "a write waits for %v")
		began := time.Now()
		hung.Store(true)
		expect.Equal(w, (<-lost).Sub(began), 3*time.Second, "the connection is lost after %v")
		time.Sleep(10 * time.Minute)
		hung.Store(false)
		time.Sleep(5 * time.Second)
		expect.That(w, nc.IsConnected(), "it is not connected again: %v", nc.Status())
	})
}

// Each command reports an account without JetStream.
func TestConnect_AccountWithoutJetStream(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		for _, command := range []string{"status", "watch", "bucket add", "bucket info", "step-down x"} {
			w.Prompt(command + " -s nats://none:none@localhost")
		}
	}, func(o *server.Options) {
		conf := filepath.Join(t.TempDir(), "server.conf")
		text := `jetstream: enabled, no_auth_user: b
accounts: {A: {users: [{user: none, password: none}]}, B: {jetstream: enabled, users: [{user: b, password: b}]}}`
		expect.OK(t, os.WriteFile(conf, []byte(text), 0o600))
		from := expect.Got(server.ProcessConfigFile(conf))(t)
		o.Accounts, o.Users, o.NoAuthUser = from.Accounts, from.Users, from.NoAuthUser
	})
}
