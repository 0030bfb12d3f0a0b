package leader

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"
)

// askRoot is what the subject of requests to a holder begins with; the name of the
// bucket, a dot and that of the election follow.
const askRoot = "natsleader.ask."

// Listen implements [Courier]. It is one plain subscription.
func (b *Bucket) Listen(ctx context.Context, key string, deliver func(request []byte, answer func([]byte)), reply func(close func(closed func()), err error)) {
	go func() {
		s := new(subscription)
		err := s.listenAllowed(ctx, &b.streamAPI, askRoot+b.name+"."+key, func(m *nats.Msg) {
			answers := make(chan []byte, 1) // waited for here, because to answer may take the connection's lock
			deliver(m.Data, func(data []byte) { answers <- data })
			if data := <-answers; data != nil && b.isInbox(m.Reply) {
				_ = m.Respond(data) // who asks asks again
			}
		})
		if err != nil {
			s.close()
			reply(nil, err)
			return
		}
		reply(func(closed func()) {
			go func() {
				s.close()
				closed()
			}()
		}, nil)
	}()
}

// isInbox reports whether a reply may be sent there. Who asks chooses the subject, and
// whoever answers publishes with permissions of its own: to a key, if it were told to.
func (b *Bucket) isInbox(subject string) bool {
	return strings.HasPrefix(subject, nats.InboxPrefix[:len(nats.InboxPrefix)-1]) ||
		b.nc.Opts.InboxPrefix != "" && strings.HasPrefix(subject, b.nc.Opts.InboxPrefix+".")
}

// Ask implements [Courier].
func (b *Bucket) Ask(ctx context.Context, key string, request []byte, reply func([]byte, error)) {
	go func() {
		resp, err := b.request(ctx, &nats.Msg{Subject: askRoot + b.name + "." + key, Data: request})
		if err != nil {
			reply(nil, err)
			return
		}
		reply(resp.Data, nil)
	}()
}
