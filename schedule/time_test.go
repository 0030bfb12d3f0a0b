package schedule_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	kit "github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/schedule"
)

// A host whose clock is wrong works each slot at its time by the server, and says so, once. Its successor goes on.
func TestClock_Wrong(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, 23 * time.Hour, -3 * time.Hour, 24 * 365 * time.Hour} {
		open(t, func(o *office) {
			o.store.Link("a").SetWall(ahead)
			end := o.hire("a", everyTen, nil)
			o.pass(25 * time.Second)
			end()
			o.hire("b", everyTen, nil)
			o.pass(15 * time.Second)
			o.expect("10s a 10s", "20s a 20s", "30s b 30s", "40s b 40s")
			o.reports("0s a: clock")
		})
	}
}

// A clock that is wrong for a while within a term costs no slot, and one that is wrong again is reported again. A
// difference of 2 s is none.
func TestClock_WrongForAWhile(t *testing.T) {
	open(t, func(o *office) {
		link := o.store.Link("a")
		o.hire("a", everyTen, nil)
		for _, ahead := range []time.Duration{0, 30 * 24 * time.Hour, 0, -time.Hour, 1500 * time.Millisecond} {
			o.pass(time.Second)
			link.SetWall(ahead)
			o.pass(9 * time.Second)
		}
		o.pass(time.Second)
		o.expect("10s a 10s", "20s a 20s", "30s a 30s", "40s a 40s", "50s a 50s")
		o.reports("20s a: clock", "40s a: clock")
	})
}

// Within a lease the leader notices that its clock was set, however far the next slot is.
func TestClock_WithinALease(t *testing.T) {
	open(t, func(o *office) {
		hourly := job{Calendar: schedule.Every(time.Hour)}
		hourly.Election.LeaseDuration = 2 * time.Second
		o.hire("a", hourly, nil)
		o.pass(51 * time.Second)
		o.store.Link("a").SetWall(-time.Minute)
		o.pass(2 * time.Second)
		o.reports("52s a: clock")
	})
}

// The candidate counts the faults of its schedule.
func TestStats_CountsFaults(t *testing.T) {
	open(t, func(o *office) {
		o.publish("begun 2000-01-01T00:00:50Z after 2000-01-01T00:00:40Z calendar 1f")
		o.store.Link("a").SetWall(time.Hour)
		o.hire("a", everyTen, nil)
		check.Deep(o.T, o.hired["a"].Stats().Faults, map[error]uint64{schedule.ErrClock: 1, schedule.ErrChanged: 1})
	})
}

// A mark ahead of now, of a server whose clock was wrong, is told. The slots up to it come at their time, with Begun.
func TestMark_Ahead(t *testing.T) {
	open(t, func(o *office) {
		o.publish("done 2000-01-01T00:01:25Z")
		end := o.hire("a", everyTen, nil)
		o.pass(15 * time.Second)
		end()
		o.hire("b", everyTen, nil)
		o.pass(20 * time.Second)
		o.expect("1m10s a 1m10s, begun, ahead", "1m20s b 1m20s, begun", "1m30s b 1m30s")
		o.reports("1m0s a: ahead")
	})
}

// A mark so far ahead that no clock explains it is told, and no slot comes with Begun for it.
func TestMark_FarAhead(t *testing.T) {
	open(t, func(o *office) {
		o.publish("begun 2000-01-02T00:01:01Z after 2000-01-01T00:00:00Z")
		o.hire("a", everyTen, nil)
		o.pass(15 * time.Second)
		o.expect("1m10s a 1m10s, ahead")
		o.reports("1m0s a: ahead")
	})
}

