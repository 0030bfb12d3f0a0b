package record

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// A name is the ID of a candidate, or the host of an ID that was made on it.
func TestCordoned_IDOrHost(t *testing.T) {
	for id, want := range map[string]bool{
		"web-1": true, "web-1_17_abc123": true, "web-1.example.com": false, "web-1_17": false, "web-1_x_abc": false, "web-12": false, "aweb-1": false, "web-10_17_abc": false, "web-1-2": false, "db": true, "": false,
	} {
		_, is := Cordoned([]string{"db", "web-1"}, id)
		check.That(t, is == want && (OnHost(id, "db") || OnHost(id, "web-1")) == want, "%q: %v", id, is)
	}
}

// A cordon within its bounds is decoded as it was encoded, in order and without doubles. Any other value is none.
func TestCordon_Bounds(t *testing.T) {
	most := []string{strings.Repeat("<", MaxID)}
	for i := range MaxCordon - 1 {
		most = append(most, fmt.Sprintf("%02d%s", i, strings.Repeat("<", MaxID-2)))
	}
	value := check.Got(EncodeCordon(slices.Concat(most, most)))(t)
	names := check.Got(DecodeCordon(value))(t)
	slices.Sort(most)
	check.That(t, slices.Equal(names, most), "%q", names)
	for _, bad := range [][]string{append(most, "one more"), {""}, {strings.Repeat("x", MaxID+1)}} {
		_, err := EncodeCordon(bad)
		check.That(t, err != nil, "%d names are encoded", len(bad))
	}
	for _, junk := range []string{
		"junk", `{}`, `{"v":2,"names":["a"]}`, `{"v":1,"names":[""]}`, `{"v":1,"names":"a"}`, string(value) + strings.Repeat(" ", maxCordonValue),
	} {
		_, err := DecodeCordon([]byte(junk))
		check.That(t, err != nil, "%.40q is a cordon", junk)
	}
	check.That(t, len(check.Got(DecodeCordon(nil))(t)) == 0, "an empty value has names")
}
