package main

import (
	"fmt"
	"slices"
	"strings"
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

func TestView_FitsTheTerminal(t *testing.T) {
	const elections = 4
	for height := 3; height <= 8; height++ {
		for width := 1; width <= 30; width++ {
			rows := [][]string{{"ELECTION", "STATE", "SINCE"}, {"請求", "leading", "-"}, {"cafe\u0301", "expired", "-"}, {"ａｂｃｄｅ", "never", "-"}, {"last", "never", "-"}}
			lines := view{head: "Elections in bucket elections", table: rows, spare: 2}.lines(width, height)
			shown, more := len(lines)-3, 0
			if n, _ := fmt.Sscanf(lines[len(lines)-1], "… and %d more", &more); n == 1 {
				shown--
			}
			if len(lines) > max(4, height) || shown+more != elections {
				t.Errorf("%d elections shown and %d more, in %d lines of %d: %q", shown, more, len(lines), height, lines)
			}
			for _, line := range lines[:len(lines)-min(1, more)] {
				if cells(line) > width {
					t.Errorf("%d cells: %q", cells(line), line)
				}
			}
			if whole := strings.Contains(lines[2], "SINCE"); whole && width < 22 || !whole && width >= 26 {
				t.Errorf("with %d cells: %q", width, lines[2])
			}
		}
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
