package torture_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

// The two things that a leader keeps in a ledger, which is a bucket whose stream
// keeps every message.
const (
	register = "register" // a key: its value is the last that was written
	list     = "list"     // all that was ever written
)

// What can be attempted.
const (
	put    = "put"    // a value for the register, or one more for the list
	update = "update" // the same, in place of At
	batch  = "batch"  // Count values at once, or none
	// The revision of the last value was read, in two ways.
	leased    = "leased"    // which is good while the lease is
	confirmed = "confirmed" // after a fenced write
	waiting   = "waiting"   // between the check and the write of an update
)

// How it came out.
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

// value is what is written. Whoever finds it knows who attempted it, even if the
// process was killed before it could tell.
type value struct {
	By    string `json:"by"`
	Token uint64 `json:"token"`
	N     uint64 `json:"n"`
	Call  int64  `json:"call"`
}

// diary is where a process wrote down its attempts, each when it had ended.
type diary struct {
	path     string
	read     int64 // bytes of the file that are in attempts
	attempts []attempt
}

// follow takes what was written since.
func (d *diary) follow(tb testing.TB) {
	tb.Helper()
	followLines(tb, d.path, &d.read, func(line []byte) error {
		var a attempt
		err := json.Unmarshal(line, &a)
		d.attempts = append(d.attempts, a)
		return err
	})
}

// followLines takes the whole lines that were appended to a file since.
func followLines(tb testing.TB, path string, read *int64, take func(line []byte) error) {
	tb.Helper()
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return // the process has not come that far
	}
	ok(tb, err)
	defer func() { _ = f.Close() }()
	_, err = f.Seek(*read, 0)
	ok(tb, err)
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return // the rest of the line is not there yet
		}
		*read += int64(len(line))
		if err := take(line); err != nil {
			tb.Fatalf("%s: %q: %v", path, line, err)
		}
	}
}
