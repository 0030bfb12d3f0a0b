//go:build field

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testserver"
)

// A server that is too old for a roster ignores the settings that make it one.
func TestBucketAdd_OldServer(t *testing.T) {
	proof.Only(t)
	url := oldServer(t, "v2.10.29", "")
	answersJS(t, url)
	out, errs, code := outcome(t, natsleader(t, "bucket", "add", "-s", url, "--roster"))
	if code != exitBucket || out != "" || !strings.Contains(errs, "update the servers to nats-server 2.11") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	_, js := connectTo(t, url)
	info, err := js.AccountInfo(t.Context())
	expect.That(t, err == nil && info.Streams == 0, "%+v, %v", info, err)
	succeeds(t, "bucket", "add", "-s", url)
	finds(t, url, []string{"--roster"}, 1, "\nwarning server nats-server 2.10.29 ", "\nwarning roster the bucket keeps no roster",
		" -> update the servers to nats-server 2.11 or later, then: natsleader bucket add elections --roster")
}

// oldServer starts a released server.
func oldServer(t *testing.T, version, config string) (url string) {
	t.Helper()
	binary, err := filepath.Abs("../../.tools/nats-server-" + version)
	expect.OK(t, err)
	if _, err := os.Stat(binary); err != nil {
		proof.Skip(t, "run make servers: ", err)
	}
	port := testserver.FreePort(t)
	file := filepath.Join(t.TempDir(), "server.conf")
	writeFile(t, file, fmt.Sprintf("host: 127.0.0.1, port: %d, jetstream { store_dir: %q }\n%s", port, testserver.StoreDir(t), config))
	p := natsleader(t)
	p.Path, p.Args = binary, []string{binary, "-c", file}
	expect.OK(t, p.Start())
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
