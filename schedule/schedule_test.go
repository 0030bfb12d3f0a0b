package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	kit "github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/schedule"
	"github.com/natsleader/natsleader/seats"
)

// job is what a process works at.
type job struct {
	Calendar schedule.Calendar
	Election leader.Config
}

// office is a bubble with processes that work at the slots of a calendar. The lease is 15 s.
type office struct {
	*testing.T
	store *kit.Store
	begun time.Time
	hired map[string]*leader.Candidate
	mu    sync.Mutex
	lines []string
	told  []string // the faults of schedules
	texts []string // and their texts
}

// open runs a test in a bubble.
func open(t *testing.T, test func(o *office)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(&office{T: t, store: kit.NewStore(nil), begun: time.Now(), hired: map[string]*leader.Candidate{}})
	})
}

func (o *office) say(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, time.Since(o.begun).String()+" "+fmt.Sprintf(format, args...))
}

// at returns an instant of the bubble as the time since its beginning.
func (o *office) at(t time.Time) string { return t.Sub(o.begun).String() }

// resign ends the term of a.
func (o *office) resign() {
	o.Helper()
	term, _ := o.hired["a"].Term()
	check.OK(o.T, term.Resign(o.Context()))
}

// hire starts a process. Its work at each slot is said, and does work unless that is nil. The process
// ends with the test, or with the function returned.
func (o *office) hire(id string, cfg job, work func(*schedule.Slot) bool) (end func()) {
	o.Helper()
	ctx, cancel := context.WithCancel(o.Context())
	if cfg.Election.ID == "" {
		cfg.Election.ID = id
	}
	s := check.Got(schedule.Campaign(ctx, o.store.Link(id), "job", cfg.Calendar, cfg.Election))(o.T)
	o.hired[id] = s.Candidate()
	faults := s.Candidate().Events(o.Context(), leader.Faulted{})
	go func() {
		for e := range faults {
			err := e.(leader.Faulted).Err
			if name := nameOf(err); name != "" || !strings.HasPrefix(err.Error(), "leader: ") {
				o.mu.Lock()
				o.told = append(o.told, fmt.Sprintf("%v %s: %s", time.Since(o.begun), id, name))
				o.texts = append(o.texts, err.Error())
				o.mu.Unlock()
			}
		}
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for slot := range s.Slots() {
			text := o.at(slot.Time)
			if slot.Begun {
				text += ", begun"
			}
			for i, missed := range slot.Missed {
				if text += ", missed"; i == 1 && len(slot.Missed) > 4 {
					text += fmt.Sprintf(" %d more", len(slot.Missed)-1)
					break
				}
				text += " " + o.at(missed)
			}
			if slot.Skipped != nil {
				text += ", " + nameOf(slot.Skipped)
			}
			first := append(slices.Clone(slot.Missed), slot.Time)[0] // of the calendar after After
			check.That(o.T, slot.Skipped != nil || len(slot.Missed) == 100 || cfg.Calendar.Next(slot.After).Equal(first), "%s: after %v", text, slot.After)
			o.say("%s %s", id, text)
			if work != nil && !work(slot) {
				break
			}
		}
		<-s.Candidate().Done()
	}()
	end = func() {
		cancel()
		<-ended
	}
	o.Cleanup(end)
	synctest.Wait()
	return end
}

// nameOf returns the short name of a fault of a schedule; empty: it is another one.
func nameOf(err error) string {
	for name, fault := range map[string]error{
		"clock": schedule.ErrClock, "ahead": schedule.ErrAhead, "changed": schedule.ErrChanged, "calendar": schedule.ErrCalendar,
		"mark": schedule.ErrMark,
	} {
		if errors.Is(err, fault) {
			return name
		}
	}
	return ""
}

// publish lets another leader publish a value for a minute.
func (o *office) publish(value string) {
	o.Helper()
	c := check.Got(leader.Campaign(o.Context(), o.store.Link("c"), "job", leader.Config{Value: []byte(value)}))(o.T)
	o.pass(time.Minute)
	check.OK(o.T, c.Stop())
}

// pass lets time pass.
func (o *office) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expect compares what was said since the last call.
func (o *office) expect(want ...string) {
	o.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	check.Equal(o.T, strings.Join(o.lines, "\n"), strings.Join(want, "\n"), "it is\n%s\nwant\n%s", strings.Join(want, "\n"))
	o.lines = nil
}

