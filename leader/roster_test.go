package leader_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// A leader reports an outage of the roster once, and the next outage again, although its text is the same.
func TestRosterFault_EachOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(map[string]answers{"Stands": denied})
		c := l.stand(t.Context(), t, leader.Config{Queue: &leader.Queue{AtOnce: true}})
		faults := func(want int) {
			t.Helper()
			check.Equal(t, c.Stats().Faults[leader.ErrPermission], uint64(want), "%d faults, want %d", want)
		}
		time.Sleep(2 * plainLease) // the leader has tried twice
		faults(1)
		l.answer("Stands", atOnce)
		time.Sleep(plainLease)
		l.answer("Stands", denied)
		time.Sleep(10 * plainLease) // the view is opened anew
		faults(2)
		check.Equal(t, l.count(l.asked, "Stands"), 4, "the view was opened %d times")
	})
}

// A leader that resigns gives up the view that is being opened. That is no fault. One that is not opened in
// time is.
func TestRosterFault_GivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(map[string]answers{"Stands": whenGivenUp})
		c := l.stand(t.Context(), t, leader.Config{Queue: &leader.Queue{AtOnce: true}})
		for term, faults := range []uint64{0, 1} {
			synctest.Wait()
			check.That(t, c.IsLeader(), "it does not lead in term %d", term+1)
			time.Sleep(time.Duration(term) * plainLease)
			check.OK(t, leadertest.Resign(t.Context(), c))
			synctest.Wait()
			check.Equal(t, l.count(l.flying, "Stands"), 0, "%d views are being opened")
			check.Equal(t, c.Stats().Faults[leader.ErrUnreachable], faults, "%d faults in the end of term %d", term+1)
			time.Sleep(plainLease)
		}
	})
}

// A leader hands over to a preemptor that it has seen for one lease since it leads. What it saw
// in an earlier term does not count.
func TestPreemption_SeenInThisTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(nil)
		preemptor := func(revision uint64) backend.Announcement {
			return backend.Announcement{Session: strings.Repeat("B", 26), Revision: revision, Entry: []byte(`{"v":1,"id":"b","priority":1,"preempt":true}`)}
		}
		l.standing = []backend.Announcement{preemptor(1)}
		c := l.stand(t.Context(), t, leader.Config{Queue: &leader.Queue{AtOnce: true}})
		time.Sleep(time.Second)
		l.answer("Stands", denied)
		check.OK(t, leadertest.Resign(t.Context(), c))
		time.Sleep(2 * plainLease)
		l.standing[0] = preemptor(2)
		l.answer("Stands", atOnce)
		time.Sleep(plainLease)
		synctest.Wait()
		for revision := uint64(3); revision <= 4; revision++ {
			l.stands(preemptor(revision))
			synctest.Wait()
			if leads := c.IsLeader(); leads != (revision == 3) || c.Stats().Elected != 2 {
				t.Errorf("at revision %d it leads: %v, in term %d", revision, leads, c.Stats().Elected)
			}
			time.Sleep(plainLease)
		}
	})
}
