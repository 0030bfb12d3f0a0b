package main

import (
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// The picture has a lane for each kind: where the leader ended, for how long nobody led, and the end
// of the fault.
func TestSVG(t *testing.T) {
	struck := time.Unix(1_800_000_000, 0)
	at := func(s float64) time.Time { return struck.Add(time.Duration(s * float64(time.Second))) }
	var all tally
	crash := fault{name: "crash & burn"}
	all.add(crash, outcome{led: true, struck: struck, elected: at(2), vacant: 2 * time.Second, healed: at(2.5)})
	all.add(crash, outcome{led: true, struck: struck, elected: at(9)}) // only the first is drawn
	all.add(fault{name: "restart"}, outcome{kept: true, struck: struck})
	got := all.svg(2 * time.Second)
	if err := xml.Unmarshal([]byte(got), new(struct{})); err != nil {
		t.Error(err)
	}
	// 0.5 s before and 3 s after the fault take 450 units.
	for _, want := range []string{
		`<rect x="130.0" y="62" width="64.3" height="16" class="a"/>`,
		`<rect x="194.3" y="62" width="257.1" height="16" class="v"/>`,
		`<rect x="451.4" y="62" width="128.6" height="16" class="b"/>`,
		`M515.7 58v24`, ">crash &amp; burn<", ">nobody leads for 2.00 s<",
		`<rect x="130.0" y="96" width="450.0" height="16" class="a"/>`, ">the same leader goes on<",
	} {
		check.That(t, strings.Contains(got, want), "the picture lacks %s", want)
	}
	if t.Failed() {
		t.Log(got)
	}
}
