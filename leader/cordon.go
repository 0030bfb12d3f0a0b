package leader

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/record"
)

// cordon is what a candidate knows of the cordon of its bucket. While the cordon has its ID or host, its machine is
// suspended unless it holds the key. A name that comes late, or never, costs an operator a drain more and nothing else.
//
// nil is the cordon of an observer, and of a candidate that it does not concern.
type cordon struct {
	newest     atomic.Pointer[cordonNews] // nil: not known yet
	look, stop func()
	from       time.Time // when the settings of the bucket were known, if that was before the cordon
	reported   string    // the name that was reported last
}

// cordonNews is a cordon as one candidate sees it.
type cordonNews struct {
	names []string
	own   string // the first of the names that is its ID or host; empty: none
}

// known returns the newest cordon, or nil.
func (c *cordon) known() *cordonNews {
	if c == nil {
		return noCordon
	}
	return c.newest.Load()
}

// noCordon is a cordon without names, which most candidates share.
var noCordon = new(cordonNews)

// requesting reads the cordon beside a read of the key, which a candidate sends when its feed is silent.
func (c *cordon) requesting(kind machine.RequestKind) {
	if c != nil && kind == machine.ReqRead {
		c.look()
	}
}

// leave ends it.
func (c *cordon) leave() {
	if c != nil {
		c.stop()
	}
}

// followCordon begins to follow the cordon.
func (a *actor) followCordon() {
	c := a.c.cordon
	if c == nil {
		return
	}
	f := a.requests.foresight()
	if f != nil {
		c.newest.Store(noCordon)
	}
	c.look, c.stop = a.c.store.FollowCordon(func(names []string) {
		news := noCordon
		if len(names) > 0 {
			own, _ := record.Cordoned(names, a.ID)
			news = &cordonNews{names, own}
		}
		if f != nil {
			f.hearCordon(news.own != "")
		}
		if was := c.newest.Swap(news); was == nil || was.own != news.own {
			a.c.box.note(machine.InTick, 0)
		}
	})
}

// cordonBy returns until when the candidate waits for a cordon that is not known yet: for one request, from when the
// bucket answers. Zero: it does not wait, or the bucket has not answered.
func (a *actor) cordonBy() time.Time {
	c := a.c.cordon
	if c.known() != nil || c.from.IsZero() {
		return time.Time{}
	}
	by := c.from.Add(a.status.Times.OrDefault().RenewInterval)
	if !a.now().Before(by) {
		return time.Time{}
	}
	return by
}

// isCordoned reports whether the cordon has the candidate.
func (a *actor) isCordoned() bool {
	n := a.c.cordon.known()
	return n != nil && n.own != ""
}

// isWithheld reports whether the candidate takes no key: it is cordoned, or waits for the cordon, or its lock is not admitted.
func (a *actor) isWithheld() bool {
	if a.c.admission.waits() {
		return true
	}
	if a.c.cordon.known() != nil {
		return a.isCordoned()
	}
	return a.c.cordon.from.IsZero() || !a.cordonBy().IsZero()
}

// noticeCordon reports that the candidate was cordoned, and logs that it is so no longer. The first seat does it for all.
func (a *actor) noticeCordon() {
	c, n := a.c.cordon, a.c.cordon.known()
	if n == nil && c.from.IsZero() && a.status.Settled {
		c.from = a.now()
		c.look()
	}
	if n == nil || c == nil || n.own == c.reported || a.seat > 1 || a.status.Done {
		return
	}
	c.reported = n.own
	if n.own == "" {
		a.c.log.LogAttrs(a.values, slog.LevelInfo, "no longer cordoned")
		return
	}
	a.fault(fmt.Errorf("%w: %q does not take the key before %q is off the cordon (natsleader undrain)", backend.ErrCordoned, a.c.id, n.own))
}

// syncCordon is syncPermit for a candidate with one seat.
func (a *actor) syncCordon() *machine.Input {
	switch withheld, s := a.isWithheld(), &a.status; {
	case withheld && !s.Suspended && !s.MayHold && !s.Taking:
		return &machine.Input{Kind: machine.InSuspend}
	case !withheld && s.Suspended:
		return &machine.Input{Kind: machine.InResume, Value: s.Value}
	}
	return nil
}

// keepsOut reports whether the cordon has the ID of another candidate.
func (c *cordon) keepsOut(id string) bool {
	n := c.known()
	if n == nil {
		return false
	}
	_, is := record.Cordoned(n.names, id)
	if is {
		c.look() // it may have been taken off without a word
	}
	return is
}
