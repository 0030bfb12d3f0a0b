//go:build field

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// freePorts returns what the ports of three servers begin with.
func freePorts(t *testing.T, after int) int {
	t.Helper()
	for prefix := after + 1; prefix < 3200; prefix++ { // below the ports that the system gives
		free := true
		for n := 1; n <= 3 && free; n++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d%d", prefix, n))
			if free = err == nil; free {
				_ = l.Close()
			}
		}
		if free {
			return prefix
		}
	}
	t.Fatal("no free ports")
	return 0
}

// The blocks of docs/day1.md, in one shell, lead to three candidates on a cluster, and the operator may do what the page
// says and no more.
func TestDay1(t *testing.T) {
	page := string(expect.Got(proof.ReadOutside("../../docs/day1.md"))(t))
	var script strings.Builder
	for _, m := range regexp.MustCompile("(?s)(<!-- not run [^\n]*\n)?```sh\n(.*?)```").FindAllStringSubmatch(page, -1) {
		if m[1] == "" {
			script.WriteString(m[2])
		}
	}
	clients := freePorts(t, 2000+os.Getpid()%500)
	routes := freePorts(t, clients)
	text := regexp.MustCompile(`\b([46])22([123]|\$n)`).ReplaceAllStringFunc(script.String(), func(port string) string {
		prefix := clients
		if port[0] == '6' {
			prefix = routes
		}
		return fmt.Sprint(prefix) + port[3:]
	})

	cmd := natsleader(t, "--version") // builds it
	dir := filepath.Join(cmd.Dir, "bin")
	expect.OK(t, os.Mkdir(dir, 0o700))
	expect.OK(t, os.Symlink(tool(t, "nats-server-v2.15.2"), filepath.Join(dir, "nats-server")))
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	shell := exec.CommandContext(ctx, "bash", "-e")
	shell.Stdin, shell.Dir = strings.NewReader(text), cmd.Dir
	shell.Env = append(cmd.Env, "PATH="+dir+":"+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	shell.WaitDelay = time.Second
	out, err := shell.CombinedOutput()
	expect.Must(t, err == nil, "%v\n%s", err, out)
	rest := string(out)
	for _, says := range []string{
		"Replicas:       3\n", "Leader:    web-1\n", "leads  web-1", "1      web-2", "2      web-3", "web-1 has handed over billing", "web-2 leads with token",
		"leads  web-2", "handed over\n", "permission denied", "exit code 77\n", "permission denied", "exit code 77\n",
	} {
		i := strings.Index(rest, says)
		expect.Must(t, i >= 0, "%q is missing in\n%s", says, out)
		rest = rest[i+len(says):]
	}
}
