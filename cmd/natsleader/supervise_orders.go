//go:build unix

package main

import "time"

// supervision is what a supervisor is told when it is started, in
// supervisorVariable. Its arguments are the command.
type supervision struct {
	Orders, Reports int // descriptors: a pipe to it, and one from it

	Election, Bucket string
	LeaseFile        []byte // a path, of any bytes
	StopSignal       int
	Drain            time.Duration // from the stop signal to SIGKILL, if the lease allows

	// Won and Lost are the signals that tell the command; 0: it is started and
	// ended instead.
	Won, Lost int
}

func (s *supervision) notifies() bool { return s.Won != 0 }

// order is what natsleader tells its supervisor: one line of JSON.
type order struct {
	Do string
	// ID: doStart; of the candidate.
	ID string `json:",omitempty"`
	// Token, Lease: doStart (if it leads), doLease; doHold, only the Lease.
	Token uint64 `json:",omitempty"`
	Lease lease  `json:",omitzero"`
	// Signal: doSignal.
	Signal int `json:",omitempty"`
}

const (
	doStart  = "start"  // start the command
	doLease  = "lease"  // the lease was extended
	doLost   = "lost"   // the term is over
	doHold   = "hold"   // it is, and nobody else can lead for so long
	doStop   = "stop"   // end the command
	doKill   = "kill"   // at once
	doSignal = "signal" // hand a signal on to the command's group
)

// lease is when the leadership ends unless it is renewed, and what follows.
type lease struct {
	Warn instant       // the term is over: the command is told to stop
	Kill instant       // nothing of it lives on
	Beat time.Duration // how often the clock is looked at, so that a pause of the host is noticed
}

// bulletin is what a supervisor tells: one line of JSON.
type bulletin struct {
	What string
	// PID: saidStarted, saidStuck.
	PID int `json:",omitempty"`
	// Cgroup: saidStarted; path of its control group, if it has one.
	Cgroup string `json:",omitempty"`
	// Code: the exit code of a command that cannot be started (saidFailed), or
	// that has ended (saidEnded), 128 and the signal that ended it.
	Code int `json:",omitempty"`
	// Error: saidFailed, saidStuck.
	Error string `json:",omitempty"`
	// Stopped: saidEnded; the supervisor had told it to stop before it ended.
	Stopped bool `json:",omitempty"`
}

const (
	saidStarted = "started"
	saidFailed  = "failed"
	saidEnded   = "ended"  // and nothing of it is left
	saidStuck   = "stuck"  // a process of it cannot be killed
	saidUntold  = "untold" // it does not handle the signal that tells it that it leads
)
