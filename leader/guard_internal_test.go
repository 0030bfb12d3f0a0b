package leader

import (
	"testing"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/record"
)

// A guard that was lost and raised anew stands for the term, although a later term had raised
// it before.
func TestFence_RaisedAnew(t *testing.T) {
	f := &fence{election: "e", session: "s", token: 5, revision: 10, moved: make(chan struct{})}
	_, moved := f.Current()
	later := record.Guard{Election: "e", Session: "t", Token: 6}
	if got := f.Judge(backend.Entry{Revision: 11, Value: later.Encode()}); got != backend.GuardLater || !f.Passed() {
		t.Errorf("a later term: %v, passed %v", got, f.Passed())
	}
	f.Move(3, true)
	if revision, _ := f.Current(); revision != 3 || f.Passed() {
		t.Errorf("the guard stands at %d, passed %v", revision, f.Passed())
	}
	check.That(t, check.Now(moved), "the move is not reported")
}
