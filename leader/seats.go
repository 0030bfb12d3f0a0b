package leader

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// seatOf returns the number of the seat that the key belongs to.
func seatOf(key string) int {
	_, n := wire.SeatOf(key)
	return n
}

// seatPermit is the state that the seats of one candidate share. The candidate has a machine
// of its own for each seat, all with the same session. The seat permit ensures that the
// candidate never leads on two seats: it has one permit to give, and a machine needs the
// permit to take a seat.
//
//   - A machine is suspended from the start. Its actor resumes it after it has got the
//     permit, and gives the permit back after it has suspended it again. So at any instant
//     all machines are suspended but at most one.
//   - A suspended machine is neither pending, nor leading, nor fenced, whatever is lost or
//     late. A machine in one of these states cannot be suspended (machine/suspend.go; the
//     exploration holds every step of the machine to this). So no two machines lead, or
//     are about to.
//   - A machine is suspended only when it cannot hold its key any more (mayHoldKey), and does
//     not wait for a slot of its bucket to take it (isTaking). In a
//     purge-protected bucket no write that the machine has sent can be stored any more then:
//     each was conditioned on a revision that is not the last, and never will be again. So
//     the candidate does not even hold two seats. In a bucket that is emptied without a
//     trace, an old write may yet win a seat. A candidate that finds that write there waits
//     as for any other holder, until the suspended machine has released the seat, or its
//     lease is over.
//   - The first seat is taken first if it is free: no machine gets the permit before that of
//     the first seat has read its key, or has failed to. So while a candidate leads, the key of
//     the election has a record with the number of seats, unless requests for it failed, or the
//     record was deleted or has expired.
type seatPermit struct {
	election string
	owner    *Candidate // whose seats these are

	mu            sync.Mutex  // held for moments only
	worker        int         // the seat of the last term, while its work goes on; 0: none
	taker         int         // the seat of the machine that has the permit; 0: none
	unread        bool        // the key of the first seat is not known yet
	waiting       []*mailbox  // of the machines that wait for the permit, by seat
	holders       []holding   // of each seat, as it is seen there
	denied        []time.Time // of each seat: until then the candidate is announced as denied, by the clock
	until         time.Time   // no seat is taken before then, by the clock
	value         string      // the value that is published on the next seat
	there         int         // seats that have not ended
	announcer     *mailbox    // of the first seat, which announces the candidate
	changes       uint64      // of the holders
	reportedSeats map[seatsSeen]bool
}

// take gives the permit to a seat, with the time before which the seat may not use it and
// the value to publish. If another seat has the permit, take remembers that this one
// waits.
func (b *seatPermit) take(seat int, box *mailbox) (until time.Time, value string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taker != 0 && b.taker != seat || b.unread && seat > 1 {
		b.waiting[seat-1] = box
		return time.Time{}, "", false
	}
	b.taker, b.waiting[seat-1] = seat, nil
	return b.until, b.value, true
}

// giveBack takes the permit back from a seat whose machine is suspended, if the seat has it, with the
// value that the seat has published last.
func (b *seatPermit) giveBack(seat int, value string) {
	b.mu.Lock()
	if b.taker != seat {
		b.mu.Unlock()
		return
	}
	b.taker, b.value = 0, value
	b.wake()
}

// firstRead lets all seats take the permit, once the key of the first seat is known and its
// machine has had the permit if it wanted it.
func (b *seatPermit) firstRead() {
	b.mu.Lock()
	if !b.unread {
		b.mu.Unlock()
		return
	}
	b.unread = false
	b.wake()
}

// wake wakes the machines that wait for the permit. It unlocks the seat permit first, because
// an actor uses that under the lock of its box.
func (b *seatPermit) wake() {
	waiting := slices.Clone(b.waiting)
	clear(b.waiting)
	b.mu.Unlock()
	for _, box := range waiting {
		if box != nil {
			box.note(machine.InTick, 0)
		}
	}
}

// holding is the holder of a seat: a session, or none.
type holding struct {
	session  string
	priority int
}

// givesWay reports whether the holder of that seat is the one to hand over to a session of
// a higher priority. Among the holders with the lowest priority, that is the one on the last
// seat. All candidates come to the same result. Nobody gives way while a seat is free: it may
// be the seat that another leader has given up for that session. Nor does anybody once the
// session holds a seat, which the roster may still be silent about.
func (b *seatPermit) givesWay(seat int, to string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.holders[seat-1].priority
	for i, h := range b.holders {
		if h.session == "" || h.session == to || h.priority < own || h.priority == own && i >= seat {
			return false
		}
	}
	return true
}

// holds reports whether a session holds one of the seats, as far as it is known
// here.
func (b *seatPermit) holds(session string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, holder := range b.holders {
		if holder.session == session {
			return true
		}
	}
	return false
}

// isNews reports whether another candidate's number of seats has not been reported yet.
func (b *seatPermit) isNews(seen seatsSeen) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reportedSeats[seen] {
		return false
	}
	if b.reportedSeats == nil || len(b.reportedSeats) >= maxReportedSeats {
		b.reportedSeats = make(map[seatsSeen]bool)
	}
	b.reportedSeats[seen] = true
	return true
}

