package backend

import (
	"slices"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// waiter counts the slots that it was granted.
type waiter struct {
	place   Place
	granted int
}

func (w *waiter) Granted() { w.granted++ }

var now = time.Unix(1<<30, 0)

// What replies may say.
var (
	prompt = Reply{Took: time.Millisecond, Limit: time.Second}
	late   = Reply{Took: time.Second, Limit: time.Second}
)

// take takes a slot, or waits, and reports which.
func (w *waiter) take(in *Window, r Rank) bool { return in.Take(&w.place, r, w, now) }

// No more requests are in flight than there are slots. Those that wait get them in order.
func TestWindow_InOrder(t *testing.T) {
	in := NewWindow(2, 2)
	var ws [5]waiter
	for i := range ws {
		got := ws[i].take(in, RankHolder)
		check.That(t, got == (i < 2), "%d has a slot: %v", i, got)
	}
	if !ws[0].take(in, RankHolder) || ws[4].take(in, RankHolder) { // asked again
		t.Error("a place has changed")
	}
	in.Return(&ws[3].place, Reply{}) // leaves the line
	for i, want := range []int{2, 4} {
		if in.Return(&ws[i].place, prompt); ws[want].granted != 1 {
			t.Errorf("after %d, %d has %d slots", i, want, ws[want].granted)
		}
		in.Return(&ws[i].place, prompt) // has none any more
	}
	if ws[3].granted != 0 || in.flying[RankHolder] != 2 {
		t.Errorf("%d slots of one that has left, %d taken", ws[3].granted, in.flying[RankHolder])
	}
}

// Holders go first, among them those that have missed a renewal, then writes of candidates,
// then reads. A place moves up with its rank.
func TestWindow_HoldersFirst(t *testing.T) {
	in := NewWindow(1, 1)
	var first waiter
	first.take(in, RankRead)
	var ws [5]waiter
	for i, r := range []Rank{RankRead, RankTake, RankHolder, RankRead, RankOverdue} {
		ws[i].take(in, r)
	}
	ws[3].take(in, RankHolder)
	var order []int
	last := &first.place
	for range ws {
		in.Return(last, prompt)
		for i := range ws {
			if ws[i].granted == 1 && !slices.Contains(order, i) {
				order, last = append(order, i), &ws[i].place
			}
		}
	}
	check.That(t, slices.Equal(order, []int{4, 2, 3, 1, 0}), "the order is %v", order)
}

// Requests that are not answered leave slots for those of a higher rank.
func TestWindow_LeavesSlotsForHolders(t *testing.T) {
	in := NewWindow(32, 32)
	took := func(r Rank) (n int) {
		for range 40 {
			if new(waiter).take(in, r) {
				n++
			}
		}
		return n
	}
	reads, takes, holders := took(RankRead), took(RankTake), took(RankHolder)
	check.That(t, reads == 16 && takes == 8 && holders == 8,
		"%d reads, %d writes, %d renewals in flight", reads, takes, holders)
}

// A window that shrinks leaves slots for leaders, too, although more reads than it has slots for are
// still in flight.
func TestWindow_ShrinksBesideReads(t *testing.T) {
	in := NewWindow(4, 64)
	in.size, in.fastest = 64, time.Millisecond
	var reads [64]waiter
	for i := range reads {
		reads[i].take(in, RankRead) // half of them get a slot, and no answer
	}
	var leaders [8]waiter
	for range 5 {
		for i := range leaders {
			leaders[i].take(in, RankHolder)
		}
		for i := range leaders {
			in.Return(&leaders[i].place, late)
		}
	}
	if in.size != 4 || in.flying[RankRead] != 32 {
		t.Fatalf("%d slots, and %d reads in flight", in.size, in.flying[RankRead])
	}
	for i, want := range []bool{true, true, false, false} {
		got := leaders[i].take(in, RankHolder)
		check.That(t, got == want, "leader %d has a slot: %v", i, got)
	}
	before, _ := in.Waiting(now)
	in.Return(&reads[0].place, Reply{})
	after, _ := in.Waiting(now)
	check.That(t, after == before, "a slot that the window has no more is granted")
}

// A request that candidates share needs no slot, and frees none.
func TestWindow_Shared(t *testing.T) {
	in := NewWindow(1, 1)
	var first, waits, other waiter
	first.take(in, RankRead)
	check.That(t, !waits.take(in, RankRead) && waits.take(in, RankShared) && other.take(in, RankShared),
		"a shared request waits, or another does not")
	if in.Used() != 1 {
		t.Errorf("%d slots are taken", in.Used())
	}
	in.Return(&waits.place, late)
	in.Return(&other.place, prompt)
	if n, _ := in.Waiting(now); n != 0 || in.Used() != 1 || waits.granted != 0 {
		t.Errorf("%d wait, %d slots are taken", n, in.flying[RankRead])
	}
}

// The window grows with prompt replies while requests wait, and is halved once by the late
// replies to requests that were in flight together.
func TestWindow_FollowsTheServer(t *testing.T) {
	in := NewWindow(4, 10)
	var ws [64]waiter
	for i := range ws {
		ws[i].take(in, RankHolder)
	}
	in.Return(&ws[0].place, Reply{})
	check.Equal(t, in.size, 4, "%d slots after a request that was not sent")
	for i := 1; i <= 9; i++ {
		in.Return(&ws[i].place, prompt)
	}
	check.Equal(t, in.size, 10, "%d slots after prompt replies")
	for i := 10; i < 20; i++ {
		in.Return(&ws[i].place, late)
	}
	check.Equal(t, in.size, 5, "%d slots after late replies to one crowd")
	for i := 20; i < 64; i++ {
		in.Return(&ws[i].place, late)
	}
	check.Equal(t, in.size, 4, "%d slots after late replies")
	idle := NewWindow(4, 10)
	ws[0] = waiter{}
	ws[0].take(idle, RankHolder)
	idle.Return(&ws[0].place, prompt)
	check.That(t, idle.size == 4, "%d slots where none waits", idle.size)
}

// On a slow link every reply takes long, and none is late. A request that is given up is a sign
// of load only if it had more time than the link takes.
func TestWindow_SlowLink(t *testing.T) {
	in := NewWindow(4, 10)
	var ws [64]waiter
	for i := range ws {
		ws[i].take(in, RankHolder)
	}
	for i := range 6 {
		in.Return(&ws[i].place, Reply{Took: 500*time.Millisecond + time.Duration(i)*time.Millisecond, Limit: 625 * time.Millisecond})
	}
	check.Equal(t, in.size, 10, "%d slots on a slow link")
	in.Return(&ws[6].place, Reply{Took: 150 * time.Millisecond, Lost: true})
	check.Equal(t, in.size, 10, "%d slots after a request with too little time was given up")
	in.Return(&ws[7].place, Reply{Took: 1100 * time.Millisecond, Limit: 625 * time.Millisecond})
	check.Equal(t, in.size, 5, "%d slots after a reply that took twice as long")
}

// The line has a length and an age, in which a place without a time has no part. That leaders wait
// for too long is news once, until no leader waits.
func TestWindow_Waiting(t *testing.T) {
	in := NewWindow(1, 1)
	var ws [5]waiter
	ws[0].take(in, RankHolder)
	ws[1].take(in, RankRead)
	ws[4].take(in, RankOverdue)
	in.Take(&ws[2].place, RankHolder, &ws[2], now.Add(time.Second))
	in.Take(&ws[3].place, RankTake, &ws[3], time.Time{})
	n, age := in.Waiting(now.Add(3 * time.Second))
	check.That(t, n == 4 && age == 3*time.Second, "%d wait, for %v", n, age)
	check.That(t, in.Report() && !in.Report(), "it is news twice, or never")
	in.Return(&ws[0].place, prompt)
	check.That(t, !in.Report(), "it is news while one waits")
	in.Return(&ws[4].place, prompt)
	if n, _ := in.Waiting(now); n != 2 || !in.Report() {
		t.Errorf("%d wait, and it is no news although no leader waits", n)
	}
	for _, i := range []int{2, 3, 1} {
		in.Return(&ws[i].place, prompt)
	}
	if n, age := in.Waiting(now); n != 0 || age != 0 {
		t.Errorf("%d wait, for %v", n, age)
	}
}

// Few candidates have no phase. The others spread over all phases, also those that replace others.
func TestWindow_Phases(t *testing.T) {
	in := NewWindow(1, 1)
	var count [Phases + 1]int
	for range 3 * Phases {
		count[in.Join()]++
	}
	for range Phases {
		in.Leave(new(Place))
		count[in.Join()]++
	}
	for phase, n := range count {
		check.That(t, n == map[bool]int{true: Phases, false: 3}[phase == 0], "%d candidates in phase %d", n, phase)
	}
	for range 3 * Phases {
		in.Leave(new(Place))
	}
	check.That(t, in.Join() == 0, "a single candidate has a phase")
}

// A connection without a window has slots for all.
func TestWindow_Nil(t *testing.T) {
	var in *Window
	var w waiter
	in.Return(&w.place, prompt)
	in.Leave(&w.place)
	in.Clear()
	check.That(t, in.Used() == 0 && in.Has(&w.place), "slots are counted")
	n, age := in.Waiting(now)
	check.That(t, in.Join() == 0 && w.take(in, RankRead) && n == 0 && age == 0 && in.Report(), "it has a bound")
}

// Clear makes room for those that wait. A request from before gives back no slot, and the next
// one of the same place does.
func TestWindow_Clear(t *testing.T) {
	in := NewWindow(2, 2)
	var ws [7]waiter
	for i := range ws {
		ws[i].take(in, RankHolder)
	}
	in.Clear()
	if ws[2].granted != 1 || ws[3].granted != 1 || ws[4].granted != 0 {
		t.Errorf("granted: %d, %d, %d", ws[2].granted, ws[3].granted, ws[4].granted)
	}
	for i := range 2 {
		if in.Return(&ws[i].place, prompt); ws[4].granted != 0 || in.flying[RankHolder] != 2 {
			t.Errorf("after %d from before: %d in flight", i, in.flying[RankHolder])
		}
	}
	for i := range 2 {
		if in.Return(&ws[2+i].place, prompt); ws[4+i].granted != 1 || in.flying[RankHolder] != 2 {
			t.Errorf("after %d: %d in flight", 2+i, in.flying[RankHolder])
		}
	}
}

// A reply is late if it takes longer than half of what a leader waits, or than 300 ms, and twice
// as long as the fastest replies. One that is given up although the server was to answer at once is late by
// the fastest replies alone. A faster reply is forgotten slowly.
func TestWindow_LateReplies(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		fastest time.Duration
		reply   Reply
		late    bool
		then    time.Duration // the fastest replies
	}{
		{0, Reply{Took: 10 * ms, Limit: time.Second}, false, 10 * ms},
		{0, Reply{Took: 301 * ms, Limit: time.Second}, false, 301 * ms},
		{ms, Reply{Took: slow, Limit: time.Second}, false, ms + (slow-ms)/memory},
		{ms, Reply{Took: slow + 1, Limit: time.Second}, true, ms + (slow+1-ms)/memory},
		{ms, Reply{Took: 100 * ms, Limit: 200 * ms}, false, ms + 99*ms/memory},
		{ms, Reply{Took: 100*ms + 1, Limit: 200 * ms}, true, ms + (99*ms+1)/memory},
		{200 * ms, Reply{Took: 400 * ms, Limit: 200 * ms}, false, 200*ms + 200*ms/memory},
		{200 * ms, Reply{Took: 401 * ms, Limit: 200 * ms}, true, 200*ms + 201*ms/memory},
		{10 * ms, Reply{Took: 20 * ms, Lost: true}, false, 10 * ms},
		{10 * ms, Reply{Took: 21 * ms, Lost: true}, true, 10 * ms},
		{10 * ms, Reply{Took: 5 * ms, Lost: true}, false, 10 * ms},
		{10 * ms, Reply{Took: 5 * ms, Limit: time.Second}, false, 5 * ms},
	} {
		in := NewWindow(4, 32)
		in.size, in.fastest = 16, tt.fastest
		var ws [64]waiter
		for i := range ws {
			ws[i].take(in, RankHolder)
		}
		size := 17
		switch {
		case tt.late:
			size = 8
		case tt.reply.Lost:
			size = 16
		}
		if in.Return(&ws[0].place, tt.reply); in.size != size || absolute(in.fastest-tt.then) > 1000 { // a small slip of rounding
			t.Errorf("%+v beside %v: %d slots, then %v", tt.reply, tt.fastest, in.size, in.fastest)
		}
	}
	in := NewWindow(4, 16)
	var ws [64]waiter
	for i := range ws {
		ws[i].take(in, RankHolder)
	}
	in.Return(&ws[0].place, Reply{Took: 1, Lost: true})
	check.That(t, in.size == 4, "%d slots after a request that was given up", in.size)
}

