package run

import (
	"os"
	"strconv"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
)

// A message of a command gives a sign of life if a line of it does.
func TestSigns_AmongOtherLines(t *testing.T) {
	for message, want := range map[string]bool{
		"WATCHDOG=1": true, "READY=1\nWATCHDOG=1\n": true, "": false, "READY=1": false, "WATCHDOG=trigger": false, "WATCHDOG=10": false,
	} {
		expect.Equal(t, isSign(message), want, "of "+strconv.Quote(message)+": %t")
	}
}

// A sign of life comes twice in the time that systemd allows, if systemd wants signs of this process.
func TestSignsOfLife(t *testing.T) {
	own := strconv.Itoa(os.Getpid())
	for _, k := range []struct {
		usec, pid string
		want      time.Duration
	}{
		{"20000000", "", 10 * time.Second},
		{"20000000", own, 10 * time.Second},
		{"20000000", own + "0", 0},
		{"9223372036854775807", own, 30 * time.Minute},
		{"0", own, 0},
		{"", "", 0},
	} {
		got := signsOfLife(k.usec, k.pid)
		expect.That(t, got == k.want, "%s of %q, process %q: %v, want %v", WatchdogTime, k.usec, k.pid, got, k.want)
	}
}
