//go:build field && unix

package main

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/bucket"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// diagnose runs doctor. One space is between two words of what it returns.
func diagnose(t *testing.T, url string, args ...string) (out string, code int) {
	t.Helper()
	out, errs, code := outcome(t, natsleader(t, append([]string{"doctor", "-s", url}, args...)...))
	expect.Must(t, errs == "", "doctor %v: exit code %d\n%s%s", args, code, out, errs)
	return regexp.MustCompile(` +`).ReplaceAllString(out, " "), code
}

// finds runs doctor, and fails the test unless the report has all of the texts.
func finds(t *testing.T, url string, args []string, code int, texts ...string) {
	t.Helper()
	out, got := diagnose(t, url, args...)
	expect.Equal(t, got, code, "exit code %d, not %d", code)
	printed(t, out, texts...)
}

// Doctor judges a cluster of three servers, and reports a server that was killed or hangs, also if it led the stream
// and its successor has never heard of it. What can still be lost is counted without it.
func TestDoctor_Cluster(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]struct {
		sig  syscall.Signal
		led  bool
		only bool // with the build tag prove
	}{
		"killed leader":   {sig: syscall.SIGKILL, led: true},
		"hung leader":     {sig: syscall.SIGSTOP, led: true, only: true},
		"killed follower": {sig: syscall.SIGKILL, only: true},
		"hung follower":   {sig: syscall.SIGSTOP, only: true},
	} {
		t.Run(name, func(t *testing.T) {
			if k.only {
				proof.Only(t)
			}
			t.Parallel()
			c := startTrio(t, "")
			js := c.makes(leader.BucketConfig{Name: "elections", MaxLease: 2 * time.Minute}) // even a busy machine renews in time
			if !k.only {
				judgesHealthy(t, c.servers[0].url)
			}
			victim := c.leads(js)
			others := slices.DeleteFunc(slices.Clone(c.servers), func(s *serverProcess) bool { return s == victim })
			if !k.led {
				victim, others[1] = others[1], victim
			}
			witness := others[0].url
			_, js = connectTo(t, witness)
			victim.signal(k.sig)
			if k.led {
				testworld.Eventually(t, "another server leads the stream", func() bool { s := c.leads(js); return s != nil && s != victim })
			}
			// The writes show which servers are behind.
			testworld.Eventually(t, "a write is stored", func() bool {
				_, err := js.Publish(t.Context(), "$KV.elections.written", nil)
				return err == nil
			})
			out, code := diagnose(t, witness) // the dead server does not report its version
			printed(t, out, "\nwarning cluster the replica on "+victim.name, "dead, hung or cut off",
				"\nwarning replicas 3 replicas, 1 of them missing ("+victim.name+"): elections stop with the loss of one more server")
			expect.That(t, code == 1 && !strings.Contains(out, "catching up") && !strings.Contains(out, "elections go on"),
				"exit code %d\n%v", code, out)
			if k.led {
				productionShows(t, witness, "cluster", "replicas")
			}
			if !k.only {
				others[1].kill()
				testworld.Eventually(t, "doctor finds that two servers are lost", func() bool {
					// Either a server still answers, or none does.
					out, code = diagnose(t, witness, "--timeout", "3s")
					return code == 2 && (strings.Contains(out, "servers are missing: nothing can be written") || strings.Contains(out, "has no leader")) ||
						code == 69 && strings.Contains(out, "sees no leader")
				})
			}
		})
	}
}

// judgesHealthy checks what doctor finds in a cluster without trouble. A candidate creates no streams, and may not ask
// for versions.
func judgesHealthy(t *testing.T, url string) {
	t.Helper()
	system := filepath.Join(t.TempDir(), "system.json")
	writeFile(t, system, fmt.Sprintf(`{"url": %q, "user": "operator", "password": "x"}`, url))
	candidate := asUser(url, "candidate")
	finds(t, candidate, []string{"--system-context", system}, 0,
		"\nok cluster cluster C, ", "all 3 replicas are current", "\nok sync every write is synced")
	finds(t, candidate, nil, 0, "\nnote server not checked: versions of s", "may not publish to $SYS.REQ.ACCOUNT.PING.STATZ", "--system-context")
	out, _ := diagnose(t, url)
	expect.That(t, !strings.Contains(out, "versions of"), "%v", out)
}

