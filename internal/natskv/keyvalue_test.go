package natskv_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/natskv"
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
		kv := natskv.KeyValue(e, "k")
		op := map[bool]jetstream.KeyValueOp{false: jetstream.KeyValuePut, true: jetstream.KeyValueDelete}[marker]
		if kv.Key() != "k" || kv.Bucket() != "" || kv.Delta() != 0 || kv.Operation() != op {
			t.Errorf("marker %v: key %q, bucket %q, %v", marker, kv.Key(), kv.Bucket(), kv.Operation())
		}
		back := natskv.EntryOf(kv)
		check.That(t, fmt.Sprint(back) == fmt.Sprint(e), "marker %v: %+v", marker, back)
	}
	purge := natskv.EntryOf(stored{natskv.KeyValue(backend.Entry{Revision: 7, Value: []byte("v"), Created: at}, "k"), jetstream.KeyValuePurge})
	check.That(t, purge.Value == nil && purge.Marker && purge.Revision == 7, "a purge: %+v", purge)
}
