package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// A lane has the states of a candidate, one after the other. A step is "second what": a state that the candidate reports with
// the first and the last second of its newest term, perhaps of a candidate that does not reach the server ("!"); "freeze" with
// the second at which its lease is over; or "kill". Each part is shown with its first and its last second.
func TestLane(t *testing.T) {
	for steps, want := range map[string]string{
		"1 candidate, 3 leader 2-3, 9 leader 2-9, 10 fenced 2-9.5, 11 candidate 2-9.5": "waits 1-2, leads 2-9.5, drains 9.5-11, waits 11-",
		"1 leader 0-0, 2 leader 2-2": "leads 2-",
		"1 pending, 4 leader 4-4, 5 leader! 4-5, 6 leader 4-6, 7 leader! 4-7, 9 candidate! 4-8":         "pending 1-4, leads 4-5, lapses 5-6, leads 6-7, lapses 7-8, cut 8-",
		"1 candidate, 2 leader 2-2, 5 freeze 7, 8 leader 2-4, 20 candidate 2-5":                         "waits 1-2, leads 2-5, lapses 5-7, frozen 7-20, waits 20-",
		"1 leader 1-1, 5 freeze 7, 6 leader 1-6":                                                        "leads 1-5, lapses 5-6, leads 6-",
		"1 leader 1-1, 5 freeze 7, 20 candidate 1-4":                                                    "leads 1-5, lapses 5-7, frozen 7-20, waits 20-",
		"1 leader 1-1, 5 freeze 5":                                                                      "leads 1-5, frozen 5-",
		"1 candidate, 5 freeze 0, 6 candidate":                                                          "waits 1-5, frozen 5-6, waits 6-",
		"1 leader 1-1, 5 kill, 4 leader 1-4, 9 candidate":                                               "leads 1-5, gone 5-9, waits 9-",
		"1 candidate!, 2 candidate, 3 ended":                                                            "cut 1-2, waits 2-3, gone 3-",
		strings.Repeat("1 candidate, 1 candidate!, ", mostOfAPast) + "2 candidate, 3 kill, 4 candidate": "",
	} {
		var l lane
		for step := range strings.SplitSeq(steps, ", ") {
			words := append(strings.Fields(step), "-")
			now := time.Unix(0, at(t, words[0]))
			switch state, reaches := strings.CutSuffix(words[1], "!"); state {
			case "freeze":
				l.frozen(time.Unix(0, at(t, words[2])), now)
			case "kill":
				l.is(partGone, now, now)
			default:
				from, to, _ := strings.Cut(words[2], "-")
				r := report{State: state, At: now.UnixNano()}
				if from != "" {
					r.From, r.To = at(t, from), at(t, to)
				}
				l.heard(r, !reaches)
			}
		}
		second := func(ms int64) string {
			if ms == 0 {
				return ""
			}
			return strconv.FormatFloat(float64(ms-1_800_000_000_000)/1000, 'g', -1, 64)
		}
		var got []string
		for _, x := range l {
			got = append(got, fmt.Sprintf("%s %s-%s", x.Kind, second(x.From), second(x.To)))
		}
		if want == "" {
			check.Equal(t, len(l), mostOfAPast, "%d parts")
			continue
		}
		check.That(t, strings.Join(got, ", ") == want, "%s:\n%s, want\n%s", steps, strings.Join(got, ", "), want)
	}
}
