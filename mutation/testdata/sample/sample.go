// Package sample has something for each operator.
package sample

import (
	"errors"
	"fmt"
)

const most = 3

// ErrFull is returned when there is no room.
var ErrFull = errors.New("full")

type box struct {
	items []string
	open  bool
}

type named int

func (named) Name() string { return "named" }

// Put returns how many items a box has.
func (b *box) put(item string) (int, error) {
	if len(b.items) >= most || !b.open {
		return 0, ErrFull
	}
	b.items = append(b.items, item)
	return len(b.items), nil
}

func newBox(open bool) *box {
	return &box{items: make([]string, 0, 8), open: open}
}

func kind(n int) string {
	switch n {
	case 0, 1:
		return "few"
	case 2:
		return "some"
	}
	return fmt.Sprint("many of ", max(n, most))
}

func unused() int { return 7 }

func forever(ok bool) (n int) {
	for !ok {
		n++
		break
	}
	return n
}

func stops() (stopped bool) {
	defer func() { stopped = recover() != nil }()
	panic("stop")
}

func recovers() { _ = recover() }