func absolute(d time.Duration) time.Duration { return max(d, -d) }

// The age of the line is that of the oldest place at its head in any line. A place that gets
// another rank goes to the end of another line, and keeps the time at which it came.
func TestWindow_AgeOfTheOldest(t *testing.T) {
	in := NewWindow(1, 1)
	var first waiter
	first.take(in, RankHolder)
	var ws [ranks][2]waiter
	for r := range ranks {
		for i := range ws[r] {
			since := now.Add(time.Duration(r)*time.Second + time.Duration(i)*time.Minute)
			in.Take(&ws[r][i].place, r, &ws[r][i], since)
		}
	}
	n, age := in.Waiting(now.Add(time.Hour))
	check.That(t, n == 2*int(ranks) && age == time.Hour, "%d wait, for %v", n, age)
	in.Take(&ws[RankRead][0].place, RankTake, &ws[RankRead][0], now.Add(time.Hour))
	if n, age := in.Waiting(now.Add(time.Hour)); n != 2*int(ranks) || age != time.Hour-time.Second {
		t.Errorf("%d wait, for %v: a place stands at the end of another line", n, age)
	}
	for _, w := range []*waiter{&ws[RankTake][0], &ws[RankTake][1]} {
		in.Leave(&w.place)
	}
	if _, age := in.Waiting(now.Add(time.Hour)); age != time.Hour {
		t.Errorf("the age is %v: a place has another time with another rank", age)
	}
	for r := range ws {
		for i := range ws[r] {
			in.Return(&ws[r][i].place, Reply{})
		}
	}
	if n, age := in.Waiting(now); n != 0 || age != 0 || in.Used() != 1 || in.Has(&ws[0][0].place) || !in.Has(&first.place) {
		t.Errorf("%d wait, for %v, %d slots are taken", n, age, in.Used())
	}
	if in.Leave(&first.place); in.Used() != 0 || in.Has(&first.place) {
		t.Errorf("%d slots are taken", in.Used())
	}
	first.take(in, RankRead)
	check.That(t, in.Used() == 1 && first.granted == 0, "a place that has left is not ready for use")
}