// maxReportedSeats bounds the numbers of seats that are remembered while candidates come and go.
const maxReportedSeats = 64

// syncPermit suspends and resumes the machine as the cordon and the seat permit say, after any of them has changed. It
// returns the input for the machine, or nil. A seat that ends keeps the permit, because its candidate ends on all seats.
func (a *actor) syncPermit() *machine.Input {
	switch {
	case a.status.Done:
		return nil
	case a.c.permit == nil:
		return a.syncCordon()
	}
	b, withheld := a.c.permit, a.isWithheld()
	var holder holding
	if r := a.status.Seen.Rec; a.status.Seen.Held() {
		holder = holding{r.Session, r.Priority}
	}
	if box := b.seated(a, holder); box != nil {
		box.note(machine.InTick, 0)
	}
	if a.status.WantsKey && !withheld {
		if until, value, ok := b.take(a.seat, &a.c.box); ok {
			return &machine.Input{Kind: machine.InResume, Until: a.inside(until), Value: value}
		}
	}
	if a.status.Suspended {
		b.giveBack(a.seat, a.status.Value)
	} else if !a.status.MayHold && !a.status.Taking {
		return &machine.Input{Kind: machine.InSuspend}
	}
	if a.seat == 1 && !withheld && (a.status.Seen.Kind != record.EntryUnseen || len(a.faults.reported) > 0) {
		b.firstRead()
	}
	return nil
}

// seated records the holder of a seat and the cooldown of its machine. It returns the mailbox of the actor that has to
// react to the change, or nil.
func (b *seatPermit) seated(a *actor, holder holding) *mailbox {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.seat == 1 {
		b.announcer = &a.c.box
	}
	// Under the lock of the holders: no goroutine finds the seat free without the cooldown.
	b.until = machine.Later(b.until, a.outside(a.status.CooldownUntil))
	was, denied, worker := b.holders[a.seat-1], b.denied[a.seat-1], b.worker
	b.denied[a.seat-1] = a.outside(a.status.DeniedUntil)
	if a.status.Working {
		b.worker = a.seat
	} else if b.worker == a.seat {
		b.worker = 0
	}
	if was == holder && denied.Equal(b.denied[a.seat-1]) && worker == b.worker {
		return nil
	}
	if was != holder {
		b.holders[a.seat-1] = holder
		b.changes++
	}
	// The first seat announces, and has looked at the permit before in this step.
	changed := !denied.Equal(b.denied[a.seat-1])
	concerns := a.seat > 1 && (worker != b.worker || was.session == a.Session || holder.session == a.Session)
	if a.Listed && (changed || concerns) {
		return b.announcer
	}
	return nil
}

// deniedUntil returns the time, by the clock, until which the candidate is announced as
// denied, because a write of the key of a seat was.
func (b *seatPermit) deniedUntil() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	var until time.Time
	for _, t := range b.denied {
		until = machine.Later(until, t)
	}
	return until
}

// works reports whether the work of a term goes on, so that the candidate takes no seat.
func (b *seatPermit) works() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.worker != 0
}

// sitsOut returns the time, by the clock, until which the candidate takes no seat.
func (b *seatPermit) sitsOut() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.until
}

// changed returns how often a seat was seen to change hands.
func (b *seatPermit) changed() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changes
}

// seatsSeen is a number of seats that differs from the candidate's own, and the session
// of the candidate that has it.
type seatsSeen struct {
	session string
	seats   int
}

// disagree adds the event that another candidate is set to another number of seats. It
// does so once, not with every renewal.
func (a *actor) disagree(events []Event) []Event {
	rec, own := a.status.Seen.Rec, max(a.Seats, 1)
	seen := seatsSeen{rec.Session, seatsOf(rec)}
	if !a.status.Seen.Held() || rec.Session == a.Session || rec.ID == "" || seen.seats == own || a.reportedSeats == seen || a.Observe {
		return events
	}
	a.reportedSeats = seen
	if a.c.permit != nil && !a.c.permit.isNews(seen) {
		return events // it was reported on another seat before
	}
	return append(events, a.faulted(disagreement(a.c.id, own, rec)))
}

// seatsOf returns the number of seats that the writer of a record is set to.
func seatsOf(r record.Record) int { return max(r.Seats, 1) }

// disagreement returns the error for a candidate and a record that are set to different
// numbers of seats.
func disagreement(id string, seats int, r record.Record) error {
	return fmt.Errorf("%w: %q is set to %d, %q to %d; give all the same number", ErrSeatsDiffer, id, seats, r.ID, seatsOf(r))
}

// leave records that a seat has ended. The last one ends the candidate.
func (b *seatPermit) leave(values context.Context) {
	b.mu.Lock()
	b.there--
	last := b.there == 0
	b.mu.Unlock()
	if !last {
		return
	}
	owner, cut := b.owner, false
	var err error
	for _, seat := range owner.seats { // they have ended
		err, cut = cmp.Or(seat.err, err), cut || seat.cut
	}
	owner.mu.Lock()
	owner.err, owner.cut = err, cut
	owner.mu.Unlock()
	owner.end(values)
}
