//go:build field

package main

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// A probe of doctor leaves no subscription on the connection, answered or not.
func TestDoctor_LeavesNoSubscription(t *testing.T) {
	s := startServer(t)
	nc, _ := connectTo(t, s.ClientURL())
	e := &environment{nc: nc, wait: time.Minute}
	before := nc.NumSubscriptions()
	if err := e.listen("x")(); err != nil {
		t.Error(err)
	}
	if _, err := e.ask(&nats.Msg{Subject: "nobody.answers"}); !errors.Is(err, nats.ErrNoResponders) {
		t.Error(err)
	}
	if _, err := e.ask(&nats.Msg{Subject: "$JS.API.INFO"}); err != nil {
		t.Error(err)
	}
	if after := nc.NumSubscriptions(); after != before {
		t.Errorf("%d subscriptions, %d before", after, before)
	}
}
