package leader_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// A term names the last leader, also after one that crashed, and none after the key was deleted.
func TestPrevious_NamesLastLeader(t *testing.T) { story(t) }

// A candidate that won the key and never led is no last leader.
func TestPrevious_AfterPendingOnly(t *testing.T) { story(t) }

// Each seat has a last leader of its own.
func TestPrevious_OnEachSeat(t *testing.T) { story(t) }

// With Inherit each term begins with the value of the last one, until a candidate without it leads.
func TestInherit_KeepsValue(t *testing.T) { story(t) }

// Where nobody leads, Observe, Lookup and the candidates show the last leader as the past. A pending
// holder has one, too.
func TestHolder_Last(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		holders := check.Got(leader.Observe(t.Context(), store.Link("o"), "e"))(t)
		campaign := func(id string, cfg leader.Config) *leader.Candidate {
			cfg.ID = id
			c := check.Got(leader.Campaign(t.Context(), store.Link(id), "e", cfg))(t)
			synctest.Wait()
			return c
		}
		expect := func(state leader.HolderState, last string) {
			t.Helper()
			synctest.Wait()
			observed, looked := <-holders, check.Got(leader.Lookup(t.Context(), store.Link("o"), "e"))(t)
			if last == "" {
				check.That(t, observed.Last == nil && looked.Last == nil, "%v and %v", observed.Last, looked.Last)
				return
			}
			check.Equal(t, observed.State, state, "it is %v")
			check.Must(t, observed.Last != nil, "Observe names no last leader: %+v", observed)
			got := fmt.Sprintf("%s %v %s %v", observed.Last.ID, observed.Last.State, observed.Last.Value, observed.Last.Token != 0)
			check.Equal(t, got, last, "Observe: %s, want %s", last)
			if looked.State != leader.HolderLeading { // a record shows no end of its lease
				check.Deep(t, looked.Last, observed.Last)
			}
		}
		expect(leader.HolderNone, "")
		a := campaign("a", leader.Config{Value: []byte("x")})
		expect(leader.HolderLeading, "")
		check.OK(t, a.Stop())
		expect(leader.HolderNone, "a released x true")
		b := campaign("b", leader.Config{PendingPeriod: time.Minute})
		expect(leader.HolderPending, "a released x true")
		check.OK(t, b.Stop())
		time.Sleep(time.Minute)
		expect(leader.HolderNone, "a released x true")
		campaign("c", leader.Config{Value: []byte("y")})
		expect(leader.HolderLeading, "")
		store.Link("c").Cut()
		time.Sleep(time.Minute)
		expect(leader.HolderNone, "c expired y true")
	})
}

// The feeds are deaf while a second candidate leads. The next read shows who led last: Observe reports it, and
// a candidate that may not take the key shows it without an event.
func TestHolder_LastAfterDeafFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, from := leadertest.NewStore(nil), time.Now()
		store.Link("guard").FailSettings(-1, leader.ErrNoBucket) // so that w may not take the key
		guards := []leader.Guard{store.Link("guard").Guard()}
		lead := func(id string) {
			c := check.Got(leader.Campaign(t.Context(), store.Link(id), "e", leader.Config{ID: id}))(t)
			time.Sleep(time.Second)
			check.OK(t, c.Stop())
		}
		lead("a")
		holders := check.Got(leader.Observe(t.Context(), store.Link("o"), "e"))(t)
		w := check.Got(leader.Campaign(t.Context(), store.Link("w"), "e", leader.Config{ID: "w", Guards: guards}))(t)
		events := w.Events(t.Context())
		observed := func() (h leader.Holder) {
			select {
			case h = <-holders:
			case <-time.After(time.Minute):
			}
			return h
		}
		last := func(h leader.Holder) string {
			check.Must(t, h.Last != nil, "no last leader: %+v", h)
			return fmt.Sprintf("%v: %v, last %s, until %v", time.Since(from), h.State, h.Last.ID, h.Last.Renewed.Sub(from))
		}
		check.Equal(t, last(observed()), "1s: none, last a, until 1s", "%s")
		synctest.Wait()
		store.Link("o").DeafFeeds()
		store.Link("w").DeafFeeds()
		lead("b")
		check.Equal(t, last(observed()), "8.5s: none, last b, until 2s", "%s")
		synctest.Wait()
		check.Equal(t, last(w.Leader()), "8.5s: none, last b, until 2s", "%s")
		for more := true; more; synctest.Wait() {
			select {
			case e := <-events:
				_, ok := e.(leader.Observed)
				check.That(t, !ok, "%v", e)
			default:
				more = false
			}
		}
	})
}