// reports compares the faults that were reported since the last call.
func (o *office) reports(want ...string) {
	o.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	check.Equal(o.T, strings.Join(o.told, ", "), strings.Join(want, ", "), "%s")
	o.told = nil
}

var everyTen = job{Calendar: schedule.Every(10 * time.Second)}

// Each slot is worked once, also over a handover. Without a crash none is missed.
func TestSlots_HandoverMissesNone(t *testing.T) {
	open(t, func(o *office) {
		end := o.hire("a", everyTen, nil)
		o.hire("b", everyTen, nil)
		o.pass(25 * time.Second)
		end()
		o.pass(20 * time.Second)
		o.expect("10s a 10s", "20s a 20s", "30s b 30s", "40s b 40s")
	})
}

// A crash costs the slots of one lease. The next leader works the newest one, with a list of the others.
// When the first leads again, it goes on where the second has ended.
func TestSlots_AfterCrash(t *testing.T) {
	open(t, func(o *office) {
		three := job{Calendar: schedule.Every(3 * time.Second)}
		o.hire("a", three, nil)
		end := o.hire("b", three, nil)
		o.pass(7 * time.Second)
		o.store.Link("a").Cut() // the last renewal was the mark at 6s
		o.pass(15 * time.Second)
		o.expect("3s a 3s", "6s a 6s", "21s b 21s, missed 9s, missed 12s, missed 15s, missed 18s")
		o.store.Link("a").Restore()
		end()
		o.pass(3 * time.Second)
		o.expect("24s a 24s")
	})
}

// A slot that was begun and not done is yielded again. A job that must run at most once leaves it out.
func TestSlots_CrashInWork(t *testing.T) {
	open(t, func(o *office) {
		o.hire("a", everyTen, func(s *schedule.Slot) bool {
			if o.at(s.Time) == "20s" {
				<-s.Term.Context().Done()
				o.say("a stops")
			}
			return true
		})
		o.hire("b", everyTen, nil)
		o.pass(21 * time.Second)
		o.store.Link("a").Cut()
		o.pass(30 * time.Second)
		o.expect("10s a 10s", "20s a 20s", "32s a stops", "35s b 20s, begun", "35s b 30s", "40s b 40s", "50s b 50s")
	})
}

// A leader that was given the list of missed slots, and crashes in the slot that came with it, leaves the list
// to the next one. So does one that stops there.
func TestSlots_CrashKeepsMissed(t *testing.T) {
	const again = " c 40s, begun, missed 20s, missed 30s"
	for stops, want := range map[bool][]string{
		false: {"1m0s" + again, "1m0s c 1m0s, missed 50s"},
		true:  {"46s" + again, "50s c 50s", "1m0s c 1m0s"},
	} {
		open(t, func(o *office) {
			end := o.hire("a", everyTen, nil)
			o.pass(11 * time.Second)
			end()
			o.pass(34 * time.Second)
			end = o.hire("b", everyTen, func(s *schedule.Slot) bool {
				<-s.Term.Context().Done()
				return true
			})
			o.hire("c", everyTen, nil)
			o.pass(time.Second)
			if stops {
				end()
			} else {
				o.store.Link("b").Cut()
			}
			o.pass(15 * time.Second)
			o.expect(append([]string{"10s a 10s", "45s b 40s, missed 20s, missed 30s"}, want...)...)
		})
	}
}

// A leader that is cut off between two slots leads again as soon as its own lease is over and NATS is back.
func TestSlots_CutBetweenSlots(t *testing.T) {
	open(t, func(o *office) {
		cfg := everyTen
		cfg.Election.GracePeriod = 6 * time.Second // the candidate waits for the loop
		o.hire("a", cfg, func(*schedule.Slot) bool {
			time.Sleep(3 * time.Second)
			return true
		})
		o.pass(16 * time.Second)
		o.store.Link("a").Freeze()
		o.pass(20 * time.Second)
		o.store.Link("a").Restore()
		o.pass(5 * time.Second)
		o.expect("10s a 10s", "36s a 30s, missed 20s", "40s a 40s")
	})
}