// A calendar that stands still, or goes back, at one instant is reported. The slots after that instant come, and Stop ends.
func TestCalendar_Broken(t *testing.T) {
	for _, back := range []time.Duration{0, time.Hour} {
		open(t, func(o *office) {
			end := o.hire("a", job{Calendar: broken{o.begun.Add(20 * time.Second), back}}, func(*schedule.Slot) bool {
				time.Sleep(time.Second)
				return true
			})
			o.pass(45 * time.Second)
			end()
			o.expect("10s a 10s", "20s a 20s", "30s a 30s, calendar", "40s a 40s")
			o.reports("21s a: calendar")
		})
	}
}

// broken is a calendar of every 10 s that returns no later slot for one instant.
type broken struct {
	at   time.Time
	back time.Duration
}

func (b broken) Next(after time.Time) time.Time {
	if after.Equal(b.at) {
		return after.Add(-b.back)
	}
	return everyTen.Calendar.Next(after)
}

// A deployment with another calendar runs no slot of the past. Both sides report it: the one that waits, and the next leader.
func TestCalendar_Changed(t *testing.T) {
	open(t, func(o *office) {
		minutely := job{Calendar: schedule.Every(time.Minute)}
		end := o.hire("a", minutely, nil)
		o.pass(30 * time.Second)
		o.hire("b", everyTen, nil)
		o.pass(65 * time.Second)
		end()
		o.pass(10 * time.Second)
		o.expect("1m0s a 1m0s", "1m40s b 1m40s, changed")
		o.reports("30s b: changed", "1m35s b: changed")
	})
}

// A slot that was begun under another calendar comes first.
func TestCalendar_ChangedDuringASlot(t *testing.T) {
	open(t, func(o *office) {
		o.publish("begun 2000-01-01T00:00:50Z after 2000-01-01T00:00:40Z calendar 1f")
		o.hire("a", everyTen, nil)
		o.pass(15 * time.Second)
		o.expect("1m0s a 50s, begun, changed", "1m10s a 1m10s, changed")
		o.reports("1m0s a: changed")
	})
}

// A slot that another term has given out again is not completed by its first handle, and the slot that is worked is not touched.
func TestComplete_OfAnEarlierTerm(t *testing.T) {
	open(t, func(o *office) {
		var first *schedule.Slot
		o.hire("a", everyTen, func(s *schedule.Slot) bool {
			switch {
			case first == nil:
				first = s
				<-s.Term.Context().Done()
			case !s.Begun:
				check.Is(o.T, first.Complete(o.Context()), leader.ErrNotLeader)
				time.Sleep(time.Second)
				check.That(o.T, strings.HasPrefix(string(o.store.Leader("job").Value), "begun "+s.Time.Format(time.RFC3339)), "the mark is %s", o.store.Leader("job").Value)
			default:
				check.Is(o.T, first.Complete(o.Context()), leader.ErrNotLeader)
			}
			return true
		})
		o.pass(11 * time.Second)
		o.resign()
		o.pass(19 * time.Second)
		o.expect("10s a 10s", "12.25s a 10s, begun", "20s a 20s", "30s a 30s")
	})
}

// Calls of Complete on several goroutines mark the slot once, and the next one begins after them.
func TestComplete_AtOnce(t *testing.T) {
	open(t, func(o *office) {
		o.hire("a", everyTen, func(s *schedule.Slot) bool {
			for range 3 {
				go func() { check.OK(o.T, s.Complete(o.Context())) }()
			}
			return true
		})
		o.store.Link("a").Delay(50 * time.Millisecond)
		o.pass(19999 * time.Millisecond)
		before := o.store.Requests().Writes
		o.pass(time.Second)
		check.Equal(o.T, o.store.Requests().Writes-before, 2, "%d writes: it is begun, and done")
		o.expect("10.2s a 10s", "20.1s a 20s")
	})
}

