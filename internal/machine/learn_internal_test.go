package machine

import (
	"testing"
)

// A read for the winner of a lost race can be replaced by the feed, unless there is another
// reason for it.
func TestReadNeed_LostRace(t *testing.T) {
	var r readNeed
	r.needWinner()
	if !r.needed || !r.lostRace {
		t.Errorf("%+v", r)
	}
	r = readNeed{}
	r.need()
	if r.needWinner(); r.lostRace {
		t.Errorf("the feed can replace a read that was needed before: %+v", r)
	}
	r.needWinner()
	if r.needInFull(); !r.needed || r.lostRace {
		t.Errorf("%+v", r)
	}
}

// A read that returns less than the feed delivered meanwhile is repeated.
func TestReadNeed_OldReply(t *testing.T) {
	var r readNeed
	r.need()
	r.sent()
	r.require(7)
	r.require(5)
	if r.answered(6); !r.needed {
		t.Error("the reply was older than the feed, and no read is needed")
	}
	r.sent()
	if r.answered(7); r.needed {
		t.Error("a read is needed after the newest reply")
	}
}

// A read that was put off counts as caused by a strange message when it is sent, and a read
// for which there is no other reason as caused by silence.
func TestReadNeed_Causes(t *testing.T) {
	var r readNeed
	r.calm(epoch)
	r.postpone()
	if r.sent(); !r.strange || !r.needed || r.deferred || r.silence {
		t.Errorf("put off: %+v", r)
	}
	r = readNeed{}
	if r.sent(); !r.silence || r.strange {
		t.Errorf("silence: %+v", r)
	}
}

func (r *readNeed) broken() string {
	if r.deferred && r.calmUntil.IsZero() {
		return "a read is put off until no time"
	}
	return ""
}
