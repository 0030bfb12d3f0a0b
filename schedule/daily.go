package schedule

import (
	"fmt"
	"slices"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// Daily returns a calendar with one slot on each date in a zone, or on these days of the week, at that time of day. In a night
// in which the clocks go forward over it, the slot is as long after midnight as on other days: 02:30 is at 03:30 then. In one
// in which they go back over it, it is the first of the two.
func Daily(hour, minute int, zone *time.Location, days ...time.Weekday) Calendar {
	return daily{hour, minute, zone, days}
}

type daily struct {
	hour, minute int
	zone         *time.Location
	days         []time.Weekday // none: all
}

// check returns what is wrong with the arguments of Daily.
func (d daily) check() error {
	var wrong string
	switch {
	case d.hour < 0 || d.hour > 23:
		wrong = fmt.Sprintf("hour %d is not one of 0 to 23", d.hour)
	case d.minute < 0 || d.minute > 59:
		wrong = fmt.Sprintf("minute %d is not one of 0 to 59", d.minute)
	case d.zone == nil:
		wrong = "the zone is nil: pass time.UTC, time.Local or that of time.LoadLocation"
	case slices.ContainsFunc(d.days, func(w time.Weekday) bool { return w < time.Sunday || w > time.Saturday }):
		wrong = fmt.Sprintf("days %v are not of time.Sunday to time.Saturday", d.days)
	default:
		return nil
	}
	return fmt.Errorf("%w: schedule.Daily: %s", leader.ErrInvalidConfig, wrong)
}

// Next returns no slot if the arguments are wrong, for a calendar of the application that asks this one.
func (d daily) Next(after time.Time) time.Time {
	if d.check() != nil {
		return time.Time{}
	}
	year, month, day := after.In(d.zone).Date()
	for n := -1; ; n++ {
		t := d.on(year, month, day+n)
		if t.After(after) && (len(d.days) == 0 || slices.Contains(d.days, time.Date(year, month, day+n, 0, 0, 0, 0, time.UTC).Weekday())) {
			return t
		}
	}
}

// on returns the slot of a date: the first instant at which the clocks show the time of day, by the offset of the day before
// or else of the day after; by that of the day before if they never do.
func (d daily) on(year int, month time.Month, day int) time.Time {
	utc := time.Date(year, month, day, d.hour, d.minute, 0, 0, time.UTC)
	by := func(of time.Time) (t time.Time, shows bool) {
		_, offset := of.In(d.zone).Zone()
		t = utc.Add(-time.Duration(offset) * time.Second).In(d.zone)
		return t, t.Hour() == d.hour && t.Minute() == d.minute
	}
	first, shows := by(utc.AddDate(0, 0, -1))
	if later, ok := by(utc.AddDate(0, 0, 1)); !shows && ok {
		return later
	}
	return first
}