// In a cluster that is being updated, doctor names each server that is too old for guards or for a
// roster, whichever server it is connected to.
func TestDoctor_MixedCluster(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	clusters := clusterOfThree(t)
	var urls []string
	for i, release := range []string{"2.11.8", "2.11.4", "2.10.29"} {
		urls = append(urls, startNATS(t, release, fmt.Sprint("s", i+1), clusters[i]).url)
	}
	_, js := connectTo(t, urls[0])
	testworld.Eventually(t, "the bucket can be made", func() bool {
		_, err := js.CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "elections", Replicas: 3})
		return err == nil
	})
	testworld.Eventually(t, "all replicas are current", func() bool { return current(t, js, "elections") })
	for _, url := range urls {
		finds(t, url, nil, 1, "\nwarning server nats-server 2.11.4 on s2 is older than 2.11.8", "\nwarning server nats-server 2.10.29 on s3 is older than 2.11: it keeps no roster")
	}
}

// A server that is too old for a roster ignores the settings that make it one.
func TestBucketAdd_OldServer(t *testing.T) {
	proof.Only(t)
	url := startNATS(t, "2.10.29", "old", fmt.Sprintf("jetstream { store_dir: %q }", testserver.StoreDir(t))).url
	fails(t, natsleader(t, "bucket", "add", "-s", url, "--roster"), front.ExitBucket, "update the servers to nats-server 2.11")
	_, js := connectTo(t, url)
	expect.Equal(t, expect.Got(js.AccountInfo(t.Context()))(t).Streams, 0, "%d streams")
	succeeds(t, "bucket", "add", "-s", url)
	finds(t, url, []string{"--roster"}, 1, "\nwarning server nats-server 2.10.29 ", "\nwarning roster the bucket keeps no roster",
		" -> update the servers to nats-server 2.11 or later, then: natsleader bucket add elections --roster")
}

// A doctor that is interrupted while it stores its message removes its stream before it ends.
func TestDoctor_InterruptedStore(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{})
	nc, _ := connectTo(t, s.ClientURL())
	created := expect.Got(nc.SubscribeSync("$JS.EVENT.ADVISORY.STREAM.CREATED.*"))(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(t, err)
	defer l.Close() //nolint:errcheck // nothing is lost
	go func() {
		for near, gone := l.Accept(); gone == nil; near, gone = l.Accept() {
			if far, failed := net.Dial("tcp", s.Addr().String()); failed == nil {
				go testworld.SlowPipe(near, far, 300*time.Millisecond)
				go testworld.SlowPipe(far, near, 300*time.Millisecond)
			}
		}
	}()
	// The answer that its stream was created reaches doctor 300 ms later, and has two requests more to send.
	cmd := natsleader(t, "doctor", "-s", "nats://"+l.Addr().String())
	started(t, cmd)
	for subject := ""; !strings.Contains(subject, ".natsleader_doctor_"); {
		subject = expect.Got(created.NextMsg(testworld.Patience))(t).Subject
	}
	expect.OK(t, cmd.Process.Signal(syscall.SIGTERM))
	expect.Equal(t, endOf(t, cmd), front.ExitSignal+int(syscall.SIGTERM), "exit code %d")
	_, js := connectTo(t, s.ClientURL())
	expect.Equal(t, expect.Got(js.AccountInfo(t.Context()))(t).Streams, 1, "%d streams")
}

// On a cluster, bucket add makes a new bucket on three servers. With one replica it prints how many servers there are, and
// the flag for three. More replicas than the cluster has servers are a mistake in
// the flags, and no bucket is made.
func TestBucketAdd_Cluster(t *testing.T) {
	t.Parallel()
	c := startTrio(t, "")
	c.makes(leader.BucketConfig{Name: "elections"})
	url := c.servers[0].url
	const says = "natsleader: cluster C has 3 servers, and the bucket is on one of them: " +
		"while that is away nobody can lead; on three it survives the loss of one: `natsleader bucket add small --replicas 3`\n"
	for _, x := range []struct{ flag, says string }{{"--replicas=1", says}, {"--json", says}, {"--replicas=3", ""}} {
		_, errs, code := outcome(t, natsleader(t, "bucket", "add", "small", "-s", url, x.flag))
		expect.That(t, code == 0 && errs == x.says, "%s: exit code %d\n%s", x.flag, code, errs)
	}
	fails(t, natsleader(t, "bucket", "add", "big", "--replicas", "5", "-s", url), front.ExitUsage, "the cluster has too few servers with room for --replicas")
	fails(t, natsleader(t, "bucket", "info", "big", "-s", url), front.ExitBucket, "bucket big does not exist")
	out, errs, code := outcome(t, natsleader(t, "bucket", "add", "wide", "--roster", "-s", url))
	expect.That(t, code == 0 && strings.Contains(out, "\nReplicas:       3\n") && errs == "", "exit code %d\n%s%s", code, out, errs)
	nc, _ := connectTo(t, asUser(url, "candidate")) // may not ask the servers
	got := bucket.Alone((&inspect.Inspector{Nc: nc, Limit: testworld.Patience}), 1)
	expect.That(t, strings.HasPrefix(got, "cluster C may have several servers, and "), "%v", got)
}
