package main

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// note writes, changes, shows and removes the note of an election. The notes are no elections for other commands, which
// show them. What other clients write there is no link to anything but a page.
func TestNote_OfElection(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("note", "note billing", "note --owner a", "note billing --runbook javascript:alert(1)")
		w.Prompt("note billing --runbook http://", "note natsleader.note.billing", "status natsleader.note.billing")
		w.Fails("note billing --owner "+strings.Repeat("x", 501), front.ExitUsage, "--owner has more than 500 bytes")
		w.Prompt("note billing --owner team-pay --runbook https://wiki.example.com/billing", "note billing --one-shot", "note billing --no-one-shot --json")
		w.Prompt("note nightly --one-shot", "note", "note --json", "note nightly --owner a --remove", "note mail --remove")
		w.Campaigns("billing", leader.Config{ID: "a"})
		testworld.Put(w.T, w.Js, "nightly", testworld.Record(w.T, w.Js, "billing", "b", time.Minute))
		testworld.Put(w.T, w.Js, "natsleader.note.evil", `{"owner":"\u001b[2J","runbook":"javascript:alert(1)"}`)
		testworld.Put(w.T, w.Js, "natsleader.note.mail", `[]`)
		kv := expect.Got(w.Js.KeyValue(w.Context(), "elections"))(w)
		expect.OK(w, kv.Delete(w.Context(), "nightly"))
		time.Sleep(time.Second)
		w.Prompt("note", "note evil", "note mail", "status", "status billing", "status nightly --json", "drain x", "bucket rm elections --yes")
		w.Prompt("status nightly "+as("limited"), "status nightly --json "+as("limited"))
		w.Follow("watch nightly --json " + as("limited"))()
		w.Notef("# the note of nightly is damaged\n")
		testworld.Put(w.T, w.Js, "natsleader.note.nightly", `{"owner":7`)
		w.Prompt("note nightly", "status nightly", "note nightly --owner b", "note nightly --one-shot")
		testworld.Put(w.T, w.Js, "old", "hello")
		w.Prompt("note old --owner later")
		stop := w.Follow("watch --json")
		time.Sleep(time.Second)
		w.Prompt("note nightly --remove")
		time.Sleep(time.Second)
		testworld.Put(w.T, w.Js, "nightly", "hello")
		time.Sleep(time.Second)
		stop()
		time.Sleep(time.Second) // not at the instant of a renewal
		w.Follow("watch billing --json")()
		w.Prompt("note nightly", "note nightly --remove", "note nightly --owner a")
		w.Prompt("status billing "+as("limited"), "note billing "+as("limited"))
	}, testworld.WithUser("limited", testworld.Denied("$JS.API.DIRECT.GET.KV_elections.$KV.elections.natsleader.note.>")))
}

// writeHook calls a function before the first write of a connection that contains a text.
type writeHook struct {
	net.Conn
	text string
	once *sync.Once
	call func()
}

func (c *writeHook) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(c.text)) {
		c.once.Do(c.call)
	}
	return c.Conn.Write(b)
}

// A note that another client changes meanwhile is not overwritten, and not removed.
func TestNote_ChangedMeanwhile(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		for _, line := range []string{"note billing --owner a", "note billing --owner b", "note billing --remove"} {
			once := &sync.Once{}
			w.Dialled = func(c net.Conn) net.Conn {
				return &writeHook{c, "PUB $KV.elections.natsleader.note.billing ", once, func() {
					testworld.Put(w.T, w.Js, "natsleader.note.billing", `{"owner":"another"}`)
				}}
			}
			w.Prompt(line)
			w.Dialled = nil
			w.Prompt("note billing")
		}
	})
}
