package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
)

// parseMoment returns the moment that a text names, the zero time for "all".
func parseMoment(text string, now time.Time) (time.Time, error) {
	if text == "all" {
		return time.Time{}, nil
	}
	if d, err := fisk.ParseDuration(text); err == nil {
		if d < 0 {
			return time.Time{}, fmt.Errorf("%q is negative", text)
		}
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, front.ShownWithOffset} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if wall, err := time.Parse(layout, text); err == nil {
			return onlyMoment(wall, now)
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			y, m, d := now.Date()
			wall := time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
			_, offset := now.Zone()
			today := append(momentsOf(wall, now.Location()), wall.Add(-time.Duration(offset)*time.Second)) // as if it were not set
			if today[0].After(now) {
				wall = wall.AddDate(0, 0, -1) // of yesterday
			}
			return onlyMoment(wall, now)
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither a duration, as 6h or 7d, nor a time, as 03:12 or \"2026-11-22 03:12\"", text)
}

// momentsOf returns when clocks in a zone show a time: never where they were set ahead, twice where they were set back.
func momentsOf(wall time.Time, zone *time.Location) (all []time.Time) {
	near := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), zone)
	begin, end := near.ZoneBounds()
	for _, in := range []time.Time{begin.Add(-1), near, end} {
		_, offset := in.Zone()
		t := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		if _, is := t.Zone(); is == offset && !slices.ContainsFunc(all, t.Equal) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// onlyMoment returns the one moment at which clocks here have shown a time.
func onlyMoment(wall, now time.Time) (time.Time, error) {
	all, shown := momentsOf(wall, now.Location()), wall.Format(time.DateTime)
	switch {
	case len(all) == 0:
		return time.Time{}, fmt.Errorf("%s was never: clocks were set ahead over it; give a time before or after", shown)
	case len(all) > 1 && !all[1].After(now):
		return time.Time{}, fmt.Errorf("%s was twice, because clocks were set back: give %q or %q", shown, all[0].Format(front.ShownWithOffset), all[1].Format(front.ShownWithOffset))
	}
	return all[0], nil
}