// Work that a handover interrupts is not done. Work that ends after its term is, if Done says so, and
// the next leader does not repeat it.
func TestSlots_DoneWhileDraining(t *testing.T) {
	for done, want := range map[bool][]string{false: {"26s b 20s, begun", "30s b 30s"}, true: {"30s b 30s"}} {
		open(t, func(o *office) {
			cfg := everyTen
			cfg.Election.GracePeriod = 7 * time.Second
			end := o.hire("a", cfg, func(s *schedule.Slot) bool {
				if o.at(s.Time) == "20s" {
					<-s.Term.Context().Done()
					time.Sleep(5 * time.Second)
					if done {
						check.OK(o.T, s.Complete(o.Context()))
						check.OK(o.T, s.Complete(o.Context()))
					}
				}
				return true
			})
			o.hire("b", everyTen, nil)
			o.pass(21 * time.Second)
			end()
			o.pass(9*time.Second + 1)
			o.expect(append([]string{"10s a 10s", "20s a 20s"}, want...)...)
		})
	}
}

// A slot that is marked as begun while the leader hands over is left to the next one, as if it was not begun.
func TestSlots_HandoverAsSlotBegins(t *testing.T) {
	for _, hand := range []func(o *office, end func()){
		func(_ *office, end func()) { end() },
		func(o *office, _ func()) { o.resign() },
	} {
		open(t, func(o *office) {
			end := o.hire("a", everyTen, nil)
			o.hire("b", everyTen, nil)
			o.pass(19 * time.Second)
			o.store.Link("a").Delay(50 * time.Millisecond)
			o.pass(1050 * time.Millisecond) // the mark is stored, and its reply is on the way
			hand(o, end)
			o.pass(30*time.Second - time.Since(o.begun))
			o.expect("10s a 10s", "20.35s b 20s", "30s b 30s")
		})
	}
	open(t, func(o *office) { // or counts as stalled, because the mark takes that long
		cfg := everyTen
		cfg.Election.RenewInterval, cfg.Election.StallTimeout = 5*time.Second, time.Second
		o.hire("a", cfg, nil)
		o.hire("b", everyTen, nil)
		o.pass(19 * time.Second)
		o.store.Link("a").Delay(550 * time.Millisecond)
		o.pass(11 * time.Second)
		o.expect("10s a 10s", "23.85s b 20s", "30s b 30s")
	})
}

// Work that was complete when its mark could not be stored is not given out again by the process that
// has done it.
func TestSlots_MarkIsLost(t *testing.T) {
	open(t, func(o *office) {
		o.hire("a", everyTen, func(s *schedule.Slot) bool {
			time.Sleep(2 * time.Second)
			return true
		})
		o.pass(21 * time.Second)
		o.store.Link("a").Cut()
		o.pass(20 * time.Second)
		o.store.Link("a").Restore()
		o.pass(10 * time.Second)
		o.expect("10s a 10s", "20s a 20s", "41s a 40s, missed 30s", "50s a 50s")
	})
}

// A loop that is left returns at once, and calls the calendar no more.
func TestSlots_BreakReturns(t *testing.T) {
	open(t, func(o *office) {
		end := o.hire("a", everyTen, nil)
		slow := &delayed{Calendar: everyTen.Calendar}
		s := check.Got(schedule.Campaign(o.Context(), o.store.Link("b"), "job", slow, leader.Config{}))(o.T)
		left := make(chan time.Duration)
		go func() {
			for range s.Slots() {
				break
			}
			check.Equal(o.T, slow.calls.Load(), 0, "%d calls go on")
			left <- time.Since(o.begun)
		}()
		o.pass(5 * time.Second)
		end()
		o.pass(4 * time.Second)
		slow.by.Store(int64(time.Millisecond))
		at := <-left
		check.That(o.T, at > 10*time.Second && at < 11*time.Second, "the loop returns after %v", at)
		check.That(o.T, !check.Now(s.Candidate().Done()), "the candidate has ended")
	})
	open(t, func(o *office) { // also one that waits
		o.hire("a", everyTen, nil)
		slow := &delayed{Calendar: everyTen.Calendar}
		s := check.Got(schedule.Campaign(o.Context(), o.store.Link("b"), "job", slow, leader.Config{}))(o.T)
		left := make(chan struct{})
		go func() {
			defer close(left)
			for range s.Slots() {
				o.Error("a slot")
			}
			check.Equal(o.T, slow.calls.Load(), 0, "%d calls go on")
		}()
		slow.by.Store(int64(time.Second))
		o.pass(10500 * time.Millisecond) // it compares the mark
		check.Equal(o.T, slow.calls.Load(), 1, "%d calls go on")
		check.OK(o.T, s.Candidate().Stop())
		<-left
	})
}

