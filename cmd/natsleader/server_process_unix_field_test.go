//go:build field && unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// serverEnv is the configuration file of a server. With this variable the test binary is a server of the release that
// this module uses.
const serverEnv = "NATSLEADER_TEST_SERVER"

func init() {
	if config := os.Getenv(serverEnv); config != "" {
		os.Exit(serveNATS(config))
	}
}

// serveNATS runs a server. It ends when its standard input is closed, so that it does not outlive the test.
func serveNATS(config string) int {
	opts, err := server.ProcessConfigFile(config)
	if err == nil {
		opts.NoLog = true
		var s *server.Server
		if s, err = server.NewServer(opts); err == nil {
			s.Start()
			_, _ = io.Copy(io.Discard, os.Stdin)
			return 0
		}
	}
	_, _ = fmt.Fprintln(os.Stderr, err)
	return 2
}

// tool returns a program of .tools, which `make servers` fills.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("../../.tools/" + name)
	if err == nil {
		_, err = os.Stat(path)
	}
	expect.Must(t, err == nil, "%v: \"make servers\" gets it", err)
	return path
}

// daemon is a process that can be stopped, killed and started again. It ends with the test.
type daemon struct {
	*testing.T
	args  []string
	cmd   *exec.Cmd
	stdin io.Closer
	log   bytes.Buffer
}

func startDaemon(t *testing.T, args ...string) *daemon {
	t.Helper()
	d := &daemon{T: t, args: args}
	d.start()
	t.Cleanup(func() {
		d.kill()
		if t.Failed() {
			text := d.log.String()
			t.Logf("%s:\n%s", filepath.Base(args[0]), text[max(0, len(text)-2000):])
		}
	})
	return d
}

func (d *daemon) start() {
	d.Helper()
	d.cmd = exec.Command(d.args[0], d.args[1:]...) //nolint:gosec // of .tools, or the test itself
	d.cmd.Env = append(os.Environ(), serverEnv+"="+d.args[len(d.args)-1])
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	d.stdin = expect.Got(d.cmd.StdinPipe())(d)
	expect.OK(d, d.cmd.Start())
}

// kill ends the process, also one that is stopped.
func (d *daemon) kill() {
	if d.cmd != nil {
		_ = d.cmd.Process.Kill()
		_ = d.stdin.Close()
		_ = d.cmd.Wait()
		d.cmd = nil
	}
}

