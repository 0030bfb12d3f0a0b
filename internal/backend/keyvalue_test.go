package backend_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
)

// stored is an entry as package jetstream returns it.
type stored struct {
	jetstream.KeyValueEntry
	op jetstream.KeyValueOp
}

func (s stored) Operation() jetstream.KeyValueOp { return s.op }

// An entry becomes an entry of a KV bucket, and back. Its value is what candidates look at: that
// of a purge is none.
func TestEntry_KeyValue(t *testing.T) {
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, marker := range []bool{false, true} {
		e := backend.Entry{Revision: 7, Value: []byte("v"), Marker: marker, Created: at}
		kv := e.KeyValue("k")
		op := map[bool]jetstream.KeyValueOp{false: jetstream.KeyValuePut, true: jetstream.KeyValueDelete}[marker]
		if kv.Key() != "k" || kv.Bucket() != "" || kv.Delta() != 0 || kv.Operation() != op {
			t.Errorf("marker %v: key %q, bucket %q, %v", marker, kv.Key(), kv.Bucket(), kv.Operation())
		}
		if back := backend.EntryOf(kv); fmt.Sprint(back) != fmt.Sprint(e) {
			t.Errorf("marker %v: %+v", marker, back)
		}
	}
	purge := backend.EntryOf(stored{backend.Entry{Revision: 7, Value: []byte("v"), Created: at}.KeyValue("k"), jetstream.KeyValuePurge})
	if purge.Value != nil || !purge.Marker || purge.Revision != 7 {
		t.Errorf("a purge: %+v", purge)
	}
}

// A refusal is known by its kind, and names the last revision if the server has named it.
func TestRefusedError_NamesRevision(t *testing.T) {
	for text, e := range map[string]*backend.RefusedError{
		"leader: compare-and-set refused":                         {Actual: 7},
		"leader: compare-and-set refused: the last revision is 7": {Actual: 7, Named: true},
		"leader: compare-and-set refused: the last revision is 0": {Named: true},
	} {
		if err := fmt.Errorf("it: %w", e); !errors.Is(err, backend.ErrRefused) || errors.Is(err, backend.ErrUnreachable) || e.Error() != text {
			t.Errorf("%q, not %q", e.Error(), text)
		}
	}
	if text := backend.ErrNoBucket.Error(); text != "leader: the bucket does not exist" {
		t.Errorf("an error is %q", text)
	}
}
