package leader_test

import (
	"testing"
)

// Resign hands over at the same instant.
func TestResign_HandsOverAtOnce(t *testing.T) { story(t) }

// A candidate that resigned waits five turns, so that all others try first. If none of them
// takes the key, it leads again.
func TestResign_OthersTryFirst(t *testing.T) { story(t) }

// Candidates that resign one after the other do not leave the election without a leader.
func TestResign_SeveralInARow(t *testing.T) { story(t) }

// Only a leader can resign.
func TestResign_NeedsLeadership(t *testing.T) { story(t) }

// Two calls of Resign are one resignation.
func TestResign_TwiceIsOnce(t *testing.T) { story(t) }

// A release that arrives late never touches the record of a successor. Fault 9 of
// docs/faults.md.
func TestRelease_LateSparesSuccessor(t *testing.T) { story(t) }

// A release that did not get through is tried again.
func TestRelease_LostIsTriedAgain(t *testing.T) { story(t) }

// A draining leader keeps the lease until its work is released.
func TestDrain_UntilRelease(t *testing.T) { story(t) }

// A draining leader gives up the key when GracePeriod is over.
func TestDrain_Timeout(t *testing.T) { story(t) }

// Work that was released before the resignation needs no drain.
func TestDrain_AfterRelease(t *testing.T) { story(t) }

// A late Release of an earlier term does not count for the next term.
func TestRelease_OfEarlierTerm(t *testing.T) { story(t) }

// A draining leader that is cut off gives up when its time is over.
func TestDrain_CutOff(t *testing.T) { story(t) }
