// Package leadertest is the test kit: a store in memory with faults, a clock that moves only when the
// test says so, a watcher of events, and terms. The tests of this module use it, and the public package
// leadertest shows the part of it that tests of applications need.
package leadertest
