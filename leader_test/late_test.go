package leader_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// isWrite reports whether a frame is a request to write the election's key.
func isWrite(f frame) bool { return f.dir == up && f.subject == "$KV.E.e" }

// firstWrite holds the first write and loses those that follow.
func firstWrite() func(frame) treatment {
	seen := false
	return func(f frame) treatment {
		switch {
		case !isWrite(f):
			return pass
		case seen:
			return drop
		default:
			seen = true
			return hold
		}
	}
}

// A win that was applied late is used. Fault 7 of docs/faults.md: used.
func TestLateWin_IsUsed(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.behind(firstWrite())
		w.at(2200 * time.Millisecond)
		a.saw(t, "1s faulted unreachable")
		a.openInTurn()
		w.at(w.now()) // the held write arrives before b comes
		b := w.stand("b")
		// The write of 2s is given up at 3s, and then the candidate reads the key.
		w.at(20 * time.Second)
		a.saw(t, "3s pending", "3s elected")
		b.saw(t, "2.2s observed a")
		w.leads(a, b)
	})
}

// A candidate that stops releases a win that was applied late. Fault 7 of docs/faults.md:
// released.
func TestLateWin_IsReleasedByStop(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.behind(firstWrite())
		w.at(2200 * time.Millisecond)
		stop := w.begin(func() error { return a.Stop(w.Context()) })
		w.at(2500 * time.Millisecond)
		a.openInTurn()
		w.at(w.now()) // the held write arrives before b comes
		b := w.stand("b")
		w.at(20 * time.Second)
		// The write of 2s is given up at 3s. Then the candidate reads the key, and
		// releases.
		stop.returned(3*time.Second, nil)
		a.saw(t, "1s faulted unreachable")
		b.saw(t, "2.5s observed a", "3s observed nobody", "3s pending", "3s elected")
	})
}

// Fault 7 of docs/faults.md: the late win is not believed for longer than its lease was
// valid.
func TestLateWin_AfterItsLease(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.behind(firstWrite())
		w.at(30 * time.Second)
		a.news()
		a.openInTurn()
		w.at(40 * time.Second)
		// It is elected by the write that follows, which has a valid lease.
		got := a.transitions()
		check.Must(t, len(got) == 2 && strings.HasSuffix(got[1], " elected"), "a saw %q", got)
		r := a.lastTerm(t).Remaining()
		check.That(t, r <= deadline, "%v remain", r)
	})
}

// A renewal that is applied after the loss prolongs the lease once. Fault 8 of
// docs/faults.md.
func TestLateRenewal_ProlongsOnce(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.pair()
		a.detain(up)
		w.at(8500 * time.Millisecond)
		a.saw(t, "4.25s faulted unreachable", "7.8s fenced expired")
		rule := a.takeHeld()
		a.cut() // it is gone for good
		rule(w, "$KV.E.e")
		w.at(20 * time.Second)
		b.saw(t, "14.5s observed nobody", "14.5s pending", "14.5s elected")
	})
}

// A candidate that is still there uses its renewal that was applied after the loss. Fault
// 8 of docs/faults.md.
func TestLateRenewal_IsUsed(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.pair()
		a.detain(up)
		w.at(8500 * time.Millisecond)
		a.saw(t, "4.25s faulted unreachable", "7.8s fenced expired")
		a.openInTurn()
		w.at(10 * time.Second)
		a.saw(t, "8.5s deposed expired", "8.5s pending", "8.5s elected")
		b.saw(t, "8.5s observed a")
		w.leads(a, b)
	})
}

// A renewal that arrives after a successor has won is refused.
func TestLateRenewal_IsRefused(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.pair()
		a.detain(up)
		w.at(10 * time.Second)
		b.saw(t, "9s observed nobody", "9s pending", "9s elected")
		a.openInTurn()
		w.at(20 * time.Second)
		b.saw(t)
		a.turned(t, "7.8s fenced expired", "10s deposed expired")
		w.leads(a, b)
	})
}

