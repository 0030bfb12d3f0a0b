//go:build !linux

package front

import "errors"

func hostSync() (bool, error) {
	return false, errors.New("this platform does not tell whether its clock is synchronised")
}
