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

// What a term has published about its shards counts while the record shows that it leads.
func TestStanding_Reports(t *testing.T) {
	l := group.Layout{Shards: 1, PageSize: 1}
	good, of := check.Got(l.EncodeMember(group.Published{Reports: make([]group.Report, 1), Weight: 1}))(t), group.Session{ID: "a", Token: 5}
	for name, c := range map[string]struct {
		shown        record.Last
		leads        bool
		over, counts bool
	}{
		"it leads":                    {record.Last{ID: "a", Token: 5, Value: string(good)}, true, false, true},
		"of another key":              {record.Last{ID: "a", Token: 4, Value: string(good)}, true, false, false},
		"a later term":                {record.Last{ID: "a", Token: 6, Value: string(good)}, true, true, false},
		"an earlier one was released": {record.Last{ID: "a", Token: 4, Value: string(good), Released: true}, false, false, false},
		"it leads no more":            {record.Last{ID: "a", Token: 5, Value: string(good)}, false, false, false},
		"it was released":             {record.Last{ID: "a", Token: 5, Value: string(good), Released: true}, false, true, false},
		"junk":                        {record.Last{ID: "a", Token: 5, Value: "junk"}, true, false, false},
	} {
		shown := termOf(l, c.shown, c.leads, 9)
		s := shown.standing(of)
		check.That(t, s.over == c.over && (s.reports != nil) == c.counts, "%s: %+v", name, s)
	}
}

// An owner works if the newest term of its ID is the one that the map names, and leads. Its token is the sum of the base of
// the page and of the revision of the grant.
func TestView_Owners(t *testing.T) {
	l := group.Layout{Shards: 2, PageSize: 1}
	publishes := func(p group.Published) []byte {
		p.Reports, p.Weight = make([]group.Report, 2), 1
		return check.Got(l.EncodeMember(p))(t)
	}
	leading := leader.Holder{State: leader.HolderLeading, ID: "a", Token: 5, Revision: 9, Value: publishes(group.Published{Value: "v"})}
	idle, unbegun, silent, later, released, other := leading, leading, leading, leading, leading, leading
	idle.Value = publishes(group.Published{Idle: true, Value: "v"})
	unbegun.Value, silent.Value = publishes(group.Published{Unbegun: []int{1}, Value: "v"}), publishes(group.Published{})
	leading.Value = publishes(group.Published{Unbegun: []int{0}, Value: "v"})
	released.State = leader.HolderReleased
	last := released
	released.Last = &last
	later.Token, other.ID = 6, "b"
	for name, c := range map[string]struct {
		holder leader.Holder
		want   Owner
		value  string // of the member
	}{
		"works":          {leading, Owner{State: OwnerWorks, ID: "a", Token: 107, Value: []byte("v")}, "v"},
		"no value":       {silent, Owner{State: OwnerWorks, ID: "a", Token: 107}, ""},
		"no Serve":       {idle, Owner{State: OwnerGranted, ID: "a", Token: 107, Value: []byte("v")}, "v"},
		"not begun":      {unbegun, Owner{State: OwnerGranted, ID: "a", Token: 107, Value: []byte("v")}, "v"},
		"a later term":   {later, Owner{State: OwnerIsGone, ID: "a", Token: 107}, "v"},
		"released":       {released, Owner{State: OwnerIsGone, ID: "a", Token: 107}, "v"},
		"another has it": {other, Owner{State: OwnerIsGone, ID: "a", Token: 107}, "v"},
		"never seen":     {leader.Holder{}, Owner{State: OwnerIsGone, ID: "a", Token: 107}, ""},
	} {
		s := sights{
			registry: group.Registry{Layout: l}, bases: []uint64{50, 100}, holders: map[string]leader.Holder{"a": c.holder},
			grants: []group.Grant{{}, {Owner: group.Session{ID: "a", Token: 5}, Since: 7}},
		}
		v := s.view()
		check.Deep(t, v.Owners, []Owner{{}, c.want})
		check.That(t, len(v.Members) == 1 && v.Members[0].ID == "a" && v.Members[0].Shards == 1 && string(v.Members[0].Value) == c.value, "%s: %+v", name, v.Members)
	}
}

// Of the shards of a page that is missing or damaged no owner is known. Those of the others have theirs.
func TestView_Lost(t *testing.T) {
	l := group.Layout{Shards: 5, PageSize: 2}
	s := sights{registry: group.Registry{Layout: l}}
	s.take([]backend.Entry{{}, {Revision: 7, Value: l.EncodePage(1, 1, make([]group.Grant, 2))}, {Revision: 8, Value: []byte("junk")}})
	v := s.view()
	check.Deep(t, v.Lost, []int{0, 1, 4})
	check.Equal(t, len(v.Owners), 5, "%d owners")
}

// A member that only was the owner before is none of those that a view lists.
func TestView_ListsNoPredecessor(t *testing.T) {
	s := sights{
		registry: group.Registry{Layout: group.Layout{Shards: 2, PageSize: 2}, Members: []group.Session{{ID: "b", Token: 1}}}, bases: []uint64{1},
		holders: map[string]leader.Holder{"a": {}, "b": {}, "c": {}},
		grants:  []group.Grant{{Owner: group.Session{ID: "c", Token: 5}, Pred: group.Session{ID: "a", Token: 5}, Since: 7}, {}},
	}
	v := s.view()
	ids := ""
	for _, m := range v.Members {
		ids += m.ID
	}
	check.Equal(t, ids, "bc", "it lists %s")
	check.Equal(t, v.Owners[0].From, "a", "the work of %s has to end first")
	check.Equal(t, v.Owners[1].From, "", "the work of %s has to end first")
}

// A state and a reason that this program does not know have their numbers as names.
func TestString_OfNumbers(t *testing.T) {
	for state, want := range map[OwnerState]string{OwnerNone: "none", OwnerIsGone: "gone", OwnerIsGone + 1: "OwnerState(5)", 255: "OwnerState(255)"} {
		check.Equal(t, state.String(), want, "%s")
	}
	for reason, want := range map[Reason]string{ReasonUnowned: "unowned", ReasonAsked: "asked", ReasonAsked + 1: "Reason(6)", 255: "Reason(255)"} {
		check.Equal(t, reason.String(), want, "%s")
	}
}
