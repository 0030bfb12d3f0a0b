//go:build !unix

package child

import (
	"errors"
	"os/exec"
)

// CanFreeze says that processes can be frozen here.
const CanFreeze = false

// Separate does nothing here.
func Separate(*exec.Cmd) {}

// Freeze is not supported here.
func (p *Process) Freeze() error { return errors.ErrUnsupported }

// Thaw is not supported here.
func (p *Process) Thaw() error { return errors.ErrUnsupported }
