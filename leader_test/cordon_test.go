package leader_test

import "testing"

// A cordoned candidate keeps the key that it holds, and takes no other one before it is off the cordon, in this process
// and in the next.
func TestCordon(t *testing.T) { story(t) }
