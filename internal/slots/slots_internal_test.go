package slots

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

const hour = int64(time.Hour)

var wide = Limits{Agree: 2e9, Tolerance: 10e9, Horizon: 24 * hour, Span: 1000, Missed: 3, Calls: 1000}

// every returns a calendar with a slot at each multiple of d.
func every(d int64) Calendar { return func(after int64) int64 { return after - after%d + d } }

// A calendar is called a bounded number of times, also if its slots were dense once. Then it begins anew.
func TestLook_CallsAreBounded(t *testing.T) {
	for name, dense := range map[string]Calendar{
		"dense until an hour ago": func(after int64) int64 {
			if after < 100*hour {
				return after + 1
			}
			return every(hour)(after + 2*hour)
		},
		"stands still": func(after int64) int64 { return after },
		"goes back":    func(after int64) int64 { return after - 1 },
	} {
		calls := 0
		cal := func(after int64) int64 {
			if calls++; calls > 2000 {
				panic(name + ": it is called without end")
			}
			return dense(after)
		}
		b := Book{Limits: wide, Mark: Mark{At: 99 * hour}}
		act := b.Look(101*hour, cal)
		check.Equal(t, act.Fault, Broken, "%d is the fault")
		check.That(t, act.Yield == nil && act.Wait == None && (act.Store != nil) == (name == "dense until an hour ago"), "%s: %+v", name, act)
	}
}

// A long absence costs few calls, and lists the newest slots.
func TestLook_LongAbsence(t *testing.T) {
	calls := 0
	cal := func(after int64) int64 { calls++; return every(60e9)(after) }
	b := Book{Limits: wide, Mark: Mark{At: hour}}
	now := 50_000 * hour
	act := b.Look(now, cal)
	check.Must(t, act.Store != nil && act.Store.At == now && act.Store.Begun, "%+v", act)
	b.Stored(*act.Store)
	act = b.Look(now, cal)
	check.Must(t, act.Yield != nil && act.Fault == Fine, "%+v", act)
	check.Deep(t, *act.Yield, Slot{Time: now, After: hour, Missed: []int64{now - 180e9, now - 120e9, now - 60e9}})
	check.That(t, calls < 200, "%d calls", calls)
}

// Where the calendar is broken between two slots, the newest ones are listed, and the slot says that others may be left out. So
// does the slot of a leader before.
func TestLook_BrokenBetween(t *testing.T) {
	cal := func(after int64) int64 {
		if after == 3*hour {
			return after
		}
		return every(hour)(after)
	}
	b := Book{Limits: wide, Mark: Mark{At: hour}}
	b.Missed = 10
	act := b.Look(5*hour, cal)
	check.Must(t, act.Store != nil && act.Fault == Fine, "%+v", act)
	b.Stored(*act.Store)
	want := Slot{Time: 5 * hour, After: hour, Missed: []int64{4 * hour}, Why: Broken}
	act = b.Look(5*hour, cal)
	check.Must(t, act.Yield != nil, "%+v", act)
	check.Deep(t, *act.Yield, want)
	check.Equal(t, act.Fault, Broken, "%d is the fault")
	b.Open(b.Mark.String(), true)
	act, want.Begun = b.Look(6*hour, cal), true
	check.Must(t, act.Yield != nil, "%+v", act)
	check.Deep(t, *act.Yield, want)
	act.Store = b.Done(5*hour, cal)
	check.Must(t, act.Store != nil, "%+v", b)
	check.Equal(t, act.Store.At, 5*hour, "the calendar begins anew after %d")
}

// A value that is no mark is told, and so is one that is missing, unless the process knows a mark itself.
func TestOpen_Unread(t *testing.T) {
	for _, c := range []struct {
		had   Mark
		value string
		known bool
		want  Fault
	}{
		{Mark{}, "10.0.0.1:8080", true, Unread},
		{Mark{At: hour}, "10.0.0.1:8080", true, Unread},
		{Mark{}, "", true, Unread},
		{Mark{}, "", false, Fine},
	} {
		b := Book{Limits: wide, Mark: c.had}
		b.Open(c.value, c.known)
		act := b.Look(hour, every(hour))
		check.Must(t, act.Store != nil && act.Store.At == hour && act.Store.Why == c.want, "%+v: %+v", c, act)
		check.Equal(t, act.Fault, c.want, "%d is the fault")
		b.Stored(*act.Store)
		check.Deep(t, b.Look(hour, every(hour)), Act{Wait: 2 * hour})
	}
	for _, known := range []bool{false, true} {
		b := Book{Limits: wide, Mark: Mark{At: hour}}
		b.Open("", known)
		check.Deep(t, b.Look(hour, every(hour)), Act{Wait: 2 * hour})
	}
}

