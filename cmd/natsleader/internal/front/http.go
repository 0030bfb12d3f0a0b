package front

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// CheckAddress rejects what cannot be an address of a flag.
func CheckAddress(flag, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return Usagef("--%s %s is not an address with a port, for example :8080 or 127.0.0.1:8080", flag, address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return Usagef("--%s %s: port %q is not a number from 0 to 65535", flag, address, port)
	}
	return nil
}

// Listen opens the address of a flag.
func (s Stdio) Listen(flag, address string) (net.Listener, error) {
	if s.Listener != nil {
		return s.Listener(flag), nil
	}
	l, err := net.Listen("tcp", address)
	var inner *os.SyscallError
	if errors.As(err, &inner) {
		err = inner.Err // without the name of the system call
	}
	code := ExitUsage
	if errors.Is(err, syscall.EADDRINUSE) {
		code = ExitUnreachable
	}
	if err != nil {
		return nil, Exitf(code, "--%s %s: %w", flag, address, err)
	}
	return l, nil
}

// ServeHTTP serves a handler until the listener is closed. A client that sends or reads
// slowly holds a connection for a bounded time.
func ServeHTTP(l net.Listener, h http.Handler) {
	const most = 30 * time.Second
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: most, WriteTimeout: most,
		IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 64 << 10, ConnContext: shortQueue,
	}
	go func() { _ = server.Serve(l) }()
}

// shortQueue lets the kernel keep little for a client that does not read: megabytes otherwise.
func shortQueue(ctx context.Context, c net.Conn) context.Context {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(64 << 10)
	}
	return ctx
}

// MetricsRegistry returns a registry of collectors, of Go and of the process.
func MetricsRegistry(all ...prometheus.Collector) (*prometheus.Registry, error) {
	registry := prometheus.NewRegistry()
	for _, each := range append(all, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})) {
		if err := registry.Register(each); err != nil {
			return nil, err
		}
	}
	return registry, nil
}

// MetricsPage returns the handler of /metrics: the metrics of the collectors, of Go and of
// the process.
func MetricsPage(all ...prometheus.Collector) (http.Handler, error) {
	registry, err := MetricsRegistry(all...)
	if err != nil {
		return nil, err
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 25 * time.Second}), nil
}
