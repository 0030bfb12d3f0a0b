//go:build unix && !linux

package main

import (
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownBinary is asked of os.Executable.
const ownBinary = ""

// Here nobody adopts orphans but process 1, and no signal comes when a parent dies.
// So the group of the command is all that is known of its descendants.

func adoptOrphans() {}

func buryAdopted(*atomic.Int64) {}

func introduceSupervisor() {}

func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func descendants(map[int]bool) []int { return nil }

func (*ward) expects(unix.Signal) bool { return true }
