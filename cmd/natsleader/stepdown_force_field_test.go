//go:build field

package main

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// lastMessage returns the newest message of an election's key, as it is stored.
func lastMessage(t *testing.T, js jetstream.JetStream, election string) *jetstream.RawStreamMsg {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_elections")
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetLastMsgForSubject(t.Context(), "$KV.elections."+election)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// step-down --force refuses without a confirmation. Standard input is no terminal, and
// --yes is missing.
func TestStepDownForce_Unconfirmed(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	_, js := connectTo(t, url)
	campaigns(t, url, "elections", "model", leader.Config{ID: "a"})
	put(t, js, "billing", renewal(t, js, "a", time.Hour))
	before := lastMessage(t, js, "billing").Sequence
	for name, feed := range map[string]func(*exec.Cmd){
		"null": func(*exec.Cmd) {},
		"yes":  func(cmd *exec.Cmd) { cmd.Stdin = strings.NewReader("y\ny\n") },
	} {
		cmd := natsleader(t, "step-down", "billing", "--force", "-s", url)
		feed(cmd)
		out, errs, code := outcome(t, cmd)
		if code != exitUsage || out != "" || !strings.Contains(errs, "--yes") || !strings.Contains(errs, "nothing was deleted") {
			t.Errorf("%s: exit code %d\n%s%s", name, code, out, errs)
		}
	}
	closed := natsleader(t)
	closed.Path, closed.Args = "/bin/sh", []string{"sh", "-c", `exec "$@" <&-`, "sh", binary, "step-down", "billing", "--force", "-s", url}
	if out, errs, code := outcome(t, closed); code != exitUsage || out != "" {
		t.Errorf("closed: exit code %d\n%s%s", code, out, errs)
	}
	if m := lastMessage(t, js, "billing"); m.Sequence != before {
		t.Errorf("the key was written: %+v", m)
	}
}

// The marker keeps the record. The marker keeps the lease that candidates wait for, if
// that is known.
func TestStepDownForce_KeepsTheRecord(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{MaxLease: 15 * time.Second})
	_, js := connectTo(t, url)
	campaigns(t, url, "elections", "model", leader.Config{ID: "a"})
	leading := renewal(t, js, "a", 12*time.Second)
	pending := strings.Replace(leading, `"state":"leading","token"`, `"state":"pending","least"`, 1)
	long := renewal(t, js, "a", time.Minute)
	kv, err := js.KeyValue(t.Context(), "elections")
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		record string
		kept   bool
		says   string
	}{
		"leading": {leading, true, "\n- Candidates wait for 12s, the lease on record.\n- Until"},
		"pending": {pending, true, "\n- Candidates wait for 12s, the lease on record.\n- Until"},
		"foreign": {"hello", false, "\n- Candidates wait for 15s, the longest lease that the bucket allows.\n- Until"},
		// The bucket allowed this lease once, or it is junk.
		"long": {long, true, "\n- Candidates wait for 1m0s, the lease on record.\n- That is more than the bucket allows. If no leader has such a lease, `nats kv del elections long` makes candidates wait for 15s instead.\n- Until"},
	} {
		put(t, js, name, x.record)
		revision := lastMessage(t, js, name).Sequence
		out := succeeds(t, "step-down", name, "--force", "--yes", "-s", url)
		if !strings.Contains(out, x.says) || !strings.HasSuffix(out, "\ndeleted\n") {
			t.Errorf("%s: %s", name, out)
		}
		m := lastMessage(t, js, name)
		if m.Sequence <= revision || m.Header.Get("KV-Operation") != "DEL" {
			t.Errorf("%s: %+v", name, m)
		}
		if want := map[bool]string{true: x.record}[x.kept]; string(m.Data) != want {
			t.Errorf("%s: the marker carries %q, want %q", name, m.Data, want)
		}
		if _, err := kv.Get(t.Context(), name); !errors.Is(err, jetstream.ErrKeyNotFound) {
			t.Errorf("%s: other KV clients get %v", name, err)
		}
	}
}