// signal sends a signal, and waits until a process that it stops has stopped.
func (d *daemon) signal(sig syscall.Signal) {
	d.Helper()
	expect.OK(d, d.cmd.Process.Signal(sig))
	if sig != syscall.SIGSTOP {
		return
	}
	// On a busy machine some threads of the process go on until another has taken the signal.
	var status syscall.WaitStatus
	_, err := syscall.Wait4(d.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	expect.Must(d, err == nil && status.Stopped(), "the process has not stopped: %v, status %v", err, status)
}

// serverProcess is a server as a process.
type serverProcess struct {
	*daemon
	name, url string
}

// startNATS starts a server of a release; empty: of the one that this module uses.
func startNATS(t *testing.T, release, name, config string) *serverProcess {
	t.Helper()
	port, file := testserver.FreePort(t), filepath.Join(t.TempDir(), name+".conf")
	writeFile(t, file, fmt.Sprintf("server_name: %s, host: 127.0.0.1, port: %d\n%s", name, port, config))
	var args []string
	if release == "" {
		self := expect.Got(os.Executable())(t)
		args = []string{self, file}
	} else {
		args = []string{tool(t, "nats-server-v"+release), "-c", file}
	}
	p := &serverProcess{startDaemon(t, args...), name, fmt.Sprintf("nats://127.0.0.1:%d", port)}
	testworld.Eventually(t, name+" answers", func() bool {
		nc, err := nats.Connect(p.url)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
	return p
}

// clusterOfThree returns the part of the configuration of each of three servers that makes them a cluster.
func clusterOfThree(t *testing.T) (parts []string) {
	t.Helper()
	var ports []any
	for range 3 {
		ports = append(ports, testserver.FreePort(t))
	}
	for _, port := range ports {
		parts = append(parts, fmt.Sprintf("jetstream { store_dir: %q, sync_interval: always }\n", testserver.StoreDir(t))+
			fmt.Sprintf("cluster { name: C, host: 127.0.0.1, port: %d, routes: [ ", port)+
			fmt.Sprintf(`"nats-route://127.0.0.1:%d", "nats-route://127.0.0.1:%d", "nats-route://127.0.0.1:%d" ] }`, ports...))
	}
	return parts
}

// trio is a cluster of three servers, s1, s2 and s3, which sync every write. They know the users candidate and operator.
// The operator is of the system account. A client without a user name may do everything.
type trio struct {
	*testing.T
	servers []*serverProcess
	users   string // the file with the users
}

func startTrio(t *testing.T, release string) *trio {
	t.Helper()
	c := &trio{T: t, users: filepath.Join(t.TempDir(), "users.conf")}
	c.permit()
	for i, part := range clusterOfThree(t) {
		users := "../" + filepath.Base(filepath.Dir(c.users)) + "/users.conf" // a path is relative to the file with the include
		c.servers = append(c.servers, startNATS(t, release, fmt.Sprint("s", i+1), fmt.Sprintf("include %q\n%s", users, part)))
	}
	return c
}

// permit writes what the candidate may do: everything that it takes to campaign, but not to publish to what is denied.
func (c *trio) permit(denied ...string) {
	c.Helper()
	may := candidateMay()
	may.Publish.Deny = denied
	text := expect.Got(json.Marshal(may))(c)
	writeFile(c.T, c.users, fmt.Sprintf(`
		accounts {
			A { jetstream: enabled, users: [ { user: admin, password: x }, { user: candidate, password: x, permissions: %s } ] }
			SYS { users: [ { user: operator, password: x } ] }
		}
		system_account: SYS, no_auth_user: admin
	`, strings.ReplaceAll(string(text), `\u003e`, ">")))
	for _, s := range c.servers {
		s.signal(syscall.SIGHUP)
	}
}

// asUser returns the URL for a user.
func asUser(url, name string) string { return strings.Replace(url, "nats://", "nats://"+name+":x@", 1) }

// url returns the URLs of all servers, for a user.
func (c *trio) url(user string) string {
	var urls []string
	for _, s := range c.servers {
		urls = append(urls, asUser(s.url, user))
	}
	return strings.Join(urls, ",")
}

// makes makes a bucket on all servers, which may have just begun.
func (c *trio) makes(cfg leader.BucketConfig) jetstream.JetStream {
	c.Helper()
	_, js := connectTo(c.T, c.url("admin"))
	cfg.Replicas = 3
	makes(c.T, js, cfg)
	testworld.Eventually(c, "all replicas are current", func() bool { return current(c.T, js, cfg.Name) })
	return js
}

// leads returns the server that leads the stream of the bucket elections; nil if none answers.
func (c *trio) leads(js jetstream.JetStream) *serverProcess {
	c.Helper()
	if info := cluster(c.T, js, "elections"); info != nil {
		for _, s := range c.servers {
			if s.name == info.Leader {
				return s
			}
		}
	}
	return nil
}

// cluster returns which servers keep a bucket; nil if none answers.
func cluster(t *testing.T, js jetstream.JetStream, bucket string) *jetstream.ClusterInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return nil
	}
	return s.CachedInfo().Cluster
}

// current reports whether a bucket has two followers that are up to date.
func current(t *testing.T, js jetstream.JetStream, bucket string) bool {
	t.Helper()
	info := cluster(t, js, bucket)
	return info != nil && len(info.Replicas) == 2 &&
		!slices.ContainsFunc(info.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current || p.Offline })
}

// makes makes a bucket on a server or cluster that may have just begun.
func makes(t *testing.T, js jetstream.JetStream, cfg leader.BucketConfig) {
	t.Helper()
	testworld.Eventually(t, cfg.Name+" can be made", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := leader.CreateOrUpdateBucket(ctx, js, cfg)
		return err == nil
	})
}

var anyServer = regexp.MustCompile(`\bs\d\b`)

// productionShows fails the test unless docs/production.md shows, in the transcript that the test
// performs, what doctor prints about the checks. Names of servers may differ.
func productionShows(t *testing.T, url string, checks ...string) {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	text := expect.Got(proof.ReadOutside("../../docs/production.md"))(t)
	_, rest, found := strings.Cut(string(text), "<!-- performed by "+test+" -->\n```console\n")
	_, body, shown := strings.Cut(rest, "\n")
	want, _, _ := strings.Cut(body, "```")
	expect.Must(t, found && shown, "no transcript of %s", test)
	out, _, _ := outcome(t, natsleader(t, "doctor", "-s", url))
	var got strings.Builder
	ours := false
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, " ") {
			fields := strings.Fields(line)
			ours = len(fields) > 1 && slices.Contains(checks, fields[1])
		}
		if ours {
			got.WriteString(line)
		}
	}
	expect.That(t, anyServer.ReplaceAllString(got.String(), "sN") == anyServer.ReplaceAllString(want, "sN"),
		"the page says\n%s\nbut it is\n%s", want, got.String())
}