// A call of Complete that waits for its answer from the store gives up with its ctx, and so does one that waits for that one.
func TestComplete_Waits(t *testing.T) {
	open(t, func(o *office) {
		o.hire("a", everyTen, func(s *schedule.Slot) bool {
			o.store.Link("a").Freeze()
			go func() { check.Is(o.T, s.Complete(o.Context()), leader.ErrNotLeader) }()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(o.Context(), time.Second)
			defer cancel()
			begun := time.Now()
			check.Is(o.T, s.Complete(ctx), context.DeadlineExceeded)
			check.Equal(o.T, time.Since(begun), time.Second, "it took %v")
			o.say("a gives up")
			return true
		})
		o.pass(30 * time.Second)
		o.expect("10s a 10s", "11s a gives up")
		o.store.Link("a").Restore()
		o.pass(time.Minute)
	})
}

// An answer that takes long makes the server's time uncertain. A host's clock that is right within that is believed.
func TestClock_SlowAnswers(t *testing.T) {
	open(t, func(o *office) {
		link := o.store.Link("a")
		link.Delay(600 * time.Millisecond) // to the server, and back
		o.hire("a", everyTen, nil)
		o.pass(15 * time.Second)
		link.SetWall(2600 * time.Millisecond)
		o.pass(20 * time.Second)
		o.reports()
		link.SetWall(2601 * time.Millisecond)
		o.pass(20 * time.Second)
		o.reports("37.4s a: clock")
	})
}

// While the server's time is not known, the clock of the host decides. When it becomes known, the mark of a wrong clock is told.
func TestClock_ServerUnknown(t *testing.T) {
	open(t, func(o *office) {
		link := o.store.Link("a")
		link.SetWall(5 * time.Minute)
		c := check.Got(leader.Campaign(o.Context(), o.store.Link("c"), "job", leader.Config{Value: []byte("done 2000-01-01T00:00:00Z")}))(o.T)
		o.pass(time.Second)
		o.hire("a", job{Calendar: schedule.Every(time.Minute)}, nil)
		o.pass(time.Minute)
		link.FailSettings(3, leader.ErrUnreachable)
		check.OK(o.T, c.Stop())
		o.pass(2 * time.Minute)
		o.expect("1m1s a 6m0s, missed 1m0s, missed 4 more", "2m0s a 2m0s, begun, ahead", "3m0s a 3m0s, begun")
		o.reports("1m11s a: clock", "1m11s a: ahead")
	})
}

// The server's time is asked for again each minute, also if the candidate has no feed.
func TestClock_NoFeed(t *testing.T) {
	open(t, func(o *office) {
		link := o.store.Link("a")
		link.DelayFeed(10 * time.Hour)
		o.hire("a", job{Calendar: schedule.Every(time.Hour)}, nil)
		o.pass(time.Hour + 30*time.Second)
		o.store.Link("a").SetWall(time.Hour)
		before := o.store.Requests().Settings
		o.pass(10 * time.Minute)
		check.Equal(o.T, o.store.Requests().Settings-before, 10, "%d requests in ten minutes")
		o.expect("1h0m0s a 1h0m0s")
		o.reports("1h0m40s a: clock")
	})
}

// Slots of a year that has no Unix nanoseconds are none, and a calendar that goes back so far is broken.
func TestCalendar_FarYears(t *testing.T) {
	open(t, func(o *office) {
		o.hire("a", job{Calendar: at{o.begun.Add(10 * time.Second), time.Date(2300, time.January, 1, 0, 0, 0, 0, time.UTC)}}, nil)
		o.pass(time.Hour)
		o.expect("10s a 10s")
		o.reports()
	})
	open(t, func(o *office) {
		o.hire("a", job{Calendar: past{}}, nil)
		o.pass(time.Minute)
		o.expect("10s a 10s")
		o.reports("10s a: calendar")
	})
}

// past is a calendar whose second slot was long ago.
type past struct{}

func (past) Next(after time.Time) time.Time {
	if first := time.Date(2000, time.January, 1, 0, 0, 10, 0, time.UTC); after.Before(first) {
		return first
	}
	return time.Date(1600, time.January, 1, 0, 0, 0, 0, time.UTC)
}