// A candidate that leaves gives back its slot to one that waits, which is called without the
// window's lock.
func TestWindow_GrantsWithoutItsLock(t *testing.T) {
	in := NewWindow(1, 1)
	var first, other waiter
	first.take(in, RankHolder)
	calls := asks{in, make(chan int, 1)}
	in.Take(new(Place), RankHolder, calls, now)
	other.take(in, RankHolder)
	in.Leave(&first.place)
	select {
	case n := <-calls.used:
		check.Equal(t, n, 1, "%d slots are taken")
	default:
		t.Error("the one that waits has no slot, or was called with the lock held")
	}
}

// asks tries to ask the window, which it must not, to find out whether it is locked.
type asks struct {
	in   *Window
	used chan int
}

// Granted implements [Waiter].
func (a asks) Granted() {
	if a.in.mu.TryLock() {
		a.in.mu.Unlock()
		a.used <- a.in.Used()
	}
}

// A place that asks again keeps its turn, and one that leaves from the middle leaves the others in
// their order. No slot is granted that is not free, not even to a leader.
func TestWindow_KeepsTurns(t *testing.T) {
	in := NewWindow(1, 1)
	ws := make([]waiter, 6)
	for i := range ws {
		ws[i].take(in, RankOverdue)
	}
	ws[1].take(in, RankOverdue)
	in.Leave(&ws[2].place)
	in.Leave(&ws[3].place)
	in.Leave(&ws[5].place)
	ws[5].take(in, RankOverdue)
	for i, want := range []int{1, 4, 5} {
		if ws[want].granted != 0 || in.Used() != 1 {
			t.Errorf("%d has a slot too early, %d are taken", want, in.Used())
		}
		in.Return(&ws[[]int{0, 1, 4}[i]].place, Reply{})
		if ws[want].granted != 1 || in.Used() != 1 {
			t.Errorf("%d was granted %d slots, %d are taken", want, ws[want].granted, in.Used())
		}
	}
	check.That(t, ws[2].granted+ws[3].granted == 0, "one that has left has a slot")
}

// That leaders wait for too long is news again when none waits, whether or not it has missed a
// renewal.
func TestWindow_Report(t *testing.T) {
	for _, r := range []Rank{RankHolder, RankOverdue} {
		in := NewWindow(1, 1)
		var ws [3]waiter
		for i := range ws {
			ws[i].take(in, r)
		}
		in.Report()
		for i, news := range []bool{false, true} {
			in.Return(&ws[i].place, Reply{})
			check.That(t, in.Report() == news, "rank %d: it is news with %d that wait: %v", r, 1-i, !news)
		}
	}
}
