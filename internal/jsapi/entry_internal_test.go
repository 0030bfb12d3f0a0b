package jsapi

import (
	"maps"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	expect "github.com/natsleader/natsleader/internal/check"
)

// The value of an entry counts if a client of this library can have written it.
func TestNewEntry_OfReplies(t *testing.T) {
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	added := nats.Header{"Nats-Stream": {"KV_E"}, "Nats-Subject": {"$KV.E.a"}, "Nats-Sequence": {"7"}, "Nats-Time-Stamp": {at.Format(time.RFC3339Nano)}}
	condition := nats.Header{"Nats-Expected-Last-Subject-Sequence": {"6"}}
	// of returns both headers in one.
	of := func(h, more nats.Header) nats.Header {
		all := maps.Clone(h)
		for k, v := range more {
			all[k] = append(all[k][:len(all[k]):len(all[k])], v...)
		}
		return all
	}
	for name, c := range map[string]struct {
		stored                 nats.Header
		value, sourced, marker bool
	}{
		"condition":           {stored: condition, value: true, sourced: true},
		"message TTL":         {stored: nats.Header{"Nats-TTL": {"never"}}, value: true, sourced: true},
		"no headers":          {stored: nats.Header{}, sourced: true},
		"other headers":       {stored: nats.Header{"X": {"y"}}, sourced: true},
		"direct get":          {stored: added},
		"direct get, written": {stored: of(condition, added)},
		"one header of it":    {stored: of(condition, nats.Header{"Nats-Time-Stamp": {"x"}})},
		"delete marker":       {stored: nats.Header{"KV-Operation": {"DEL"}}, value: true, sourced: true, marker: true},
		"expiry":              {stored: nats.Header{"Nats-Marker-Reason": {"MaxAge"}}, marker: true},
		"another operation":   {stored: of(condition, nats.Header{"KV-Operation": {"PUT"}}), value: true, sourced: true},
		"purge marker":        {stored: nats.Header{"KV-Operation": {"PURGE"}}, marker: true},
		"reply as a marker":   {stored: of(added, nats.Header{"KV-Operation": {"DEL"}})},
		"expiry, as a reply":  {stored: of(added, nats.Header{"Nats-Marker-Reason": {"MaxAge"}})},
	} {
		check := func(how string, value []byte, marker, want bool) {
			expect.That(t, marker == c.marker && (value != nil) == want,
				"%s, %s: the value is %q, marker=%v", name, how, value, marker)
		}
		e := NewEntry(7, at, c.stored, []byte("v"))
		check("stored", e.Value, e.Marker, c.value)
		e, ok := StoredEntry(&nats.Msg{Header: of(c.stored, added), Data: []byte("v")}, "KV_E", "$KV.E.a")
		check("delivered", e.Value, e.Marker, c.value)
		expect.That(t, ok && e.Revision == 7 && e.Created.Equal(at), "%s: got %+v", name, e)
		e = SourcedEntry(7, at, of(c.stored, added), []byte("v"))
		check("sourced", e.Value, e.Marker, c.sourced)
	}
}