// Leaving the loop hands over, and leaves the slot to the next leader unless it was Done.
func TestSlots_Break(t *testing.T) {
	for done, want := range map[bool][]string{false: {"10s b 10s, begun", "20s b 20s"}, true: {"20s b 20s"}} {
		open(t, func(o *office) {
			o.hire("a", everyTen, func(s *schedule.Slot) bool {
				check.That(o.T, !done || s.Complete(s.Term.Context()) == nil, "it is not done")
				return false
			})
			end := o.hire("b", everyTen, nil)
			o.pass(21 * time.Second)
			o.expect(append([]string{"10s a 10s"}, want...)...)
			end()
			o.pass(20 * time.Second)
			o.expect() // a takes no further term
		})
	}
}

// Work that takes longer than to the next slot makes that late, and those in between are missed.
func TestSlots_LongWork(t *testing.T) {
	open(t, func(o *office) {
		o.hire("a", everyTen, func(s *schedule.Slot) bool {
			if o.at(s.Time) == "10s" {
				time.Sleep(25 * time.Second)
			}
			return true
		})
		o.pass(41 * time.Second)
		o.expect("10s a 10s", "35s a 30s, missed 20s", "40s a 40s")
	})
}

// A leader has said where it began before its first slot. One that crashes before it has worked any slot
// passes on what the leader before it has said.
func TestSlots_CrashBeforeFirstSlot(t *testing.T) {
	open(t, func(o *office) {
		end := o.hire("a", everyTen, nil)
		o.hire("b", everyTen, nil)
		o.pass(5 * time.Second)
		end()
		o.pass(4 * time.Second)
		o.store.Link("b").Cut()
		o.hire("c", everyTen, nil)
		o.pass(20 * time.Second)
		o.expect("24s c 20s, missed 10s")
	})
}

// A calendar may count from the slot before: the time of the work does not shift it.
func TestSlots_CountedFromSlotBefore(t *testing.T) {
	open(t, func(o *office) {
		o.hire("a", job{Calendar: later(10 * time.Second)}, func(*schedule.Slot) bool {
			time.Sleep(3 * time.Second)
			return true
		})
		o.pass(35 * time.Second)
		o.expect("10s a 10s", "20s a 20s", "30s a 30s")
	})
}

type later time.Duration

func (l later) Next(after time.Time) time.Time { return after.Add(time.Duration(l)) }

// Slots may be less than a second apart. The marks say exactly which they are.
func TestSlots_PartsOfSecond(t *testing.T) {
	open(t, func(o *office) {
		from := func(parts time.Duration) time.Time { return o.begun.Add(parts * time.Second / 10) }
		fast := job{Calendar: at{from(13), from(26), from(39), from(52)}}
		end := o.hire("a", fast, nil)
		o.pass(2 * time.Second)
		end()
		end = o.hire("b", fast, func(s *schedule.Slot) bool {
			<-s.Term.Context().Done()
			return true
		})
		o.pass(4 * time.Second)
		end()
		o.hire("c", fast, nil)
		o.expect("1.3s a 1.3s", "2.6s b 2.6s", "6s c 2.6s, begun", "6s c 5.2s, missed 3.9s")
	})
}

// The calendar is asked in the time zone of the clock, also from a slot of another leader, and slots are in it.
func TestSlots_TimeZone(t *testing.T) {
	open(t, func(o *office) {
		hourly := job{Calendar: hours{}}
		hourly.Election.Clock = zoned{leader.SystemClock(), time.FixedZone("east", 5*3600+30*60)}
		end := o.hire("a", hourly, nil)
		o.pass(40 * time.Minute)
		mark, _, _ := strings.Cut(string(o.store.Leader("job").Value), " calendar ")
		check.Equal(o.T, mark, "done 2000-01-01T00:30:00Z", "the mark is %q")
		end()
		end = o.hire("b", hourly, func(s *schedule.Slot) bool {
			<-s.Term.Context().Done()
			return true
		})
		o.pass(time.Hour)
		end()
		o.hire("c", hourly, func(s *schedule.Slot) bool {
			check.Equal(o.T, s.Time.Location().String()+s.After.Location().String(), "easteast", "it is in %s")
			return true
		})
		o.pass(time.Hour)
		o.expect("30m0s a 30m0s", "1h30m0s b 1h30m0s", "1h40m0s c 1h30m0s, begun", "2h30m0s c 2h30m0s")
	})
}

