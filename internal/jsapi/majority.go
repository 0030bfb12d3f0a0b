package jsapi

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
)

// A server that has lost its routes keeps its clients. Its replica of a stream goes on answering
// direct gets, with what was stored before. So an answered read proves nothing. Only a majority of
// the stream's servers acknowledges a write, stores what a feed delivers, and elects the leader that
// answers STREAM.INFO.

// unheard is how long a replica has sent nothing when it no longer counts. The leader of a stream
// hears from each replica every second (nats-server, raft.go, hbInterval).
const unheard = 3 * time.Second

// Majority returns an error if the answer to STREAM.INFO does not show that a leader of the stream
// hears from a majority. A leader that is cut off answers for some 10 s more. A replica that has
// never been heard counts, because a new leader has heard from none.
func Majority(info *jetstream.StreamInfo) error {
	c := info.Cluster
	switch {
	case c == nil: // a single server
		return nil
	case c.Leader == "":
		return fmt.Errorf("%w: stream %s has no leader", backend.ErrUnreachable, info.Config.Name)
	}
	var lost []string
	for _, r := range c.Replicas {
		if r.Offline || r.Active >= unheard {
			lost = append(lost, r.Name)
		}
	}
	if all := len(c.Replicas) + 1; 2*len(lost) >= all {
		return fmt.Errorf("%w: the leader of stream %s does not hear from %s: %d of its %d servers",
			backend.ErrUnreachable, info.Config.Name, strings.Join(lost, ", "), len(lost), all)
	}
	return nil
}

// Signed records a sign of a majority: an acknowledged write, a stored message that a feed has
// delivered, or an answer to STREAM.INFO that passes Majority.
func (a *Stream) Signed() { a.signed.Store(int64(deadline.Elapsed())) }

// isQuiet reports whether no sign has come for that long.
func (a *Stream) isQuiet(d time.Duration) bool {
	return deadline.Elapsed()-time.Duration(a.signed.Load()) >= d
}

// mover decides when a connection moves.
type mover struct {
	mu    sync.Mutex
	busy  bool          // a goroutine is moving the connection
	moved time.Duration // when the connection last moved; see deadline.Elapsed
	row   uint          // the moves since the last sign
}

// longestQuiet bounds the time between two moves without a sign, unless a single wait is longer.
const longestQuiet = time.Minute

// Move connects to another server, because no sign of a majority of the stream has come for quiet. It
// does nothing if a sign has come for another candidate, while the connection is down, or if it knows
// no other server. A second move without a sign waits for twice quiet after the first, a third for
// four times, up to a minute, because the whole cluster may have no majority. moving gets the address
// of the server that is about to be left, and returns whether the connection may leave it. Move returns
// at once.
func (a *Stream) Move(quiet time.Duration, moving func(from string) bool) {
	if a.Opened() != nil || !a.isQuiet(quiet) {
		return
	}
	m := &a.conn.mover
	m.mu.Lock()
	defer m.mu.Unlock()
	now := deadline.Elapsed()
	if time.Duration(a.signed.Load()) > m.moved {
		m.row = 0
	}
	if m.busy || m.row > 0 && now-m.moved < max(quiet, min(quiet<<m.row, longestQuiet)) {
		return
	}
	m.busy = true
	go func() {
		moves := a.moveSoon(quiet, moving)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.busy = false; moves {
			m.moved, m.row = now, min(m.row+1, 16)
		}
	}()
}

// longestPause bounds the random pause before a move.
const longestPause = time.Second

// moveSoon moves the connection after a random pause, so that the clients of a server do not leave it
// at the same instant, and reports whether it does. It may wait for the connection's lock.
func (a *Stream) moveSoon(quiet time.Duration, moving func(from string) bool) bool {
	deadline.Pause(rand.N(min(quiet/8, longestPause) + 1))
	if tries, forever := a.Reconnects(); tries == 0 && !forever { // nats.go would not try this server again
		return false
	}
	if !a.isQuiet(quiet) || a.Connected() != nil || len(a.Conn.Servers()) < 2 || !moving(a.Conn.ConnectedUrlRedacted()) {
		return false
	}
	_ = a.Conn.ForceReconnect() // it fails if the connection is closed
	return true
}