// Two applications under one name are told, by the one that waits, and by a schedule that leads next. One that publishes nothing
// is told after a lease.
func TestMark_OfAnotherApplication(t *testing.T) {
	for value, when := range map[string]string{"10.0.0.1:8080": "1s", "": "16s"} {
		open(t, func(o *office) {
			c := check.Got(leader.Campaign(o.Context(), o.store.Link("c"), "job", leader.Config{Value: []byte(value)}))(o.T)
			o.pass(time.Second)
			o.hire("a", everyTen, nil)
			o.pass(30 * time.Second)
			o.reports(when + " a: mark")
			check.OK(o.T, c.Stop())
			o.pass(10 * time.Second)
			o.expect("40s a 40s, mark")
			o.reports("31s a: mark")
		})
	}
}

// Replicas with one ID compare their calendars, too.
func TestCalendar_ChangedUnderOneID(t *testing.T) {
	open(t, func(o *office) {
		for i, calendar := range []job{{Calendar: schedule.Every(time.Minute)}, everyTen} {
			calendar.Election.ID = "same"
			o.hire([]string{"a", "b"}[i], calendar, nil)
		}
		o.pass(time.Second)
		o.reports("0s b: changed")
	})
}

// A fault is told again after a slot was worked, and not before.
func TestFaults_ToldAgain(t *testing.T) {
	open(t, func(o *office) {
		o.hire("a", job{Calendar: still{o.begun}}, nil)
		o.pass(2 * time.Minute)
		o.expect("10s a 10s", "20s a 20s", "1m0s a 1m0s, calendar", "1m10s a 1m10s", "1m20s a 1m20s", "2m0s a 2m0s, calendar")
		o.reports("20s a: calendar", "1m20s a: calendar")
	})
}

// still is a calendar of every 10 s that stands still from the 20th to the 50th second of each minute.
type still struct{ begun time.Time }

func (c still) Next(after time.Time) time.Time {
	if s := after.Sub(c.begun) % time.Minute; s >= 20*time.Second && s < 50*time.Second {
		return after
	}
	return everyTen.Calendar.Next(after)
}

// A key that is deleted costs no slot, and gives none out again, while a process lives that has seen the last mark.
func TestMark_KeyIsDeleted(t *testing.T) {
	open(t, func(o *office) {
		o.hire("a", everyTen, nil)
		end := o.hire("b", everyTen, nil)
		o.pass(11 * time.Second)
		o.resign() // b leads
		o.pass(20 * time.Second)
		o.expect("10s a 10s", "20s b 20s", "30s b 30s")
		o.store.Delete("job")
		end()
		o.pass(20 * time.Second)
		o.expect("46s a 40s", "50s a 50s")
	})
}

// A candidate that is elected again publishes the mark that it has sent last. If that was not stored before, the last one that was
// takes its place.
func TestMark_SentBeforeTheTerm(t *testing.T) {
	open(t, func(o *office) {
		link := o.store.Link("a")
		o.hire("a", everyTen, nil)
		o.pass(19 * time.Second)
		link.Cut()
		o.pass(15 * time.Second)
		link.Restore()
		link.Delay(50 * time.Millisecond)
		var marks []string
		for range 100 {
			o.pass(10 * time.Millisecond)
			mark, _, _ := strings.Cut(string(o.store.Leader("job").Value), "Z")
			if len(marks) == 0 || marks[len(marks)-1] != mark {
				marks = append(marks, mark)
			}
		}
		check.Equal(o.T, strings.Join(marks, ", "),
			", begun 2000-01-01T00:00:20, done 2000-01-01T00:00:10, begun 2000-01-01T00:00:30, done 2000-01-01T00:00:30", "%s")
	})
}