// hours is a calendar of full hours in the zone of the time that it is asked for.
type hours struct{}

func (hours) Next(after time.Time) time.Time {
	y, m, d := after.Date()
	return time.Date(y, m, d, after.Hour()+1, 0, 0, 0, after.Location())
}

// zoned is a clock in a time zone.
type zoned struct {
	leader.Clock
	zone *time.Location
}

func (z zoned) Now() time.Time { return z.Clock.Now().In(z.zone) }

// After a long absence the newest 100 of the missed slots are listed. The calendar is not asked for all.
func TestSlots_LongAbsence(t *testing.T) {
	open(t, func(o *office) {
		end := o.hire("a", everyTen, nil)
		o.pass(11 * time.Second)
		end()
		o.pass(1000 * time.Hour)
		var asked atomic.Int32
		o.hire("b", job{Calendar: counted{everyTen.Calendar, &asked}}, nil)
		o.expect("10s a 10s", "1000h0m11s b 1000h0m10s, missed 999h43m30s, missed 99 more")
		check.That(t, asked.Load() < 1000, "the calendar was asked %d times", asked.Load())
	})
}

type counted struct {
	schedule.Calendar
	asked *atomic.Int32
}

func (c counted) Next(after time.Time) time.Time {
	c.asked.Add(1)
	return c.Calendar.Next(after)
}

// Work that the end of the term interrupts is given out again, also by the same process.
func TestSlots_InterruptedHere(t *testing.T) {
	open(t, func(o *office) {
		o.hire("a", everyTen, func(s *schedule.Slot) bool {
			if !s.Begun {
				<-s.Term.Context().Done()
			}
			return true
		})
		o.pass(11 * time.Second)
		o.resign()
		o.pass(10 * time.Second)
		o.expect("10s a 10s", "12.25s a 10s, begun", "20s a 20s")
	})
}

// A fake clock does not wait for work, also when the slot came after a wait.
func TestSlots_FakeClockPassesInWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := leadertest.NewClock()
		s := check.Got(schedule.Campaign(t.Context(), leadertest.NewStore(clock), "job", everyTen.Calendar, leader.Config{}))(t)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for slot := range s.Slots() {
				<-slot.Term.Context().Done()
			}
		}()
		clock.Settle()
		synctest.Wait()
		clock.Advance(10 * time.Second)
		synctest.Wait()
		clock.Advance(20 * time.Second)
		check.OK(t, s.Candidate().Stop())
		<-ended
	})
}

// A process that was cut off finds its lease over. It works the newest slot in its next term.
func TestSlots_CutOff(t *testing.T) {
	open(t, func(o *office) {
		o.hire("a", everyTen, nil)
		o.pass(5 * time.Second)
		o.store.Link("a").Freeze()
		o.pass(30 * time.Second)
		o.store.Link("a").Restore()
		o.pass(16 * time.Second)
		o.expect("35s a 30s, missed 10s, missed 20s", "40s a 40s", "50s a 50s")
	})
}

// While the next slot is far, the calendar is asked again each 10 s: the clocks may have been set.
func TestSlots_AskedAgain(t *testing.T) {
	for _, stall := range []time.Duration{0, time.Hour} {
		open(t, func(o *office) {
			var next atomic.Pointer[at]
			next.Store(&at{o.begun.Add(time.Hour)})
			cfg := job{Calendar: changing{&next}}
			cfg.Election.StallTimeout = stall
			o.hire("a", cfg, nil)
			o.pass(31 * time.Second)
			next.Store(&at{o.begun.Add(35 * time.Second)})
			o.pass(time.Minute)
			o.expect("40s a 35s")
		})
	}
}

