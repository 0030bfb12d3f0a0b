package front

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// hostSync asks the kernel whether something keeps its clock synchronised.
func hostSync() (bool, error) {
	var t unix.Timex // without modes, it only reads
	if _, err := unix.Adjtimex(&t); err != nil {
		return false, fmt.Errorf("adjtimex: %w", err)
	}
	return t.Status&unix.STA_UNSYNC == 0, nil
}
