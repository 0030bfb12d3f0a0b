package torture_test

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"
)

// The kinds of journal entries.
const (
	began        = "began"        // the process stands in the election
	connected    = "connected"    // Text: the name of the server
	disconnected = "disconnected" // Text: why
	observed     = "observed"     // ID leads with Token, or no candidate leads
	faulted      = "faulted"      // Text: how
	pending      = "pending"      // the key was won; Left: until it may be elected, at least
	elected      = "elected"      // a term with Token has begun
	leads        = "leads"        // the term was valid at From, and at At
	revived      = "revived"      // a term that was over was valid again, which must not be
	fenced       = "fenced"       // Text: the cause, Context: that of the term's context
	deposed      = "deposed"      // the same
	ended        = "ended"        // the candidate has stopped, and nothing follows
)

// entry is one line of a candidate's journal. The instants are of the machine's
// monotonic clock, which is the same for all processes.
type entry struct {
	At    int64  `json:"at"`
	What  string `json:"what"`
	Shard string `json:"shard,omitempty"` // that a member of a group writes of
	Token uint64 `json:"token,omitempty"`
	From  int64  `json:"from,omitempty"`
	Left  int64  `json:"left,omitempty"` // at At, until the lease would have run out
	ID    string `json:"id,omitempty"`
	Text  string `json:"text,omitempty"`
	// The cause with which the term's context had ended; empty: it was alive.
	Context string `json:"context,omitempty"`
}

// journal is a file to which a process appends. Every line is one write, so that
// a process that is killed leaves whole lines.
type journal struct {
	mu sync.Mutex
	f  *os.File
}

func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &journal{f: f}, err
}

// write ends the process if it fails: a journal with a hole proves nothing.
func (j *journal) write(e any) {
	line, err := json.Marshal(e)
	if err == nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		_, err = j.f.Write(append(line, '\n'))
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "journal:", err)
		os.Exit(3)
	}
}

// life is one process in one election, from its start to its end.
type life struct {
	id      string
	pauses  []pause
	killed  int64 // when it was seen dead after a kill, 0 otherwise
	entries []entry

	path string
	read int64 // bytes of the file that are in entries

	diary diary // of its writes to the ledger, if there is one
}

// pause is a time in which a process certainly did nothing.
type pause struct{ from, to int64 }

// follow reads the entries written since the last call.
func (l *life) follow(tb testing.TB) {
	tb.Helper()
	follow(tb, l.path, &l.read, &l.entries)
}

func encode(tb testing.TB, v any) []byte {
	tb.Helper()
	b, err := json.Marshal(v)
	expect.OK(tb, err)
	return b
}
