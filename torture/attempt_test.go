package torture_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"
)

// The two parts of a ledger that a leader writes. A ledger is a bucket with a stream
// that keeps every message.
const (
	register = "register" // a key: its value is the last one written
	list     = "list"     // all values ever written
)

// The kinds of attempts.
const (
	put    = "put"    // a value for the register, or one more for the list
	update = "update" // the same, in place of the value at At
	batch  = "batch"  // Count values at once, or none
	// Reads of the revision of the last value, in two ways.
	leased    = "leased"    // which is valid while the lease is
	confirmed = "confirmed" // after a fenced write
	waiting   = "waiting"   // between the check and the write of an update
)

// The outcomes of an attempt.
const (
	accepted = "accepted" // as Rev
	refused  = "refused"  // by ErrFenced: not written
	mismatch = "mismatch" // At is not the last revision: not written
	declined = "declined" // for another reason: not written
	unknown  = "unknown"  // written or not
)

// attempt is a write or a read, from its call to its end, by the machine's clock.
type attempt struct {
	Kind  string `json:"kind"`
	What  string `json:"what"` // register or list
	Token uint64 `json:"token"`
	N     uint64 `json:"n,omitempty"`     // of the first value, unique in its process
	Count uint64 `json:"count,omitempty"` // of values
	Call  int64  `json:"call"`
	End   int64  `json:"end"`
	At    uint64 `json:"at,omitempty"`
	Rev   uint64 `json:"rev,omitempty"` // of the last value; read: 0 for none
	Out   string `json:"out"`
	Text  string `json:"text,omitempty"` // the error
}

// value is the content of a write. It names its writer, so that a value that is found
// can be attributed even if the process was killed before it wrote down the attempt.
type value struct {
	By    string `json:"by"`
	Token uint64 `json:"token"`
	N     uint64 `json:"n"`
	Call  int64  `json:"call"`
}

// diary is the file in which a process wrote down its attempts, each when it had ended.
type diary struct {
	path     string
	read     int64 // bytes of the file that are in attempts
	attempts []attempt
}

// follow reads the attempts written since the last call.
func (d *diary) follow(tb testing.TB) {
	tb.Helper()
	follow(tb, d.path, &d.read, &d.attempts)
}

// follow reads the whole lines that were appended to a file since the last call.
func follow[T any](tb testing.TB, path string, read *int64, into *[]T) {
	tb.Helper()
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return // the process has not come that far
	}
	expect.OK(tb, err)
	defer func() { _ = f.Close() }()
	expect.Got(f.Seek(*read, 0))(tb)
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return // the rest of the line is not there yet
		}
		*read += int64(len(line))
		var one T
		err = json.Unmarshal(line, &one)
		expect.Must(tb, err == nil, "%s: %q: %v", path, line, err)
		*into = append(*into, one)
	}
}
