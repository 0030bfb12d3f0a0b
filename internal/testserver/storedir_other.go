//go:build !linux

package testserver

const memory = ""

func roomInMemory() bool { return false }
