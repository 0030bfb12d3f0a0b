package main

import (
	"bytes"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// note writes, changes, shows and removes the note of an election. The notes are no elections for other commands, which
// show them. What other clients write there is no link to anything but a page.
func TestNote_OfElection(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("note", "note billing", "note --owner a", "note billing --runbook javascript:alert(1)")
		w.prompt("note billing --runbook http://", "note natsleader.note.billing", "status natsleader.note.billing")
		w.fails("note billing --owner "+strings.Repeat("x", 501), exitUsage, "--owner has more than 500 bytes")
		w.prompt("note billing --owner team-pay --runbook https://wiki.example.com/billing", "note billing --one-shot", "note billing --no-one-shot --json")
		w.prompt("note nightly --one-shot", "note", "note --json", "note nightly --owner a --remove", "note mail --remove")
		w.campaigns("billing", leader.Config{ID: "a"})
		put(w.T, w.js, "nightly", record(w.T, w.js, "billing", "b", time.Minute))
		put(w.T, w.js, "natsleader.note.evil", `{"owner":"\u001b[2J","runbook":"javascript:alert(1)"}`)
		put(w.T, w.js, "natsleader.note.mail", `[]`)
		kv := expect.Got(w.js.KeyValue(w.Context(), "elections"))(w)
		expect.OK(w, kv.Delete(w.Context(), "nightly"))
		time.Sleep(time.Second)
		w.prompt("note", "note evil", "status", "status billing", "status nightly --json", "drain x", "bucket rm elections --yes")
		put(w.T, w.js, "old", "hello")
		w.prompt("note old --owner later")
		stop := w.follow("watch --json")
		time.Sleep(time.Second)
		w.prompt("note nightly --remove")
		time.Sleep(time.Second)
		put(w.T, w.js, "nightly", "hello")
		time.Sleep(time.Second)
		stop()
		time.Sleep(time.Second) // not at the instant of a renewal
		w.follow("watch billing --json")()
		w.prompt("note nightly", "note nightly --remove", "note nightly --owner a")
		w.prompt("status billing "+as("limited"), "note billing "+as("limited"))
	}, withUser("limited", denied("$JS.API.DIRECT.GET.KV_elections.$KV.elections.natsleader.note.>")))
}

// What others write as a note is shown up to a length.
func TestNote_Bounds(t *testing.T) {
	const page = "https://x/"
	note := func(owner, link int) electionNote {
		n := electionNote{Owner: strings.Repeat("o", owner), Runbook: page + strings.Repeat("r", link-len(page)), OneShot: true}
		return decodeNote(expect.Got(json.Marshal(n))(t))
	}
	n := note(mostNote, mostNote)
	expect.That(t, len(n.Owner) == mostNote && len(n.Runbook) == mostNote, "%+v", n)
	expect.Deep(t, note(1, mostNote+1), electionNote{Owner: "o", OneShot: true})
	expect.Deep(t, note(mostNote+1, 20), electionNote{})
}

// The key of a one-shot job that was deleted is no trouble.
func TestWatched_OneShotIsIdle(t *testing.T) {
	for oneShot, want := range map[bool]trouble{false: troubleDeleted, true: troubleIdle} {
		x := &watched{now: electionStatus{note: electionNote{OneShot: oneShot}}, as: stateDeleted}
		expect.Equal(t, x.troubleOf(time.Now(), nil), want, "trouble %d")
	}
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
	bubble(t, leader.BucketConfig{}, func(w *world) {
		for _, line := range []string{"note billing --owner a", "note billing --owner b", "note billing --remove"} {
			once := &sync.Once{}
			w.dialled = func(c net.Conn) net.Conn {
				return &writeHook{c, "PUB $KV.elections.natsleader.note.billing ", once, func() {
					put(w.T, w.js, "natsleader.note.billing", `{"owner":"another"}`)
				}}
			}
			w.prompt(line)
			w.dialled = nil
			w.prompt("note billing")
		}
	})
}
