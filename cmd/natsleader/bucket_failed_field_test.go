//go:build field

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// A bucket whose roster is refused, or a roster whose bucket is refused, leaves nothing half
// done.
func TestBucketAdd_FailedRoster(t *testing.T) {
	s := configured(t, fmt.Sprintf(`host: 127.0.0.1, port: -1, jetstream { store_dir: %q }
		accounts { A { jetstream { max_streams: 2 }, users: [ { user: a, password: x } ] } }`, testserver.StoreDir(t)))
	url := asUser(s, "a")
	_, js := connectTo(t, url)
	foreign := jetstream.StreamConfig{Name: "KV_elections_roster", Subjects: []string{"elsewhere"}}
	fails := func(words string, left ...string) {
		t.Helper()
		out, errs, code := outcome(t, natsleader(t, "bucket", "add", "-s", url, "--roster"))
		if code == 0 || out != "" || !strings.Contains(errs, words) {
			t.Errorf("exit code %d\n%s%s", code, out, errs)
		}
		names := doctorStreams(t, url)
		slices.Sort(names)
		if !slices.Equal(names, left) {
			t.Errorf("after %q there is %q, not %q", words, names, left)
		}
	}
	create := func(c jetstream.StreamConfig) {
		t.Helper()
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(name string) {
		t.Helper()
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}

	create(foreign) // in place of the roster
	fails("cannot be the roster", "KV_elections_roster")
	remove(foreign.Name)
	create(jetstream.StreamConfig{Name: "other"}) // with the roster there are two streams, and the bucket is one too many
	fails("maximum number of streams reached", "other")
	create(jetstream.StreamConfig{Name: "another"})
	fails("maximum number of streams reached", "another", "other")
	remove("another")

	// A bucket that exists does not refer to a roster that could not be created.
	newBucket(t, url, "elections", leader.BucketConfig{})
	fails("maximum number of streams reached", "KV_elections", "other")
	if kept, err := js.Stream(t.Context(), "KV_elections"); err != nil || kept.CachedInfo().Config.Metadata["natsleader.roster"] != "" {
		t.Errorf("%+v, %v", kept.CachedInfo().Config.Metadata, err)
	}
	remove("other")
	printed(t, succeeds(t, "bucket", "add", "-s", url, "--roster"), "\nRoster:         yes")
}

// A server that is too old for a roster ignores the settings that make it one.
func TestBucketAdd_OldServer(t *testing.T) {
	proof.Only(t)
	url := oldServer(t, "v2.10.29", "")
	answersJS(t, url)
	out, errs, code := outcome(t, natsleader(t, "bucket", "add", "-s", url, "--roster"))
	if code != exitBucket || out != "" || !strings.Contains(errs, "update the servers to nats-server 2.11") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if names := doctorStreams(t, url); len(names) != 0 {
		t.Errorf("%v", names)
	}
	succeeds(t, "bucket", "add", "-s", url)
	finds(t, url, []string{"--roster"}, 1, "\nwarning server nats-server 2.10.29 ", "\nwarning roster the bucket keeps no roster",
		" -> update the servers to nats-server 2.11 or later, then: natsleader bucket add elections --roster")
}

// oldServer starts a released server.
func oldServer(t *testing.T, version, config string) (url string) {
	t.Helper()
	binary, err := filepath.Abs("../../.tools/nats-server-" + version)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		proof.Skip(t, "run make servers: ", err)
	}
	port := testserver.FreePort(t)
	file := filepath.Join(t.TempDir(), "server.conf")
	writeFile(t, file, fmt.Sprintf("host: 127.0.0.1, port: %d, jetstream { store_dir: %q }\n%s", port, testserver.StoreDir(t), config))
	p := natsleader(t)
	p.Path, p.Args = binary, []string{binary, "-c", file}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return fmt.Sprintf("nats://127.0.0.1:%d", port)
}

// answersJS waits until JetStream answers.
func answersJS(t *testing.T, url string) {
	t.Helper()
	eventually(t, "it answers", func() bool {
		nc, err := nats.Connect(url)
		if err != nil {
			return false
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			return false
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = js.AccountInfo(ctx)
		return err == nil
	})
}
