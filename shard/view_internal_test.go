package shard

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
)

// A term is over when its record was released, or when a later term has begun. A candidate that holds the key and has
// not led shows neither, and a key that was deleted before it came names no last leader.
func TestView_TermIsOver(t *testing.T) {
	a := record.Last{ID: "a", Token: 5}
	gone := a
	gone.Released = true
	for _, c := range []struct {
		rec  record.Record
		over bool
	}{
		{record.Record{Phase: record.PhaseLeading, ID: "a", Token: 5}, false},
		{record.Record{Phase: record.PhaseReleased, ID: "a", Token: 5}, true},
		{record.Record{Phase: record.PhaseLeading, ID: "b", Token: 6}, true},
		{record.Record{Phase: record.PhasePending, ID: "b", Least: 6, Last: a.Pack()}, false},
		{record.Record{Phase: record.PhasePending, ID: "b", Least: 6, Last: gone.Pack()}, true},
		{record.Record{Phase: record.PhasePending, ID: "b", Least: 6}, false},
		{record.Record{Phase: record.PhaseReleased, ID: "b", Token: 6, NeverLed: true}, false},
	} {
		c.rec.Session, c.rec.Lease = c.rec.ID, time.Second
		e := natskv.KeyValue(backend.Entry{Revision: 9, Value: c.rec.Encode(0)}, "e")
		shown := termShown(group.Layout{Shards: 1, PageSize: 1}, leader.HolderOf(e))
		check.Equal(t, shown.standing(group.Session{ID: "a", Token: 5}).over, c.over, "%v: %s", c.rec.Encode(0))
	}
}
