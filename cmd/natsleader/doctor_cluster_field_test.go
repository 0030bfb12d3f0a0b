//go:build field

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

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

// asUser returns the server's URL with a user of that name.
func asUser(s *server.Server, name string) string {
	return strings.Replace(s.ClientURL(), "nats://", "nats://"+name+":x@", 1)
}

// generous is a lease that even a busy machine renews in time.
const generous = 2 * time.Minute

// clusterOfThree returns the part of the configuration of each of three servers that makes them a cluster.
func clusterOfThree(t *testing.T) (parts []string) {
	t.Helper()
	var ports []any
	for range 3 {
		ports = append(ports, testserver.FreePort(t))
	}
	for _, port := range ports {
		parts = append(parts, fmt.Sprintf("cluster { name: C, host: 127.0.0.1, port: %d, routes: [ ", port)+
			fmt.Sprintf(`"nats-route://127.0.0.1:%d", "nats-route://127.0.0.1:%d", "nats-route://127.0.0.1:%d" ] }`, ports...))
	}
	return parts
}

// makes makes a bucket on a server or cluster that may have just begun.
func makes(t *testing.T, js jetstream.JetStream, cfg leader.BucketConfig) {
	t.Helper()
	eventually(t, cfg.Name+" can be made", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := leader.CreateBucket(ctx, js, cfg)
		return err == nil
	})
}

// serverCluster starts three servers that sync every write, and makes the bucket on all
// of them. The servers know the users admin, candidate and operator.
func serverCluster(t *testing.T) (all []*server.Server) {
	t.Helper()
	for i, cluster := range clusterOfThree(t) {
		all = append(all, startServer(t, func(o *server.Options) {
			*o = server.Options{}
			expect.OK(t, o.ProcessConfigString(fmt.Sprintf(`
				server_name: s%d, host: 127.0.0.1, port: -1
				jetstream { store_dir: %q, sync_interval: always }
				accounts {
					A { jetstream: enabled, users: [ { user: admin, password: x } ] }
					SYS { users: [ { user: operator, password: x } ] }
				}
				system_account: SYS
				%s`, i+1, testserver.StoreDir(t), cluster)))
			candidate := server.User{Username: "candidate", Password: "x", Permissions: candidateMay(), Account: o.Users[0].Account}
			o.Users, o.NoLog, o.NoSigs = append(o.Users, &candidate), true, true
		}))
	}
	_, js := connectTo(t, asUser(all[0], "admin"))
	makes(t, js, leader.BucketConfig{Name: "elections", Replicas: 3, MaxLease: generous})
	eventually(t, "all replicas are current", func() bool { return current(t, js) })
	return all
}

// current reports whether the bucket has two watchers that are up to date.
func current(t *testing.T, js jetstream.JetStream) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, "KV_elections")
	if err != nil || s.CachedInfo().Cluster == nil || len(s.CachedInfo().Cluster.Replicas) != 2 {
		return false
	}
	for _, r := range s.CachedInfo().Cluster.Replicas {
		if !r.Current || r.Offline {
			return false
		}
	}
	return true
}

func TestDoctor_Cluster(t *testing.T) {
	t.Parallel()
	all := serverCluster(t)
	_, js := connectTo(t, asUser(all[0], "admin"))
	candidate, admin := asUser(all[0], "candidate"), asUser(all[0], "admin")
	system := filepath.Join(t.TempDir(), "system.json")
	writeFile(t, system, fmt.Sprintf(`{"url": %q, "user": "operator", "password": "x"}`, all[0].ClientURL()))

	// A candidate creates no streams, and may not ask for versions.
	finds(t, candidate, []string{"--system-context", system}, 0, "\nok cluster cluster C, ", "all 3 replicas are current", "\nok sync every write is synced")
	finds(t, candidate, nil, 0, "\nnote server not checked: versions of s", "may not publish to $SYS.REQ.ACCOUNT.PING.STATZ", "--system-context")
	out, _ := diagnose(t, admin)
	expect.That(t, !strings.Contains(out, "versions of"), "%v", out)
	for bucket, says := range map[string]string{
		"single": "one replica: while server s", // natsleader bucket add makes it
		"two":    "2 replicas outlive the loss of no more servers than 1 do, and are more to lose\n -> natsleader bucket add two --replicas 3",
	} {
		_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: bucket, Replicas: map[string]int{"two": 2}[bucket]})
		expect.Must(t, err == nil, "%v", err)
		finds(t, admin, []string{"--bucket", bucket}, 1, "\nwarning replicas "+says)
	}
	finds(t, candidate, []string{"--lease", "8s"}, 0, "\nnote lease leases of 8s cannot promise to outlive the loss of one server")
	all[2].Shutdown()
	all[2].WaitForShutdown()
	eventually(t, "the others have noticed", func() bool { return !current(t, js) })
	finds(t, candidate, nil, 1, "\nwarning cluster the replica on s3 is offline")
	all[1].Shutdown()
	all[1].WaitForShutdown()
	// Either a server still answers, or none does.
	out, code := diagnose(t, candidate, "--timeout", "3s")
	if code != 2 || !strings.Contains(out, "servers are missing: nothing can be written") && !strings.Contains(out, "has no leader") {
		t.Errorf("exit code %d\n%v", code, out)
	}
}

// In a cluster that is being updated, doctor names each server that is too old for guards or for a
// roster, whichever server it is connected to.
func TestDoctor_MixedCluster(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	clusters := clusterOfThree(t)
	var urls []string
	for i, version := range []string{"v2.11.8", "v2.11.4", "v2.10.29"} {
		urls = append(urls, oldServer(t, version, fmt.Sprintf("server_name: s%d, %s", i+1, clusters[i])))
	}
	for _, url := range urls {
		answersJS(t, url)
	}
	_, js := connectTo(t, urls[0])
	eventually(t, "the bucket can be made", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "elections", Replicas: 3})
		return err == nil
	})
	eventually(t, "all replicas are current", func() bool { return current(t, js) })
	for _, url := range urls {
		finds(t, url, nil, 1, "\nwarning server nats-server 2.11.4 on s2 is older than 2.11.8", "\nwarning server nats-server 2.10.29 on s3 is older than 2.11: it keeps no roster")
	}
}