// takeHeld takes the held frames, and returns a function that publishes those of a
// subject from elsewhere. A network does that when it delivers them after their sender
// is gone.
func (l *link) takeHeld() func(w *world, subject string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.held
	l.held = nil
	return func(w *world, subject string) {
		for _, h := range held {
			if h.f.subject != subject {
				continue
			}
			w.ok(w.ops.nc.PublishMsg(&nats.Msg{Subject: subject, Header: h.f.header(), Data: h.f.data()}))
			w.ok(w.ops.nc.Flush())
			return
		}
		w.Fatalf("nothing is held for %s", subject)
	}
}

// refuse answers the next writes with 10164, which names no revision and proves
// nothing. If stored, the write is stored all the same, and the true answer is lost.
func (l *link) refuse(w *world, times int, stored bool) {
	lost := make(map[string]bool)
	l.filter(func(f frame) treatment {
		if f.dir == down && lost[f.subject] && strings.Contains(string(f.body), `"seq"`) {
			return drop
		}
		if !isWrite(f) || times == 0 {
			return pass
		}
		times--
		lost[f.reply] = true
		_ = w.ops.nc.Publish(f.reply, []byte(`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`))
		if stored {
			return pass
		}
		return drop
	})
}

// The refusal of one renewal does not depose the leader, whether the renewal was stored
// or not. Fault 10 of docs/faults.md.
func TestRefusal_IsNotALoss(t *testing.T) {
	for _, stored := range []bool{false, true} {
		inSealed(t, func(w *world) {
			a, b := w.pair()
			a.refuse(w, 1, stored)
			w.at(time.Minute)
			a.saw(t)
			b.saw(t)
			w.leads(a, b)
		})
	}
}

// Refusals without end do not prolong the lease. Fault 10 of docs/faults.md.
func TestRefusal_EndlessIsNoLease(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.pair()
		a.refuse(w, -1, false)
		w.at(30 * time.Second)
		b.saw(t, "9s observed nobody", "9s pending", "9s elected")
		got := a.news()
		if len(got) != 3 || got[0] != "7.8s fenced expired" || !strings.HasSuffix(got[1], "s deposed expired") || !strings.HasSuffix(got[2], "s observed b") {
			t.Fatalf("a saw %q", got)
		}
		// It pauses between its tries, and then reads the key.
		at := check.Got(time.ParseDuration(strings.TrimSuffix(got[1], " deposed expired")))(w)
		check.That(t, at >= lease+3*time.Second && at <= lease+3*time.Second+interval*5/16, "deposed at %v", at)
		w.leads(a, b)
	})
}

// A win that was stored although its reply refused it is used. Fault 10 of
// docs/faults.md.
func TestRefusedWin_IsUsed(t *testing.T) {
	inSealed(t, func(w *world) {
		cl := w.dial("a")
		cl.refuse(w, 1, true)
		a := w.campaign(w.Context(), cl, "e", leader.Config{ID: "a"})
		w.at(time.Minute)
		got := a.news()
		check.Must(t, len(got) == 2, "a saw %q", got)
		at := check.Got(time.ParseDuration(strings.TrimSuffix(got[1], " elected")))(w)
		// It reads the key after a pause of a quarter of an interval, give or take a
		// quarter of that.
		check.That(t, at >= interval*3/16 && at <= interval*5/16, "elected at %v", at)
	})
}

// A renewal whose reply is lost counts. Fault 10 of docs/faults.md: a lost reply.
func TestRenewal_LostReplyCounts(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.pair()
		a.treat(drop, func(f frame) bool { // acknowledgements, and no other messages
			return f.dir == down && strings.Contains(string(f.body), `"stream":"KV_E"`) && strings.Contains(string(f.body), `"seq"`)
		})
		w.at(time.Duration(proof.Size(10, 60)) * time.Minute)
		a.saw(t, "4.25s faulted unreachable")
		b.saw(t)
		w.leads(a, b)
	})
}