// A leader that crashes as its term begins leaves the mark of the one before it.
func TestMark_CrashAsTheTermBegins(t *testing.T) {
	open(t, func(o *office) {
		end := o.hire("a", everyTen, nil)
		link := o.store.Link("b")
		link.Delay(50 * time.Millisecond)
		o.hire("b", everyTen, nil)
		o.pass(21 * time.Second)
		end()
		for o.store.Leader("job").ID != "b" {
			o.pass(time.Millisecond)
		}
		link.Cut()
		o.hire("c", everyTen, nil)
		o.pass(20 * time.Second)
		o.expect("10s a 10s", "20s a 20s", "36.1s c 30s", "40s c 40s")
		o.reports()
	})
}

// In another term of a process a fault is told again, although it has worked no slot.
func TestFaults_ToldInEachTerm(t *testing.T) {
	open(t, func(o *office) {
		o.publish("done 2000-01-01T00:02:00Z")
		o.hire("a", job{Calendar: schedule.Every(time.Hour)}, nil)
		c := check.Got(leader.Campaign(o.Context(), o.store.Link("c"), "job", leader.Config{Value: []byte("done 2000-01-01T00:03:00Z")}))(o.T)
		o.pass(time.Second)
		o.resign()
		o.pass(time.Second)
		check.OK(o.T, c.Stop())
		o.pass(time.Second)
		o.reports("1m0s a: ahead", "1m2.25s a: ahead")
	})
}

// A mark that is too large for the bucket is told. Each smaller bucket either has room for all marks, or says so.
func TestMark_TooLarge(t *testing.T) {
	works := map[bool]int{}
	for size := 200; size < 500; size += 10 {
		open(t, func(o *office) {
			o.store.Configure(kit.WithMaxValue(size))
			o.hire("a", everyTen, nil)
			o.pass(21 * time.Second)
			told := o.hired["a"].Stats().Faults[leader.ErrValueTooLarge] > 0
			check.That(o.T, told == (len(o.lines) < 2), "%d bytes: %v, %v", size, o.lines, o.told)
			works[!told]++
		})
	}
	check.That(t, works[false] > 0 && works[true] > 0, "no size is too small, or all are: %v", works)
}

// A slot whose term ends between its mark and its work is left to the next leader, as if it was not begun.
func TestSlots_HandoverBeforeTheWork(t *testing.T) {
	open(t, func(o *office) {
		slow := job{Calendar: &delayed{Calendar: everyTen.Calendar}}
		end := o.hire("a", slow, nil)
		o.hire("b", everyTen, nil)
		o.pass(9 * time.Second)
		slow.Calendar.(*delayed).by.Store(int64(100 * time.Millisecond))
		for !strings.HasPrefix(string(o.store.Leader("job").Value), "begun") {
			o.pass(100 * time.Millisecond)
		}
		end()
		o.pass(20*time.Second - time.Since(o.begun))
		o.expect("13.3s b 10s", "20s b 20s")
	})
}

// delayed is a calendar that takes long.
type delayed struct {
	schedule.Calendar
	by    atomic.Int64
	calls atomic.Int32 // that go on
}

func (d *delayed) Next(after time.Time) time.Time {
	d.calls.Add(1)
	defer d.calls.Add(-1)
	time.Sleep(time.Duration(d.by.Load()))
	return d.Calendar.Next(after)
}

