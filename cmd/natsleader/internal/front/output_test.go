package front

import (
	"slices"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
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
	got := Columns(rows)
	expect.That(t, slices.Equal(got, want), "%q\nnot %q", got, want)
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
		got := Shorten(x.text, x.most)
		expect.That(t, got == x.want, "%q in %d: %q", x.text, x.most, got)
	}
}

// The day of now is that of the local zone, also if now has another zone, in which it is a day later.
func TestFormatRecent_LocalDay(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local) //nolint:gosmopolitan // the times are shown in the local zone
	_, offset := noon.Zone()
	now := noon.In(time.FixedZone("far", offset+13*60*60))
	for before, want := range map[time.Duration]string{12 * time.Hour: "00:00:00", 12*time.Hour + time.Second: "2026-11-21 23:59:59"} {
		got := FormatRecent(now.Add(-before), now)
		expect.That(t, got == want, "%v before: %s, not %s", before, got, want)
	}
}
