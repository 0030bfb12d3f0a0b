package main

import "sync"

// mark is a channel that is closed once.
type mark struct {
	once *sync.Once
	c    chan struct{}
}

func newMark() mark { return mark{once: new(sync.Once), c: make(chan struct{})} }

func (m mark) set()                     { m.once.Do(func() { close(m.c) }) }
func (m mark) elected() <-chan struct{} { return m.c }
