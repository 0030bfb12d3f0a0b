package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/jsm.go/natscontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/examples/internal/embedded"
	"github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/leader"
)

// bucketName is the bucket of the demo.
const bucketName = "natsleader-demo"

// stage is the server of the candidates, and how to connect to it.
type stage struct {
	server *embedded.Server // nil: an existing one
	opts   nats.Options     // to connect with
	where  string           // for people
	note   string           // for people, may be empty
	domain string           // of JetStream, empty: none
	prefix string           // of the JetStream API, empty: the default

	conn *nats.Conn         // the operator's own, not behind any link
	kv   jetstream.KeyValue // of the bucket
}

// newStage starts a server, or connects to the one of a nats context, and makes
// the bucket.
func newStage(ctx context.Context, o options) (_ *stage, err error) {
	st := &stage{opts: nats.GetDefaultOptions()}
	defer func() {
		if err != nil {
			err = errors.Join(err, st.close())
		}
	}()
	if o.context == "" {
		err = st.embed()
	} else {
		err = st.visit(o.context)
	}
	if err != nil {
		return nil, err
	}
	st.opts.AllowReconnect = true
	st.opts.MaxReconnect = -1
	st.opts.ReconnectWait = 100 * time.Millisecond
	st.opts.ReconnectJitter = 20 * time.Millisecond
	st.opts.ReconnectJitterTLS = 20 * time.Millisecond
	// Lost connections are part of the demo. By default nats.go prints errors.
	st.opts.AsyncErrorCB = func(*nats.Conn, *nats.Subscription, error) {}

	if st.conn, err = st.connect("operator", nil); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", st.where, err)
	}
	js, err := st.jetStream(st.conn)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	// A candidate that finds the key deleted waits for the longest lease that may
	// be running. A MaxLease that is no longer than needed keeps that wait short.
	bucket, err := leader.CreateOrUpdateBucket(ctx, js, leader.BucketConfig{
		Name: bucketName, Description: "elections of the natsleader demo", MaxLease: o.lease,
	})
	if err != nil {
		return nil, err
	}
	// Look once, so that an invalid name is found before the demo begins.
	if _, err = leader.Lookup(ctx, bucket, o.key); errors.Is(err, leader.ErrInvalidConfig) {
		return nil, settingError{fmt.Errorf("KEY=%q: %w", o.key, err)}
	} else if err != nil {
		return nil, err
	}
	st.kv, err = js.KeyValue(ctx, bucketName)
	return st, err
}

// embed starts a server of its own.
func (st *stage) embed() (err error) {
	if st.server, err = embedded.Start(); err != nil {
		return err
	}
	st.opts.Url = st.server.URL()
	st.where = "an embedded NATS server, " + st.server.URL()
	return nil
}

// visit uses the server of a context of the nats command line.
func (st *stage) visit(name string) error {
	nctx, err := natscontext.New(name, true)
	if err != nil {
		return settingError{fmt.Errorf("CONTEXT=%q: %w", name, err)}
	}
	opts, err := nctx.NATSOptions()
	if err != nil {
		return settingError{fmt.Errorf("CONTEXT=%q: %w", name, err)}
	}
	for _, opt := range opts {
		if err := opt(&st.opts); err != nil {
			return settingError{fmt.Errorf("CONTEXT=%q: %w", name, err)}
		}
	}
	st.opts.Url = nctx.ServerURL()
	st.domain, st.prefix = nctx.JSDomain(), nctx.JSAPIPrefix()
	st.where = fmt.Sprintf("context %s, %s", name, nctx.ServerURL())
	st.note = fmt.Sprintf("the bucket %s is left behind: nats kv rm %s --context %s", bucketName, bucketName, name)
	return nil
}

// link returns a link that dials as the server's context does.
func (st *stage) link() *link.Link {
	if st.opts.CustomDialer != nil {
		return link.Over(st.opts.CustomDialer)
	}
	return link.Over(&net.Dialer{Timeout: st.opts.Timeout})
}

// connect makes one more connection, over a link if l is not nil.
func (st *stage) connect(name string, l *link.Link) (*nats.Conn, error) {
	opts := st.opts
	opts.Name = name
	if l != nil {
		opts.CustomDialer = l
	}
	return opts.Connect()
}

// jetStream returns JetStream with the settings of the context.
func (st *stage) jetStream(nc *nats.Conn) (jetstream.JetStream, error) {
	switch {
	case st.domain != "":
		return jetstream.NewWithDomain(nc, st.domain)
	case st.prefix != "":
		return jetstream.NewWithAPIPrefix(nc, st.prefix)
	default:
		return jetstream.New(nc)
	}
}

// close ends the connection and, if it is ours, the server.
func (st *stage) close() error {
	if st.conn != nil {
		st.conn.Close()
	}
	if st.server != nil {
		return st.server.Close()
	}
	return nil
}
