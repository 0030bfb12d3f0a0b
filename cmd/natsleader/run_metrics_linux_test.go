package main

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
)

// The process ID is 0 after the end of the command. A start that fails counts no end.
func TestCommandMetrics_CountEachEndOnce(t *testing.T) {
	m := newCommandMetrics("elections", "jobs")
	m.started(7)
	m.ended(exitError{code: 3}, false)
	m.ended(exitError{code: exitNotFound}, false)
	expect.That(t, m.pid == 0 && maps.Equal(m.ends, map[commandEnd]uint64{{code: 3}: 1}), "PID %d, %v", m.pid, m.ends)
}

// The time of the start is that of the last run of the command.
func TestCommandMetrics_LastStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newCommandMetrics("elections", "jobs")
		m.started(7)
		time.Sleep(time.Minute)
		m.started(8)
		expect.That(t, m.begun.Equal(time.Now()), "started %v ago", time.Since(m.begun))
	})
}
