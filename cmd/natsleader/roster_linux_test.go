package main

import (
	"strings"
	"testing"

	"github.com/natsleader/natsleader/leader"
)

func TestOnATerminalARosterIsDrawnAsAViewThatFits(t *testing.T) {
	const rows, columns = 8, 60
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	campaigns(t, url, "elections", "billing", leader.Config{ID: "a", Roster: true, Value: []byte(strings.Repeat("x", 100))})
	ids := []string{"b", "c", "d", "e", "f", "g"}
	for i, id := range ids {
		stands(t, url, "billing", leader.Config{ID: id, Roster: true})
		inLine(t, url, "billing", ids[:i+1]...)
	}
	near, far := terminal(t, rows, columns)
	cmd := natsleader(t, "roster", "billing", "--watch", "-s", url)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, far
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var screen output
	read := make(chan struct{})
	go func() {
		defer close(read)
		screen.collect(near)
	}()
	screen.says(t, "Roster of billing at")
	screen.says(t, ", 6 stand")
	screen.says(t, "leads  a   -")
	screen.says(t, "and 4 more")
	late := stands(t, url, "billing", leader.Config{ID: "z", Queue: true, Priority: 9})
	screen.says(t, "1      z   9")
	if err := late.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	interrupted(t, cmd)
	_ = far.Close()
	<-read // the far end is closed
	fits(t, screen.text(), rows, columns)
}
