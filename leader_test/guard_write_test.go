package leader_test

import (
	"errors"

	"github.com/natsleader/natsleader/leader"
)

func isFenced(err error) bool { return errors.Is(err, leader.ErrFenced) }
