// Command reply-subject shows that a client can store messages under a subject that it may not publish to: the
// server publishes its replies there for it. It starts a server, and needs nothing else.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "reply-subject")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir,
		Users: []*server.User{
			{Username: "admin", Password: "x"},
			{Username: "a", Password: "x", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"s.a", "$JS.API.STREAM.INFO.S", "$JS.API.DIRECT.GET.S.s.a"}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}},
		},
	})
	if err != nil {
		return err
	}
	defer s.WaitForShutdown()
	defer s.Shutdown()
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		return errors.New("the server does not start")
	}
	admin, err := nats.Connect(s.ClientURL(), nats.UserInfo("admin", "x"))
	if err != nil {
		return err
	}
	defer admin.Close()
	a, err := nats.Connect(s.ClientURL(), nats.UserInfo("a", "x"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return err
	}
	defer a.Close()
	js, err := admin.JetStream()
	if err != nil {
		return err
	}
	if _, err = js.AddStream(&nats.StreamConfig{Name: "S", Subjects: []string{"s.>"}, MaxMsgsPerSubject: 1, AllowDirect: true}); err != nil {
		return err
	}
	fmt.Printf("nats-server %s: the user a may publish to s.a, $JS.API.STREAM.INFO.S and $JS.API.DIRECT.GET.S.s.a\n", server.VERSION)
	if err = a.Publish("s.b", []byte("published")); err != nil {
		return err
	}
	if err = a.Flush(); err != nil {
		return err
	}
	if _, err = js.GetLastMsg("S", "s.b"); !errors.Is(err, nats.ErrMsgNotFound) {
		return fmt.Errorf("s.b is not empty: %w", err)
	}
	fmt.Println("a publish to s.b is denied")
	if _, err = a.Request("s.a", []byte("what a has chosen"), time.Second); err != nil {
		return err
	}
	stored := 0
	for _, try := range []struct{ what, subject, data string }{
		{"an acknowledgement", "s.a", "what a has chosen"},
		{"the answer to STREAM.INFO", "$JS.API.STREAM.INFO.S", ""},
		{"the answer to a direct get", "$JS.API.DIRECT.GET.S.s.a", ""},
		{"the same, asked with no_hdr", "$JS.API.DIRECT.GET.S.s.a", `{"no_hdr":true}`},
	} {
		before := uint64(0)
		if last, failed := js.GetLastMsg("S", "s.b"); failed == nil {
			before = last.Sequence
		}
		if err = a.PublishRequest(try.subject, "s.b", []byte(try.data)); err != nil {
			return err
		}
		for limit := time.Now().Add(5 * time.Second); time.Now().Before(limit); time.Sleep(time.Millisecond) {
			m, err := js.GetLastMsg("S", "s.b")
			if err != nil || m.Sequence == before {
				continue
			}
			stored++
			fmt.Printf("%s is stored under s.b: %d headers, %q\n", try.what, len(m.Header), m.Data[:min(len(m.Data), 40)])
			break
		}
	}
	if stored > 0 {
		return fmt.Errorf("a has stored %d messages under s.b", stored)
	}
	return nil
}
