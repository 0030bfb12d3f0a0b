package natskv

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
)

// EntryOf returns the entry of a KV bucket as an Entry.
func EntryOf(e jetstream.KeyValueEntry) backend.Entry {
	value := e.Value()
	if e.Operation() == jetstream.KeyValuePurge {
		value = nil // candidates do not look at it either
	}
	return backend.Entry{
		Revision: e.Revision(), Value: value, Created: e.Created(),
		Marker: e.Operation() != jetstream.KeyValuePut,
	}
}

// KeyValue returns an entry, of that key, as one of a KV bucket without a name.
func KeyValue(e backend.Entry, key string) jetstream.KeyValueEntry { return keyValue{e, key} }

type keyValue struct {
	e   backend.Entry
	key string
}

func (k keyValue) Bucket() string     { return "" }
func (k keyValue) Key() string        { return k.key }
func (k keyValue) Value() []byte      { return k.e.Value }
func (k keyValue) Revision() uint64   { return k.e.Revision }
func (k keyValue) Created() time.Time { return k.e.Created }
func (k keyValue) Delta() uint64      { return 0 }

// Operation is a delete for all markers: an Entry does not tell them apart.
func (k keyValue) Operation() jetstream.KeyValueOp {
	if k.e.Marker {
		return jetstream.KeyValueDelete
	}
	return jetstream.KeyValuePut
}
