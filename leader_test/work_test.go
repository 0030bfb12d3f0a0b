package leader_test

import "testing"

// The key is not given up before the functions of Go have returned, without a loop over Terms and without a GracePeriod.
// The next leader begins in the instant of the last return.
func TestGo_HandoverWaits(t *testing.T) { story(t) }

// A GracePeriod and a StallTimeout count from the first work on: a term without any is handed over at once.
func TestGo_NoWork(t *testing.T) { story(t) }

// A term without work is handed over at once, also after work that has ended. Work that begins later counts again.
func TestGo_OnlyWhatRuns(t *testing.T) { story(t) }

// A body of Terms may return while functions of Go run: the term lasts as long as they do.
func TestGo_BodyReturns(t *testing.T) { story(t) }

// A loop that is left, and one that begins late, do not end functions of Go.
func TestGo_LoopsComeAndGo(t *testing.T) { story(t) }

// Functions of Go that ignore the end of the drain keep the candidate, and no other, from the key.
func TestGo_DrainIsOver(t *testing.T) { story(t) }

// After a loss the candidate does not campaign before the functions of Go have returned.
func TestGo_LostTerm(t *testing.T) { story(t) }

// Go calls nothing on a term that is over.
func TestGo_TermIsOver(t *testing.T) { story(t) }

// What acts on a term ends, changes and gives away that term only, and does not wait for its work.
func TestTermCalls_OfTheirTerm(t *testing.T) { story(t) }

// The context of the work in hand outlives an orderly end until the work has returned, and the drain is over, and the lease.
func TestGrace_Ends(t *testing.T) { story(t) }