// A record that is too large for a marker. The header of a marker takes more room than
// that of a record.
func TestStepDownForce_LargeRecord(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{MaxLease: 15 * time.Second})
	_, js := connectTo(t, url)
	campaigns(t, url, "elections", "model", leader.Config{ID: "a"})
	bytesOf := map[string]string{"short": renewal(t, js, "a", 12*time.Second), "long": renewal(t, js, "a", 99*time.Second)}
	if len(bytesOf["short"]) != len(bytesOf["long"])-len("1m39s")+len("12s") {
		t.Fatalf("%q", bytesOf)
	}
	for election, record := range bytesOf {
		put(t, js, election, record)
	}
	stream, err := js.Stream(t.Context(), "KV_elections")
	if err != nil {
		t.Fatal(err)
	}
	conf := stream.CachedInfo().Config
	const update = len("NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 18446744073709551615\r\n\r\n")
	conf.MaxMsgSize = int32(len(bytesOf["long"]) + update) // a renewal just fits
	if _, err = js.UpdateStream(t.Context(), conf); err != nil {
		t.Fatal(err)
	}
	for election, says := range map[string]string{
		"short": "\n- Candidates wait for 15s, the longest lease that the bucket allows.\n- Until",
		"long":  "\n- The lease on record is 1m39s, and the record is too large for the marker to keep: the old leader may lead beside the next.\n- Until",
	} {
		out := succeeds(t, "step-down", election, "--force", "--yes", "-s", url)
		if m := lastMessage(t, js, election); len(m.Data) > 0 || !strings.Contains(out, says) || m.Header.Get("KV-Operation") != "DEL" {
			t.Errorf("%s: %q\n%s", election, m.Data, out)
		}
	}
}

func TestStepDownForce_UnboundedBucket(t *testing.T) {
	url := startServer(t).ClientURL()
	_, js := connectTo(t, url)
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "elections"}); err != nil {
		t.Fatal(err)
	}
	put(t, js, "foreign", "\x1b]0;title\a")
	if out := succeeds(t, "step-down", "foreign", "--force", "--yes", "-s", url); rawIn(out) ||
		!strings.Contains(out, "\n- Candidates wait for as long as their own lease: the bucket bounds none.\n") {
		t.Errorf("%q", out)
	}
}

// If several operators act at once, one of them deletes the key of a leader that renews
// its lease all the time.
func TestStepDownForce_Races(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{MaxLease: time.Hour})
	_, js := connectTo(t, url)
	campaigns(t, url, "elections", "model", leader.Config{ID: "a"})
	record := renewal(t, js, "a", time.Hour)
	kv, err := js.KeyValue(t.Context(), "elections")
	if err != nil {
		t.Fatal(err)
	}
	put(t, js, "billing", record)
	var renewing, forcing sync.WaitGroup
	renewing.Go(func() {
		for { // until a renewal is rejected, as a leader would
			e, err := kv.Get(t.Context(), "billing")
			if err == nil {
				_, err = kv.Update(t.Context(), "billing", []byte(record), e.Revision())
			}
			if err != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	const operators = 4
	var outs [operators]bytes.Buffer
	var cmds [operators]*exec.Cmd
	for i := range cmds {
		cmds[i] = natsleader(t, "step-down", "billing", "--force", "--yes", "-s", url)
		cmds[i].Stdout, cmds[i].Stderr = &outs[i], &outs[i]
		forcing.Go(func() { _ = cmds[i].Run() })
	}
	forcing.Wait()
	renewing.Wait()
	deleted := 0
	for i, cmd := range cmds {
		switch out := outs[i].String(); {
		case cmd.ProcessState.ExitCode() == 0 && strings.HasSuffix(out, "\ndeleted\n"):
			deleted++
		case cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(out, "nothing was deleted") && !strings.Contains(out, "nothing to delete"):
			t.Errorf("exit code %d\n%s", cmd.ProcessState.ExitCode(), out)
		}
	}
	if m := lastMessage(t, js, "billing"); deleted != 1 || string(m.Data) != record || m.Header.Get("KV-Operation") != "DEL" {
		t.Errorf("%d have deleted it: %+v", deleted, m)
	}
}
