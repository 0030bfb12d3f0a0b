package leader_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// A TTL of 30 s is the least that nats-kv-leader-elect accepts; its interval is 22.5 s.
const (
	kvTTL      = 30 * time.Second
	kvInterval = 22500 * time.Millisecond
)

// A fleet of nats-kv-leader-elect moves over one process at a time.
func TestKVElect_FleetMovesOver(t *testing.T) {
	bubble(t, func(w *world) {
		f := w.fleet(kvTTL)
		for i := range 3 {
			f.old(fmt.Sprintf("old %d", i), time.Duration(i)*5*time.Second)
		}
		f.at(time.Minute)
		f.heardIs(t, "22.7s old 0 won")
		for i := range 3 {
			// The leader goes first, which is an old process.
			p := f.olds[slices.IndexFunc(f.olds, func(p *kvProcess) bool { return p.leads.Load() })]
			p.quit()
			<-p.done
			f.olds = slices.DeleteFunc(f.olds, func(o *kvProcess) bool { return o == p })
			p.nc.Close()
			f.new(fmt.Sprintf("new %d", i))
			// In any case there is a leader again.
			f.at(f.now() + 2*kvTTL + kvInterval)
			check.Must(t, f.leader() != "", "%v: nobody leads", f.now())
			t.Log(f.heard())
			if len(f.olds) == 0 {
				break
			}
			// The next process to go shall be the leader. So candidates hand over until
			// an old process leads.
			for f.leaderIsNew() {
				for _, c := range f.news {
					if c.IsLeader() {
						w.ok(c.Stop(w.Context()))
					}
				}
				f.at(f.now() + kvInterval + kvInterval + time.Second)
			}
		}
		if !f.leaderIsNew() {
			t.Errorf("%q leads", f.leader())
		}
		// No old process is left: the setting can be dropped, one candidate at a time.
		for _, c := range f.news {
			w.ok(c.Stop(w.Context()))
			last := f.standAs(leader.Config{ID: c.ID() + " without", LeaseDuration: 15 * time.Second})
			f.news = append(f.news, last)
		}
		f.at(f.now() + 2*kvTTL)
		if !f.leaderIsNew() {
			t.Errorf("%q leads", f.leader())
		}
	})
}

func (f *fleet) leaderIsNew() bool {
	_, news := f.leaders()
	return len(news) == 1
}

// An old process takes a released key at its next interval.
func TestKVElect_Release(t *testing.T) {
	bubble(t, func(w *world) {
		f := w.fleet(kvTTL)
		a := f.new("a")
		f.at(time.Minute)
		f.heardIs(t, "30s a elected")
		f.old("old", 10*time.Second) // campaigns at 70s, 92.5s, ...
		f.at(80 * time.Second)
		w.ok(a.Stop(w.Context()))
		check.That(t, a.lastTerm(t).Err() != nil, "the term goes on")
		check.Is(t, check.Err(f.kv().Get(w.Context(), "e")), jetstream.ErrKeyNotFound)
		h, err := leader.Lookup(w.Context(), a.bucket(t), "e")
		check.That(t, err == nil && h.Released, "Lookup: %+v, %v", h, err)
		f.at(3 * time.Minute)
		f.heardIs(t, fmt.Sprintf("%v old won", 70*time.Second+kvInterval+kvInterval+kvGrace))
	})
}

// A handover among candidates takes no time beside old processes.
func TestKVElect_Handover(t *testing.T) {
	bubble(t, func(w *world) {
		f := w.fleet(kvTTL)
		a := f.new("a")
		f.at(40 * time.Second)
		f.old("old", 0)
		b := f.new("b")
		f.at(50 * time.Second)
		b.news()
		w.ok(a.Resign(w.Context()))
		b.sawBut(t, "observed nobody", "50s pending", "50s elected")
		// A release frees the key, whether or not the successor has the setting.
		w.ok(b.Stop(w.Context()))
		f.at(51 * time.Second)
		c := f.standAs(leader.Config{ID: "c", LeaseDuration: 15 * time.Second})
		c.saw(t, "51s pending", "51s elected")
	})
}

// An old leader that dies is replaced after two TTLs.
func TestKVElect_DeadOldLeader(t *testing.T) {
	bubble(t, func(w *world) {
		f := w.fleet(kvTTL)
		old := f.old("old", 0)
		f.at(20 * time.Second)
		a := f.new("a")
		f.at(70 * time.Second) // its last update was at 67.5s
		h, err := leader.Lookup(w.Context(), a.bucket(t), "e")
		check.That(t, err == nil && h.Foreign && string(h.Value) == "old" && !h.Leads(), "Lookup: %+v, %v", h, err)
		old.quit()
		f.at(3 * time.Minute)
		// Its records cause no faults.
		a.saw(t, "20s observed foreign", "1m37.5s observed nobody", "1m37.5s pending for 30s", "2m7.5s elected")
		f.heardIs(t, "22.7s old won", "2m7.5s a elected")
	})
}