type changing struct{ *atomic.Pointer[at] }

func (c changing) Next(after time.Time) time.Time { return c.Load().Next(after) }

// A calendar may end. The candidate then leads on without work.
func TestSlots_CalendarEnds(t *testing.T) {
	open(t, func(o *office) {
		o.hire("a", job{Calendar: at{o.begun.Add(90 * time.Second), o.begun.Add(100 * time.Second)}}, nil)
		o.pass(time.Hour)
		o.expect("1m30s a 1m30s", "1m40s a 1m40s")
		check.Equal(t, o.store.Leader("job").ID, "a", "%q leads")
	})
	open(t, func(o *office) { // or never begin
		o.hire("a", job{Calendar: at{}}, nil)
		o.pass(time.Hour)
		o.expect()
		check.Equal(t, o.store.Leader("job").ID, "a", "%q leads")
	})
}

// at is a calendar with these slots.
type at []time.Time

func (a at) Next(after time.Time) time.Time {
	for _, t := range a {
		if t.After(after) {
			return t
		}
	}
	return time.Time{}
}

// A wait for the next slot is no work that hangs.
func TestSlots_WaitIsNoStall(t *testing.T) {
	open(t, func(o *office) {
		cfg := job{Calendar: schedule.Every(time.Hour)}
		cfg.Election.StallTimeout = 10 * time.Second
		o.hire("a", cfg, nil)
		first := o.store.Leader("job").Token
		o.pass(2 * time.Hour)
		o.expect("1h0m0s a 1h0m0s", "2h0m0s a 2h0m0s")
		check.Equal(t, o.store.Leader("job").Token, first, "the term has token %d")
	})
}

// A leader whose first mark is not acknowledged goes on in its next term.
func TestSlots_FirstMarkIsLost(t *testing.T) {
	open(t, func(o *office) {
		o.store.Link("a").Delay(time.Second)
		o.hire("a", everyTen, nil)
		for o.store.Leader("job").ID == "" {
			o.pass(time.Second)
		}
		o.pass(1500 * time.Millisecond) // the mark is on the way
		o.store.Link("a").Cut()
		o.pass(30 * time.Second)
		o.store.Link("a").Restore()
		o.store.Link("a").Delay(0)
		o.pass(8 * time.Second)
		o.expect("40s a 40s, mark")
	})
}

// A mark that was not stored does not count. In an election whose key has gone, its process goes on from the
// last mark that was.
func TestSlots_MarkIsNotStored(t *testing.T) {
	open(t, func(o *office) {
		o.store.Configure(kit.WithTTL(30 * time.Second)) // a first leader waits for as long
		o.hire("a", everyTen, nil)
		o.pass(49 * time.Second)
		o.store.Link("a").Cut()
		o.pass(35 * time.Second)
		check.Equal(o.T, len(o.store.Entry("job").Value), 0, "the key has %d bytes")
		o.store.Link("a").Restore()
		o.pass(40 * time.Second)
		o.expect("40s a 40s", "1m54s a 1m50s, missed 50s, missed 5 more", "2m0s a 2m0s")
	})
}

// Done returns why the mark was not stored, and can be called again until it is.
func TestDone_Errors(t *testing.T) {
	open(t, func(o *office) {
		o.hire("a", everyTen, func(s *schedule.Slot) bool {
			lead := s.Term.Context()
			switch o.at(s.Time) {
			case "10s":
				check.Is(o.T, s.Complete(check.Ended()), context.Canceled)
				limited, cancel := context.WithTimeout(lead, time.Millisecond)
				defer cancel()
				check.Is(o.T, s.Complete(limited), context.DeadlineExceeded)
				check.OK(o.T, s.Complete(lead))
				check.OK(o.T, s.Complete(check.Ended()))
			case "20s":
				<-lead.Done()
				check.Is(o.T, s.Complete(o.Context()), leader.ErrNotLeader)
				o.say("a is not done")
			}
			return true
		})
		o.store.Link("a").Delay(50 * time.Millisecond)
		o.pass(21 * time.Second)
		o.store.Link("a").Cut()
		o.pass(29 * time.Second)
		o.expect("10.2s a 10s", "20.1s a 20s", "47s a is not done")
		o.reports()
	})
}

