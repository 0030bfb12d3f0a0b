package main

import (
	"testing"
)

// drain --host takes the IDs that candidates get from the host, and the host's own name as
// an ID. An ID that only begins alike is another host's.
func TestDrain_HostMeansIDs(t *testing.T) {
	for id, want := range map[string]bool{
		"web-1":              true,
		"web-1_4711_abc123":  true,
		"web-1_4711":         false,
		"web-10_4711_abc123": false,
		"web-1-2":            false,
		"web-1_x_abc123":     false,
		"aweb-1":             false,
		"":                   false,
	} {
		d := drain{host: "web-1"}
		if got := d.means(id); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}

// A list of elections says how many it leaves out.
func TestShortList_LeftOut(t *testing.T) {
	var all []electionStatus
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		all = append(all, electionStatus{election: name})
	}
	for n, want := range map[int]string{1: "a", 5: "a, b, c, d, e", 6: "a, b, c, d, e and 1 more", 7: "a, b, c, d, e and 2 more"} {
		if got := shortList(all[:n]); got != want {
			t.Errorf("%d elections: %q, want %q", n, got, want)
		}
	}
}
