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

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// writeFile writes a file, and returns its path.
func (w *world) writeFile(path, text string) string {
	w.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	expect.OK(w, err)
	return path
}

// withContext writes a context for commands, and selects it.
func (w *world) withContext(name, json string) (path string) {
	dir := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "nats")
	w.writeFile(filepath.Join(dir, "context.txt"), name)
	return w.writeFile(filepath.Join(dir, "context", name+".json"), json)
}

// powerless may not read streams: what it is denied shows that a command has connected as this user.
var powerless = denied("$JS.API.STREAM.>")

// The selected context is used. Environment variables override it, and flags override both.
func TestConnect_FlagsOverride(t *testing.T) {
	const nowhere = `{"url":"nats://127.0.0.1:1","user":"ada","password":"ada","creds":"nowhere.creds"}`
	bubble(t, leader.BucketConfig{}, func(w *world) {
		file := w.withContext("good", `{"url":"nats://127.0.0.1:4222","user":"ada","password":"ada"}`)
		w.Chdir(filepath.Dir(file))
		w.notef("# the context good is selected\n")
		w.prompt("bucket ls", "bucket ls -s nats://ada:secret@127.0.0.1:1")
		w.notef("# the context nowhere is selected\n")
		w.withContext("nowhere", nowhere)
		w.prompt("bucket ls", "bucket ls --context good", "bucket ls --context good.json", "bucket ls --context unknown")
		w.prompt("bucket ls --no-context -s nats://127.0.0.1:4222 --user ada --password ada")
		w.writeFile("nowhere.creds", "")
		w.prompt("bucket ls")
		w.notef("# NATS_URL, NATS_USER and NATS_PASSWORD are set, and the context is selected still\n")
		w.writeFile("nowhere.json", `{"url":"nats://127.0.0.1:1"}`)
		w.Setenv("NATS_URL", "nats://127.0.0.1:4222")
		w.Setenv("NATS_USER", "ada")
		w.Setenv("NATS_PASSWORD", "ada")
		w.prompt("bucket ls", "bucket ls -s nats://127.0.0.1:1")
	}, withUser("ada", powerless))
}

// A selected context that was removed is an error, unless --server says where to connect to.
func TestConnect_SelectedContextIsGone(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		expect.OK(w, os.Remove(w.withContext("gone", `{"url":"nats://127.0.0.1:1"}`)))
		w.prompt("bucket ls", "bucket ls -s nats://127.0.0.1:4222", "bucket ls -s nats://127.0.0.1:4222 --context gone")
	})
}

// An NKey, a token and the JetStream domain of the flags are used. Files that cannot be used are named, and
// are not taken for a server that is gone.
func TestConnect_Credentials(t *testing.T) {
	pair := expect.Got(nkeys.CreateUser())(t)
	public := expect.Got(pair.PublicKey())(t)
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.Chdir(w.TempDir())
		seed := expect.Got(pair.Seed())(w)
		w.writeFile("user.nk", string(seed))
		w.writeFile("cert.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
		w.writeFile("text", "no key and no certificate")
		w.prompt("bucket ls --nkey user.nk", "bucket ls --nkey text")
		for _, flag := range []string{"--creds", "--nkey", "--tlscert", "--tlskey", "--tlsca"} {
			w.prompt("bucket ls " + flag + " nowhere")
		}
		w.prompt("bucket ls --tlscert cert.pem", "bucket ls --tlskey text", "bucket ls --tlscert cert.pem --tlskey text", "bucket ls --tlsca text")
	}, withUser("ada", nil), func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public, Permissions: powerless}} })
}

// A token is used, also as the name of a user, as `nats` does; and so is the JetStream domain.
func TestConnect_TokenAndDomain(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("bucket ls --token opensesame", "bucket ls --user opensesame")
		w.Setenv("NATS_TOKEN", "opensesame")
		w.prompt("bucket ls --js-domain hub", "bucket ls --js-api-prefix $JS.hub.API")
		w.prompt("bucket info --js-domain no", "bucket add --js-domain no", "status --js-domain no")
		w.prompt("bucket info --bucket KV_jobs")
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
	bubble(t, leader.BucketConfig{}, func(w *world) {
		var hung atomic.Bool
		var last *sized
		w.dialled = func(c net.Conn) net.Conn {
			last = &sized{deaf: deaf{c, func([]byte) bool { return !hung.Load() }}}
			return last
		}
		lost := make(chan time.Time, 1)
		nc := expect.Got(w.globals().connect(nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				lost <- time.Now()
			}
		})))(w)
		defer nc.Close()
		expect.OK(w, nc.Flush())
		expect.Equal(w, time.Duration(last.limit.Load()), flusherTimeout, "a write waits for %v")
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
	bubble(t, leader.BucketConfig{}, func(w *world) {
		for _, command := range []string{"status", "watch", "bucket add", "bucket info", "step-down x"} {
			w.prompt(command + " -s nats://none:none@localhost")
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