// The value of an election that was used otherwise is no mark, which is told, and neither is one far ahead of the clock.
func TestSlots_ForeignValue(t *testing.T) {
	for _, value := range []string{
		"since 2000-01-01T00:00:00Z",
		"done 9999-01-01T00:00:00Z",
		"10.0.0.1:8080",
		"begun 2000-01-01T00:00:00Z",
		"done 2000-01-01T00:00:00Z after 1999-01-01T00:00:00Z",
		"begun 2000-01-01T00:00:00Z after 2000-01-01T00:00:00Z",
		"begun 2000-01-01T00:00:00Z after noon",
		"done at noon",
		"done 1066-10-14T00:00:00Z",
	} {
		open(t, func(o *office) {
			o.publish(value)
			o.hire("a", everyTen, nil)
			o.pass(10 * time.Second)
			o.expect("1m10s a 1m10s, mark")
			o.reports("1m0s a: mark")
		})
	}
}

// A candidate that is stopped before or while it is elected ends, and needs no time of a fake clock for it.
func TestSlots_StopAtOnce(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			store := leadertest.NewStore(leadertest.NewClock())
			s := check.Got(schedule.Campaign(ctx, store, "job", everyTen.Calendar, leader.Config{}))(t)
			cancel()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for range s.Slots() {
					t.Error("a slot of a stopped candidate")
				}
			}()
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Error("the loop goes on")
			}
		})
	}
}

// The calendar and the value are checked.
func TestCampaign_Config(t *testing.T) {
	for text, cfg := range map[string]job{
		"no calendar": {},
		"period":      {Calendar: schedule.Every(0)},
		"Value":       {Calendar: schedule.Every(time.Hour), Election: leader.Config{Value: []byte("x")}},
		"negative":    {Calendar: schedule.Every(time.Hour), Election: leader.Config{StopTimeout: 1}},
	} {
		s, err := schedule.Campaign(t.Context(), leadertest.NewStore(leadertest.NewClock()), "job", cfg.Calendar, cfg.Election)
		check.That(t, s == nil && errors.Is(err, leader.ErrInvalidConfig), "%s: %v, %v", text, s, err)
	}
}

// On several seats each leader would work every slot. One seat is one leader.
func TestCampaign_Seats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		for _, of := range []leader.Store{seats.Of(store, 2), seats.Of(seats.Of(store, 3), 0)} {
			check.Says(t, check.Err(schedule.Campaign(t.Context(), of, "job", everyTen.Calendar, leader.Config{})), leader.ErrInvalidConfig, "seats, each of whose leaders would work every slot")
		}
		for _, of := range []leader.Store{seats.Of(store, 1), seats.Of(store, 0)} {
			check.OK(t, check.Got(schedule.Campaign(t.Context(), of, "job", everyTen.Calendar, leader.Config{}))(t).Candidate().Stop())
		}
	})
}

// A slot is done when its body has ended and the functions of Go have returned: at 25 s. A crash before that leaves it to
// the next leader.
func TestSlots_WorkByGo(t *testing.T) {
	open(t, func(o *office) {
		o.hire("a", everyTen, func(slot *schedule.Slot) bool {
			slot.Term.Go(func(context.Context) { time.Sleep(15 * time.Second) })
			return true
		})
		o.hire("b", everyTen, nil)
		o.pass(49 * time.Second)
		o.expect("10s a 10s", "25s a 20s", "40s a 40s, missed 30s")
		o.store.Link("a").Close()
		o.pass(16 * time.Second)
		o.expect("1m2.5s b 40s, begun, missed 30s", "1m2.5s b 1m0s, missed 50s")
	})
}

// A copy of a slot would not know that the slot is done, and could mark it again after a later one. So go vet reports it: it
// looks for a field that locks.
func TestSlot_CopyIsReported(t *testing.T) {
	var locks func(reflect.Type) bool
	locks = func(of reflect.Type) bool {
		if of.Kind() != reflect.Struct {
			return false
		}
		if reflect.PointerTo(of).Implements(reflect.TypeFor[sync.Locker]()) {
			return true
		}
		for i := range of.NumField() {
			if locks(of.Field(i).Type) {
				return true
			}
		}
		return false
	}
	check.That(t, locks(reflect.TypeFor[schedule.Slot]()), "vet does not report a copy")
}
