package sample

import (
	"errors"
	"testing"
)

func TestBox_HasRoomForThree(t *testing.T) {
	b := newBox(true)
	for i := range 3 {
		if n, err := b.put("x"); n != i+1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if n, err := b.put("x"); n != 0 || !errors.Is(err, ErrFull) {
		t.Fatal(n, err)
	}
}

func TestKind(t *testing.T) {
	if kind(0) != "few" || kind(2) != "some" || kind(9) != "many of 9" {
		t.Fatal(kind(0), kind(2), kind(9))
	}
}

func TestForever_Ends(t *testing.T) {
	if forever(true) != 0 || forever(false) != 1 {
		t.Fatal("not 0 and 1")
	}
}

func TestNamed(t *testing.T) {
	if named(0).Name() != "named" || !stops() {
		t.Fatal("has another name, or does not stop")
	}
	defer recovers()
	panic("is stopped")
}