// Each date has its slot once, also in the nights in which the clocks change, and on the days of the week alone.
func TestDaily_Nights(t *testing.T) {
	berlin := check.Got(time.LoadLocation("Europe/Berlin"))(t)
	for _, c := range []struct {
		calendar schedule.Calendar
		from     string
		want     []string
	}{
		{schedule.Daily(2, 30, berlin), "2026-03-28T00:00:00Z", []string{"2026-03-28T01:30:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"}},
		{schedule.Daily(2, 30, berlin), "2026-10-24T00:00:00Z", []string{"2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		{schedule.Daily(3, 0, time.UTC), "2026-03-28T03:00:00Z", []string{"2026-03-29T03:00:00Z", "2026-03-30T03:00:00Z"}},
		{schedule.Daily(9, 0, berlin, time.Monday, time.Friday), "2026-03-27T12:00:00Z", []string{"2026-03-30T07:00:00Z", "2026-04-03T07:00:00Z"}},
		{schedule.Daily(9, 0, berlin, time.Saturday, time.Sunday), "2026-03-27T12:00:00Z", []string{"2026-03-28T08:00:00Z", "2026-03-29T07:00:00Z", "2026-04-04T07:00:00Z"}},
		{schedule.Daily(0, 0, time.FixedZone("far", 14*3600)), "2026-03-28T12:00:00Z", []string{"2026-03-29T10:00:00Z"}},
	} {
		at := check.Got(time.Parse(time.RFC3339, c.from))(t)
		for _, want := range c.want {
			at = c.calendar.Next(at)
			check.Equal(t, at.UTC().Format(time.RFC3339), want, "%s")
		}
	}
}

// In zones with unusual changes of clocks, too, each date has one slot, at its time of day. Where the clocks go forward over it,
// it is later on that date. A date that a zone leaves out has none.
func TestDaily_Zones(t *testing.T) {
	for _, name := range []string{"America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "America/New_York", "Africa/Cairo"} {
		zone := check.Got(time.LoadLocation(name))(t)
		for _, at := range [][2]int{{0, 0}, {0, 30}, {1, 59}, {2, 0}, {2, 30}, {3, 0}, {23, 59}} {
			calendar := schedule.Daily(at[0], at[1], zone)
			slot := time.Date(2008, time.January, 1, at[0], at[1], 0, 0, zone)
			for day := time.Date(2008, time.January, 2, 0, 0, 0, 0, time.UTC); day.Year() < 2026; day = day.AddDate(0, 0, 1) {
				if name == "Pacific/Apia" && day.Format(time.DateOnly) == "2011-12-30" {
					continue
				}
				slot = calendar.Next(slot).In(zone)
				want := day.Add(time.Duration(at[0])*time.Hour + time.Duration(at[1])*time.Minute).Format("2006-01-02T15:04")
				got := slot.Format("2006-01-02T15:04")
				gap := got > want && got[:10] == want[:10] && slot.Add(-time.Hour).In(zone).Format("2006-01-02T15:04") < want
				check.Must(t, got == want || gap, "%s, %v: %s, not %s", name, at, got, want)
			}
		}
	}
}

// A time of day that does not exist, and a zone that is missing, are refused.
func TestDaily_Invalid(t *testing.T) {
	for text, c := range map[string]schedule.Calendar{
		"hour 24 is not":                       schedule.Daily(24, 0, time.UTC),
		"hour -1 is not":                       schedule.Daily(-1, 0, time.UTC),
		"minute 60 is not":                     schedule.Daily(3, 60, time.UTC),
		"minute -1 is not":                     schedule.Daily(3, -1, time.UTC),
		"zone is nil":                          schedule.Daily(3, 0, nil),
		"%!Weekday(7)] are":                    schedule.Daily(3, 0, time.UTC, time.Saturday, 7),
		"%!Weekday(18446744073709551615)] are": schedule.Daily(3, 0, time.UTC, time.Sunday, -1),
	} {
		open(t, func(o *office) {
			_, err := schedule.Campaign(o.Context(), o.store, "job", c, leader.Config{})
			check.Says(o.T, err, leader.ErrInvalidConfig, "schedule.Daily: ")
			check.Says(o.T, err, leader.ErrInvalidConfig, text)
			check.That(o.T, c.Next(time.Now()).IsZero(), "it has a slot")
		})
	}
}

// A schedule of Daily works each date once.
func TestDaily_Works(t *testing.T) {
	open(t, func(o *office) {
		o.hire("a", job{Calendar: schedule.Daily(3, 0, time.UTC)}, nil)
		o.pass(49 * time.Hour)
		o.expect("3h0m0s a 3h0m0s", "27h0m0s a 27h0m0s")
	})
}

// The text of a fault names both times, and what follows.
func TestFaults_Say(t *testing.T) {
	const before = "begun 2000-01-01T00:00:40Z after 2000-01-01T00:00:00Z"
	for text, c := range map[string]struct {
		mark     string
		calendar schedule.Calendar
	}{
		"schedule: the last mark is in the future: the last mark is of 2000-01-01T00:02:00Z; the calendar begins anew after 2000-01-01T00:01:00Z": {
			"done 2000-01-01T00:02:00Z", everyTen.Calendar,
		},
		"schedule: the calendar is not that of the leader: the last mark is of 2000-01-01T00:00:40Z; the calendar begins anew after 2000-01-01T00:01:00Z, and before the one of 2000-01-01T00:00:40Z comes, which was begun": {
			before + " calendar 1f", everyTen.Calendar,
		},
		"schedule: the calendar is broken: the last mark is of 2000-01-01T00:00:40Z; slots that were missed before the one of 2000-01-01T00:00:40Z are not known": {
			before, &broken{time.Date(2000, time.January, 1, 0, 0, 20, 0, time.UTC), 0},
		},
		"schedule: the calendar is broken: the last mark is of 2000-01-01T00:00:50Z; it is asked again": {
			"done 2000-01-01T00:00:50Z", stuck{},
		},
		"schedule: the leader has published no mark of a schedule: there is no mark; the calendar begins anew after 2000-01-01T00:01:00Z": {
			"x", everyTen.Calendar,
		},
	} {
		open(t, func(o *office) {
			o.publish(c.mark)
			o.hire("a", job{Calendar: c.calendar}, func(s *schedule.Slot) bool { return true })
			o.mu.Lock()
			defer o.mu.Unlock()
			check.Equal(o.T, strings.Join(o.texts, "\n"), text, "%s")
		})
	}
}

// stuck is a calendar that stands still since 2000.
type stuck struct{}

func (stuck) Next(after time.Time) time.Time {
	if after.Year() < 2000 {
		return after.Add(time.Second)
	}
	return after
}

// While an answer of the server is on its way, its time is not asked for again.
func TestClock_AsksOnce(t *testing.T) {
	open(t, func(o *office) {
		o.store.Link("a").Delay(400 * time.Millisecond)
		o.hire("a", job{Calendar: schedule.Every(5 * time.Second)}, nil)
		o.pass(30 * time.Second)
		before := o.store.Requests().Settings
		o.pass(5 * time.Minute)
		check.Equal(o.T, o.store.Requests().Settings-before, 5, "%d requests in five minutes")
	})
}

// After a lost reply the leader asks for the server's time again.
func TestClock_ReplyIsLost(t *testing.T) {
	open(t, func(o *office) {
		link := o.store.Link("a")
		o.hire("a", job{Calendar: schedule.Every(time.Hour)}, nil)
		o.pass(time.Minute - time.Millisecond)
		before := o.store.Requests().Settings
		link.Freeze()
		o.pass(2 * time.Millisecond)
		check.Equal(o.T, o.store.Requests().Settings-before, 1, "%d requests are lost")
		link.Restore()
		o.pass(4 * time.Minute)
		check.Equal(o.T, o.store.Requests().Settings-before, 6, "%d requests in all") // one is that of a connection that was restored
	})
}

// A leader that is followed before its lease is over is not told as one that publishes nothing.
func TestMark_FirstIsOnItsWay(t *testing.T) {
	open(t, func(o *office) {
		c := check.Got(leader.Campaign(o.Context(), o.store.Link("c"), "job", leader.Config{}))(o.T)
		o.pass(time.Second)
		o.hire("a", job{Calendar: schedule.Every(time.Hour)}, nil)
		o.pass(4 * time.Second)
		check.OK(o.T, c.Stop())
		o.pass(time.Minute)
		o.reports("5s a: mark")
	})
}
