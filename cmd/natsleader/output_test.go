package main

import (
	"slices"
	"testing"
	"time"
)

// Columns count the cells that a terminal draws.
func TestColumns_CountCells(t *testing.T) {
	rows := [][]string{{"ELECTION", "STATE"}, {"請求", "leading"}, {"cafe\u0301", "expired"}, {"ａｂｃｄｅ", "never"}}
	want := []string{
		"ELECTION    STATE",
		"請求        leading",
		"cafe\u0301        expired",
		"ａｂｃｄｅ  never",
	}
	if got := columns(rows); !slices.Equal(got, want) {
		t.Errorf("%q\nnot %q", got, want)
	}
}

func TestShorten_CutsToCells(t *testing.T) {
	for _, x := range []struct {
		text string
		most int
		want string
	}{
		{"worker", 6, "worker"},
		{"worker", 5, "work…"},
		{"請求請求", 8, "請求請求"},
		{"請求請求", 7, "請求請…"},
		{"請求請求", 6, "請求…"}, // half of a character cannot be shown
		{"請求", 1, "…"},
		{"cafe\u0301", 4, "cafe\u0301"},
		{"cafe\u0301s", 4, "caf…"},
	} {
		if got := shorten(x.text, x.most); got != x.want {
			t.Errorf("%q in %d: %q", x.text, x.most, got)
		}
	}
}

// The day of now and that of the time are days of the local zone.
func TestFormatRecent_LocalDay(t *testing.T) {
	local := time.Local
	time.Local = time.FixedZone("here", 10*60*60) //nolint:gosmopolitan // the times are shown in the local zone
	t.Cleanup(func() { time.Local = local })
	now := time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC) // 01:00 here
	for before, want := range map[time.Duration]string{time.Hour: "00:00:00", time.Hour + time.Second: "2026-11-22 23:59:59"} {
		if got := formatRecent(now.Add(-before), now); got != want {
			t.Errorf("%v before: %s, not %s", before, got, want)
		}
	}
}