// A slot that was worked a day before its time is forgotten.
func TestLook_Horizon(t *testing.T) {
	for _, ahead := range []int64{24 * hour, 24*hour + 1} {
		b := Book{Limits: wide, Mark: Mark{At: hour + ahead}}
		act := b.Look(hour, every(hour))
		check.Must(t, act.Store != nil && act.Fault == Ahead, "%+v", act)
		check.Equal(t, act.Store.High != None, ahead == 24*hour, "it is remembered: %t")
	}
}

// A host's clock is believed within the skew of each instant that the server's can show. After it was not, half the skew counts.
func TestNow_Agrees(t *testing.T) {
	const s = int64(time.Second)
	b := Book{Limits: wide}
	server := Server{100 * s, 105 * s}
	for _, c := range []struct {
		host int64
		want bool
	}{
		{98 * s, true},
		{107 * s, true},
		{107*s + 1, false},
		{107 * s, false},
		{106*s + 1, false},
		{106 * s, true},
		{98*s - 1, false},
		{99*s - 1, false},
		{99 * s, true},
		{98 * s, true},
	} {
		now, agrees := b.Now(c.host, server)
		check.Equal(t, agrees, c.want, "%t: the host shows "+time.Duration(c.host).String())
		want := c.host
		if !agrees {
			want = server.Least
		}
		check.Equal(t, now, want, "it is %d")
	}
	now, agrees := b.Now(1, Server{})
	check.That(t, now == 1 && agrees, "without the server's time it is %d, %t", now, agrees)
}

// A calendar without a further slot waits for none.
func TestLook_NoSlot(t *testing.T) {
	b := Book{Limits: wide, Mark: Mark{At: hour}}
	check.Deep(t, b.Look(2*hour, func(int64) int64 { return None }), Act{})
}

// What a leader publishes is read as it was written, and nothing else is a mark.
func TestMark_Text(t *testing.T) {
	at := time.Date(2026, time.November, 28, 3, 0, 0, 0, time.UTC).UnixNano()
	for want, m := range map[string]Mark{
		"done 2026-11-28T03:00:00Z":                             {At: at},
		"begun 2026-11-28T03:00:00Z after 2026-11-28T02:00:00Z": {At: at, Begun: true, After: at - hour}, // as before calendars were compared
		"begun 2026-11-28T03:00:00Z after 2026-11-28T02:00:00Z calendar 1f high 2026-11-28T05:00:00.5Z": {
			At: at, Begun: true, After: at - hour, Print: 31, High: at + 2*hour + 5e8,
		},
		"done 2026-11-28T03:00:00Z calendar 1f next 2026-11-28T04:00:00Z": {At: at, Print: 31, Next: at + hour},
		"done 2026-11-28T03:00:00Z because changed":                       {At: at, Why: Changed},
	} {
		check.Equal(t, m.String(), want, "%s")
		got, ok := ParseMark(want)
		check.That(t, ok && got == m, "%s is read as %+v", want, got)
	}
	for _, text := range []string{
		"", "done", "x 2026-11-28T03:00:00Z", "done 2026-11-28T03:00:00Z after 2026-11-28T02:00:00Z", "begun 2026-11-28T03:00:00Z",
		"begun 2026-11-28T03:00:00Z after 2026-11-28T03:00:00Z", "done 2026-11-28T03:00:00Z high 2026-11-28T02:00:00Z", "done 1969-01-01T00:00:00Z",
		"done 2026-11-28T03:00:00Z calendar 0", "done 2026-11-28T03:00:00Z calendar xyz", "done 2026-11-28T03:00:00Z done 2026-11-28T03:00:00Z",
		"done 2026-11-28T04:00:00+01:00", "done 9999-01-01T00:00:00Z", "calendar 1f",
		"done 2026-11-28T03:00:00Z next 2026-11-28T03:00:00Z",
		"done 2026-11-28T03:00:00Z because ", "done 2026-11-28T03:00:00Z because of", "done 2026-11-28T03:00:00Z because ahead calendar 1f",
	} {
		_, ok := ParseMark(text)
		check.That(t, !ok, "%q is a mark", text)
	}
}

// Any text is a mark that is written as it was read, or none.
func FuzzParseMark(f *testing.F) {
	f.Add("begun 2026-11-28T03:00:00Z after 2026-11-28T02:00:00Z calendar 1f high 2026-11-28T05:00:00.5Z")
	f.Fuzz(func(t *testing.T, text string) {
		if m, ok := ParseMark(text); ok {
			check.Equal(t, m.String(), text, "%q")
		}
	})
}
