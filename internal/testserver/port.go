// Package testserver finds TCP ports and directories for the servers of tests, and sends such a
// server its first request.
//
// Its files:
//
//	port.go            free TCP ports for servers of tests
//	prime.go           the first request to a server, before which replies may be lost
//	storedir.go        directories for the stores of servers of tests, in memory where the system has room there
//	storedir_linux.go  where that is on Linux
//	storedir_other.go  other systems have none
package testserver

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
)

// TB is the part of testing.TB that this package uses.
type TB interface {
	Helper()
	Fatal(args ...any)
	Cleanup(f func())
	TempDir() string
}

var (
	mu    sync.Mutex
	given = make(map[int]bool)
)

// FreePort returns a port of the loopback interface on which no process listens. The port
// stays free while the server that is to listen there is down, because it is below those
// from which clients dial (ip_local_port_range), and FreePort returns no port twice.
func FreePort(tb TB) int {
	tb.Helper()
	mu.Lock()
	defer mu.Unlock()
	// A process that is being started has copies of the open sockets until it runs
	// its own program. Among them is the socket that is closed here.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for {
		port := 12_000 + rand.IntN(20_000)
		if given[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		given[port] = true
		if err := l.Close(); err != nil {
			tb.Fatal(err)
		}
		return port
	}
}