// Without the setting KVElect, each record of an old process is a fault.
func TestKVElect_Unset(t *testing.T) {
	bubble(t, func(w *world) {
		f := w.fleet(kvTTL)
		f.old("old", 0)
		f.at(10 * time.Second)
		a := f.standAs(leader.Config{ID: "a", LeaseDuration: 15 * time.Second})
		f.at(50 * time.Second)
		a.saw(t, "10s faulted foreign", "10s observed foreign", "22.5s faulted foreign", "45s faulted foreign")
	})
}

// A key that is deleted under an old leader is led when the old leader must have noticed.
func TestKVElect_DeletedKey(t *testing.T) {
	bubble(t, func(w *world) {
		f := w.fleet(kvTTL)
		f.old("old", 0)
		f.at(time.Millisecond) // the old process has the key
		a := f.new("a")
		f.at(45 * time.Second) // it has just updated
		w.ok(f.kv().Delete(w.Context(), "e"))
		f.at(2 * time.Minute)
		a.sawBut(t, "observed foreign", "45s observed nobody", "45s pending for 30s", "1m15s elected")
		f.heardIs(t, "22.7s old won", "1m7.5s old lost", "1m15s a elected")
	})
}

// A leader whose key is deleted while it is cut off is fenced before an old process
// leads.
func TestKVElect_CutOffIsFenced(t *testing.T) {
	bubble(t, func(w *world) {
		f := w.fleet(kvTTL)
		a := f.new("a")
		f.at(40 * time.Second)
		f.old("old", 2500*time.Millisecond) // campaigns at 42.5s
		f.at(42500*time.Millisecond - 1)
		a.news()
		a.blackhole(up, down) // the last renewal was sent at 40s: every 2.5 s from 30 s on
		w.ok(f.kv().Delete(w.Context(), "e"))
		f.at(2 * time.Minute)
		a.sawBut(t, "faulted", "52s fenced expired")
		f.heardIs(t, "30s a elected", "1m5.2s old won")
		a.open()
		f.at(3 * time.Minute)
		// It has been fenced for longer than 5s, so it waits 5s for each reply. Its next try shows the loss.
		a.sawBut(t, "faulted", "2m1.5s deposed expired", "2m1.5s observed foreign")
	})
}

// Lost replies cost the old process its lead, and cost no process its safety. Faults 7
// and 8 of docs/faults.md: writes with lost replies, on either side.
func TestKVElect_LostReplies(t *testing.T) {
	bubble(t, func(w *world) {
		f := w.fleet(kvTTL)
		old := f.old("old", 0)
		f.at(40 * time.Second)
		f.heard()
		a := f.new("a")
		old.blackhole(down) // its update of 45s is stored, and it takes that for a loss
		f.at(55 * time.Second)
		old.open()
		f.at(4 * time.Minute)
		// Its record stands until 75s, and its try at 67.5s is refused.
		f.heardIs(t, "50s old lost", "1m45s a elected")
		a.news()
		a.blackhole(down) // its renewals are stored
		f.at(5 * time.Minute)
		a.open()
		f.at(10 * time.Minute)
		check.That(t, f.leader() != "", "nobody leads")
	})
}

// The setting KVElect is refused for a bucket in which it cannot work.
func TestKVElect_UnfitBucket(t *testing.T) {
	inSealed(t, func(w *world) {
		b := w.ops.bucket(t)
		check.Got(b.Info(w.Context()))(w)
		_, err := leader.Campaign(w.Context(), b, "e", leader.Config{KVElect: true})
		wantText(t, err, leader.ErrIncompatibleBucket, "KVElect needs a bucket with a TTL, and this has none")
		w.ok(w.ops.js.DeleteKeyValue(w.Context(), "E"))
		w.fleet(16 * time.Second)
		b = w.ops.bucket(t)
		check.Got(b.Info(w.Context()))(w)
		_, err = leader.Campaign(w.Context(), b, "e", leader.Config{KVElect: true, LeaseDuration: 13 * time.Second})
		wantText(t, err, leader.ErrIncompatibleBucket, "with KVElect LeaseDuration 13s is more than three quarters of the bucket's TTL 16s")
	})
}

func wantText(t *testing.T, err, is error, text string) {
	t.Helper()
	check.That(t, errors.Is(err, is) && err.Error() == fmt.Sprintf("%v: %s", is, text),
		"%v, want %v: %s", err, is, text)
}
