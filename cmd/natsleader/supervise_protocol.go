//go:build unix

package main

import "time"

// supervision holds the settings that a supervisor gets in supervisorVariable when it
// is started. Its arguments are the command.
type supervision struct {
	Orders, Reports int // descriptors: a pipe to it, and one from it

	Election, Bucket string
	LeaseFile        []byte // a path, of any bytes
	StopSignal       int
	Drain            time.Duration // from the stop signal to SIGKILL, if the lease allows

	// Won and Lost are the signals to the command. 0: it is started and ended instead.
	Won, Lost int
}

func (s *supervision) notifies() bool { return s.Won != 0 }

// order is one order of natsleader to its supervisor: one line of JSON.
type order struct {
	Do string
	// ID: doStart; the ID of the candidate.
	ID string `json:",omitempty"`
	// Token, Lease: doStart (if the candidate leads) and doLease. doHold has only the
	// Lease.
	Token uint64 `json:",omitempty"`
	Lease lease  `json:",omitzero"`
	// Signal: doSignal.
	Signal int `json:",omitempty"`
}

const (
	doStart  = "start"  // start the command
	doLease  = "lease"  // the lease was extended
	doLost   = "lost"   // the term is over
	doHold   = "hold"   // the term is over, but no other candidate can lead for so long
	doStop   = "stop"   // end the command
	doKill   = "kill"   // end it at once
	doSignal = "signal" // hand a signal on to the command's group
)

// lease has the times at which the leadership and the command end unless the lease is
// renewed.
type lease struct {
	Warn instant       // the term is over: the command is asked to stop
	Kill instant       // no process of the command lives on
	Beat time.Duration // how often the clock is read, so that a pause of the host is noticed
}

// supervisorReport is one report of a supervisor: one line of JSON.
type supervisorReport struct {
	What string
	// PID: saidStarted, saidStuck.
	PID int `json:",omitempty"`
	// Cgroup: saidStarted; the path of the command's control group, if it has one.
	Cgroup string `json:",omitempty"`
	// Code: the exit code of a command that cannot be started (saidFailed), or that has
	// ended (saidEnded). After a signal it is 128 plus the signal's number.
	Code int `json:",omitempty"`
	// Error: saidFailed, saidStuck.
	Error string `json:",omitempty"`
	// Stopped: saidEnded; the supervisor had asked the command to stop before it ended.
	Stopped bool `json:",omitempty"`
}

const (
	saidStarted = "started"
	saidFailed  = "failed"
	saidEnded   = "ended"  // and no process of it is left
	saidStuck   = "stuck"  // a process of it cannot be killed
	saidUntold  = "untold" // the command does not handle the signal Won
)
