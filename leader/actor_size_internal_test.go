package leader

import (
	"testing"
	"unsafe"

	"github.com/natsleader/natsleader/internal/proof"
)

// Of each thousand candidates that an application adds, these two types take most of the heap.
// Go allocates in classes, with 8 bytes more for a type of this size that has pointers. A
// field that comes here either finds room, or makes each candidate larger by 64 to 256
// bytes: is it needed by a candidate that waits, or can it stand behind a pointer that is
// made when it is needed?
func TestActor_SizeClass(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		proof.Skip(t, "for pointers of 8 bytes")
	}
	const header = 8
	if n := unsafe.Sizeof(actor{}) + header; n > 3200 {
		t.Errorf("an actor takes %d bytes, more than its size class of 3200", n)
	}
	if n := unsafe.Sizeof(Candidate{}) + header; n > 640 {
		t.Errorf("a Candidate takes %d bytes, more than its size class of 640", n)
	}
}
