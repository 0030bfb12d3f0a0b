package machine

import (
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// A read for the winner of a lost race can be replaced by the feed, unless there is another
// reason for it.
func TestReadNeed_LostRace(t *testing.T) {
	var r readNeed
	r.needWinner()
	check.That(t, r.needed && r.lostRace, "%+v", r)
	r = readNeed{}
	r.need()
	r.needWinner()
	check.That(t, !r.lostRace, "the feed can replace a read that was needed before: %+v", r)
	r.needWinner()
	r.needInFull()
	check.That(t, r.needed && !r.lostRace, "%+v", r)
}

// A read that was put off counts as caused by a strange message when it is sent, and a read
// for which there is no other reason as caused by silence.
func TestReadNeed_Causes(t *testing.T) {
	var r readNeed
	r.calm(epoch)
	r.postpone()
	r.sent(1)
	check.That(t, r.strange && r.needed && !r.deferred && !r.silence, "put off: %+v", r)
	r = readNeed{}
	r.sent(1)
	check.That(t, r.silence && !r.strange, "silence: %+v", r)
}

// A read that was in flight when a strange message came says nothing of it. The next one does.
func TestReadNeed_InFlight(t *testing.T) {
	var r readNeed
	r.sent(1)
	r.atLeast = 3
	r.needToClear(1, true)
	r.answered(2)
	r.cleared(1)
	check.That(t, r.needed && !r.strange && r.behind && r.from == 1, "it was not asked for yet: %+v", r)
	r.sent(2)
	check.That(t, r.strange && !r.behind && r.from == 1, "the next read: %+v", r)
	r.answered(3)
	r.cleared(2)
	check.That(t, !r.needed && !r.strange && r.from == 0, "answered: %+v", r)
	r.sent(3)
	r.atLeast = 4
	r.needToClear(3, true)
	r.answered(4)
	r.cleared(3)
	check.That(t, !r.needed && !r.behind && r.from == 0, "the read has shown it: %+v", r)
}

func (r *readNeed) broken() string {
	if r.deferred && r.calmUntil.IsZero() {
		return "a read is put off until no time"
	}
	return ""
}
