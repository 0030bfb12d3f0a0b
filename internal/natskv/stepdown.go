package natskv

import (
	"context"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
)

// Listen implements [backend.Requests]. It is one plain subscription. Its time counts from when
// it has a slot.
func (b *Bucket) Listen(ctx context.Context, key string, deliver func(request []byte, answer func([]byte)), reply func(close func(closed func()), err error)) {
	go func() {
		done, err := b.api.Turn(ctx)
		if err != nil {
			reply(nil, err)
			return
		}
		defer done()
		limited, cancel := deadline.Within(ctx, deadline.Default)
		defer cancel()
		s, err := jsapi.InTime(limited, &b.api, func() (*jsapi.Subscription, error) { return b.listenAt(limited, key, deliver) }, (*jsapi.Subscription).Close)
		if err != nil {
			reply(nil, err)
			return
		}
		reply(func(closed func()) {
			go func() {
				jsapi.Soon(s.Close)
				closed()
			}()
		}, nil)
	}()
}

func (b *Bucket) listenAt(ctx context.Context, key string, deliver func(request []byte, answer func([]byte))) (*jsapi.Subscription, error) {
	if err := b.api.Opened(); err != nil {
		return nil, err
	}
	s, subject := &jsapi.Subscription{}, wire.AskPrefix+b.name+"."+key
	if b.api.Conn.Opts.NoEcho {
		s.Leave = listenNoEcho(b.api.Conn, subject, deliver)
	}
	err := s.Listen(ctx, &b.api, subject, func(m *nats.Msg) {
		if !isRequest(m, subject) {
			return
		}
		answers := make(chan []byte, 1) // received here, because sending the response may wait for the connection's lock
		deliver(m.Data, func(data []byte) { answers <- data })
		if data := <-answers; data != nil && b.isInbox(m.Reply) {
			_ = m.Respond(data) // best effort: the requester retries
		}
	}, func() bool { return true }) // it waits for the candidate
	if err != nil {
		s.Close()
	}
	return s, err
}

// isRequest reports whether a client that may publish to the subject has sent the message. The
// server publishes to any subject that another client names in a request to JetStream. A
// message of a consumer keeps the subject under which it was stored. The reply to a direct get
// names no subject for an answer, and has headers unless they were not asked for. Ask sends
// requests with a subject for the answer and no headers. The server adds one header where a
// request enters another account.
func isRequest(m *nats.Msg, subject string) bool {
	own := len(m.Header)
	if _, imported := m.Header["Nats-Request-Info"]; imported { // nats-server, client.go, ClientInfoHdr
		own--
	}
	return m.Subject == subject && m.Reply != "" && own == 0
}

// isInbox reports whether a reply may be sent to a subject. The requester chooses the
// subject, and the holder publishes with its own permissions. Without this check a
// requester could make it write to a key, or by a wildcard make the server close a pedantic
// connection. The server replaces the inbox of another account by a subject of its own.
func (b *Bucket) isInbox(subject string) bool {
	own := b.api.Conn.Opts.InboxPrefix
	return jsapi.LiteralSubject(subject) &&
		(strings.HasPrefix(subject, "_R_.") || strings.HasPrefix(subject, nats.InboxPrefix[:len(nats.InboxPrefix)-1]) || own != "" && strings.HasPrefix(subject, own+"."))
}

// noEcho holds the listeners on connections with nats.NoEcho. The server does not deliver
// them a request of the same connection, and reports nothing to the requester.
var noEcho struct {
	mu        sync.Mutex
	listeners map[*noEchoListener]struct{}
}

type noEchoListener struct {
	nc      *nats.Conn
	subject string
	deliver func(request []byte, answer func([]byte))
}

func listenNoEcho(nc *nats.Conn, subject string, deliver func([]byte, func([]byte))) (leave func()) {
	l := &noEchoListener{nc, subject, deliver}
	noEcho.mu.Lock()
	defer noEcho.mu.Unlock()
	if noEcho.listeners == nil {
		noEcho.listeners = make(map[*noEchoListener]struct{})
	}
	noEcho.listeners[l] = struct{}{}
	return func() {
		noEcho.mu.Lock()
		defer noEcho.mu.Unlock()
		delete(noEcho.listeners, l)
	}
}

// askNoEcho passes the request to the listeners on the same connection. It returns the
// first answer, or nil if there is none before ctx has ended.
func askNoEcho(ctx context.Context, nc *nats.Conn, subject string, request []byte) []byte {
	var all []*noEchoListener
	noEcho.mu.Lock()
	for l := range noEcho.listeners {
		if l.nc == nc && l.subject == subject {
			all = append(all, l)
		}
	}
	noEcho.mu.Unlock()
	for _, l := range all {
		answers := make(chan []byte, 1)
		l.deliver(request, func(data []byte) { answers <- data })
		select {
		case data := <-answers:
			if data != nil {
				return data
			}
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// Ask implements [backend.Requests].
func (b *Bucket) Ask(ctx context.Context, key string, request []byte, reply func([]byte, error)) {
	go func() {
		if b.api.Opened() == nil && b.api.Conn.Opts.NoEcho {
			if data := askNoEcho(ctx, b.api.Conn, wire.AskPrefix+b.name+"."+key, request); data != nil {
				reply(data, nil)
				return
			}
		}
		resp, err := b.api.Request(ctx, &nats.Msg{Subject: wire.AskPrefix + b.name + "." + key, Data: request})
		if err != nil {
			reply(nil, err)
			return
		}
		reply(resp.Data, nil)
	}()
}
