package leader_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
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
func TestLateWin_IsUsed(t *testing.T) { story(t) }

// A candidate that stops releases a win that was applied late. Fault 7 of docs/faults.md:
// released.
func TestLateWin_IsReleasedByStop(t *testing.T) { story(t) }

// Fault 7 of docs/faults.md: the late win is not believed for longer than its lease was
// valid.
func TestLateWin_AfterItsLease(t *testing.T) { story(t) }

// A renewal that is applied after the loss prolongs the lease once. Fault 8 of
// docs/faults.md.
func TestLateRenewal_ProlongsOnce(t *testing.T) { story(t) }

// A candidate that is still there uses its renewal that was applied after the loss. Fault
// 8 of docs/faults.md.
func TestLateRenewal_IsUsed(t *testing.T) { story(t) }

// A renewal that arrives after a successor has won is refused.
func TestLateRenewal_IsRefused(t *testing.T) { story(t) }

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
func TestRefusal_IsNotALoss(t *testing.T) { story(t) }

// Refusals without end do not prolong the lease. Fault 10 of docs/faults.md.
func TestRefusal_EndlessIsNoLease(t *testing.T) { story(t) }

// A win that was stored although its reply refused it is used. Fault 10 of
// docs/faults.md.
func TestRefusedWin_IsUsed(t *testing.T) { story(t) }

// A renewal whose reply is lost counts. Fault 10 of docs/faults.md: a lost reply.
func TestRenewal_LostReplyCounts(t *testing.T) { story(t) }
