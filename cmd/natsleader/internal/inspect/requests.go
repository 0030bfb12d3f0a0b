package inspect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/wire"
)

// Asker sends requests to servers, and waits for their answers.
type Asker struct {
	Nc   *nats.Conn
	Api  string // prefix of the JetStream API, with the dot
	Wait time.Duration
}

// Request sends a request to JetStream, and decodes the reply. The error may be the one
// that is in the reply.
func (e *Asker) Request(m *nats.Msg, result any) error {
	reply, err := e.Ask(m)
	if err != nil {
		return err
	}
	var failure struct {
		Error *jetstream.APIError `json:"error"`
	}
	switch err = json.Unmarshal(reply, &failure); {
	case err != nil:
		return err
	case failure.Error != nil:
		return failure.Error
	}
	return json.Unmarshal(reply, result)
}

// Ask sends a request and returns the first reply.
func (e *Asker) Ask(m *nats.Msg) (reply []byte, err error) {
	err = e.Poll(m, func(data []byte) bool {
		reply = data
		return true
	})
	return reply, err
}

// Poll sends a request, and passes each reply to take, until take has enough or no other
// reply comes in time. The server answers a ping after it has refused a message, so a
// missing permission is reported at once.
func (e *Asker) Poll(m *nats.Msg, take func(reply []byte) (enough bool)) error {
	_, err := e.poll(m, e.Wait, take)
	return err
}

// Gather asks all servers, and passes each reply to take, until take has enough or the time to wait is over, which is no
// error. An error says why the servers were not asked, or not for that time. Servers may lose the request or a reply while a
// route between them is made again, so Gather asks again in each quarter of the time, and a server may reply several times.
func (e *Asker) Gather(m *nats.Msg, take func(reply []byte) (enough bool)) error {
	asked, err := e.poll(m, e.Wait/4, take)
	if asked && errors.Is(err, nats.ErrTimeout) {
		return nil
	}
	return err
}

// poll sends a request, and sends it again whenever so much time has passed. It reports whether the server took the request.
func (e *Asker) poll(m *nats.Msg, again time.Duration, take func(reply []byte) (enough bool)) (asked bool, err error) {
	var sub *nats.Subscription
	refused := e.Try(func() (err error) { // a refused inbox counts, too
		if sub, err = e.Nc.SubscribeSync(e.Nc.NewInbox()); err != nil {
			return err
		}
		m.Reply = sub.Subject
		return e.Nc.PublishMsg(m)
	})
	defer sub.Unsubscribe() //nolint:errcheck // it may be gone with the connection; of nil, too
	if refused != nil {
		return false, refused
	}
	began := time.Now()
	for next, end := began.Add(again), began.Add(e.Wait); ; {
		reply, err := sub.NextMsg(time.Until(next))
		switch {
		case errors.Is(err, nats.ErrTimeout) && next.Before(end):
			next = next.Add(again)
			if err = e.Nc.PublishMsg(m); err != nil {
				return true, err
			}
		case err != nil:
			return true, err
		case take(reply.Data):
			return true, nil
		}
	}
}

// Try runs do on the connection, and returns nil if the server has not refused it. A
// refusal appears as the connection's last error, which is one sticky slot.
func (e *Asker) Try(do func() error) error {
	before := e.Nc.LastError()
	if err := do(); err != nil {
		return err
	}
	if err := e.Nc.FlushTimeout(e.Wait); err != nil {
		return err
	}
	last := e.Nc.LastError()
	fresh := last != before //nolint:errorlint // the same value, not the same kind
	if fresh && errors.Is(last, nats.ErrPermissionViolation) {
		return last
	}
	return nil
}

// NoConsumer is a name that no consumer has.
const NoConsumer = "natsleader-doctor"

// Send returns a request to the JetStream API whose answer does not matter.
func (e *Asker) Send(subject, body string) func() error {
	return func() error { return e.Nc.PublishRequest(e.Api+subject, e.Nc.NewInbox(), []byte(body)) }
}

// CreateNothing returns a request for a consumer of a subject in a bucket. The request is
// invalid, so the server makes no consumer even if it permits the request.
func (e *Asker) CreateNothing(bucket, subject string) func() error {
	return e.Send("CONSUMER.CREATE.KV_"+bucket+"."+NoConsumer+"."+subject, "")
}

// Violation names the missing permission, if the error is about one.
func Violation(err error) string {
	var subject string
	text := err.Error()
	for _, kind := range []struct{ format, verb string }{
		{"nats: permissions violation: Permissions Violation for Publish to %q", "publish to"},
		{"nats: permissions violation: Permissions Violation for Subscription to %q", "subscribe to"},
	} {
		if _, scan := fmt.Sscanf(text, kind.format, &subject); scan == nil {
			return "this connection may not " + kind.verb + " " + subject
		}
	}
	return text
}

// Impossible returns a write of a key that no bucket accepts, because no bucket reaches
// the revision that the write is conditioned on.
func (e *Asker) Impossible(bucket, key string) *nats.Msg {
	put := "$KV." + bucket + "."
	if e.Api != jetstream.DefaultAPIPrefix {
		put = e.Api + put // as nats.go does: jetstream/kv.go, useJSPfx
	}
	return &nats.Msg{
		Subject: put + key,
		Reply:   e.Nc.NewInbox(),
		Header:  nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatInt(math.MaxInt64, 10)}},
		Data:    []byte("natsleader doctor"),
	}
}

// Listen subscribes, and unsubscribes when the server has answered.
func (e *Asker) Listen(subject string) func() error {
	return func() error {
		sub, err := e.Nc.SubscribeSync(subject)
		if err != nil {
			return err
		}
		flushed := e.Nc.FlushTimeout(e.Wait)
		// A subscription that was refused is gone already.
		if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrBadSubscription) {
			return err
		}
		return flushed
	}
}

// AskVersions returns the request that servers answer with their status to an account of their own.
func AskVersions() *nats.Msg {
	return &nats.Msg{Subject: wire.VersionSubject, Data: []byte(`{"include_unused": true}`)}
}

// serverStatus is what a server reports of itself.
type serverStatus struct {
	Server struct {
		Name      string `json:"name"`
		Version   string `json:"ver"`
		Cluster   string `json:"cluster"`
		Domain    string `json:"domain"`
		JetStream bool   `json:"jetstream"`
	} `json:"server"`
	Data *struct { // nil: the request was for the server alone
		Config struct {
			Interval time.Duration `json:"sync_interval"`
			Always   bool          `json:"sync_always"`
		} `json:"config"`
		Accounts []struct {
			ID   facts.Text `json:"acc"`
			Name facts.Text `json:"name"`
		} `json:"account_statz"`
		Account     facts.Text `json:"account"` // in the answer about a user
		AccountName facts.Text `json:"account_name"`
	} `json:"data"`
}

// Account is the account that has asked, if the request was about it or its user. The ID is a key where an operator signs
// accounts.
func (s serverStatus) Account() facts.Text {
	switch {
	case s.Data == nil:
		return ""
	case len(s.Data.Accounts) == 1:
		return cmp.Or(s.Data.Accounts[0].Name, s.Data.Accounts[0].ID)
	}
	return cmp.Or(s.Data.AccountName, s.Data.Account)
}

// StatusOf decodes a status. That of a reply which is none is empty.
func StatusOf(reply []byte) (s serverStatus) {
	if json.Unmarshal(reply, &s) != nil {
		return serverStatus{}
	}
	return s
}
