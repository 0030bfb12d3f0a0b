//go:build !unix

package main

import (
	"errors"
	"os/exec"
)

// canFreeze says that processes can be frozen here.
const canFreeze = false

func separate(*exec.Cmd) {}

func (p *process) freeze() error { return errors.ErrUnsupported }

func (p *process) thaw() error { return errors.ErrUnsupported }
