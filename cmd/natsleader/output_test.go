package main

import (
	"slices"
	"testing"
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
