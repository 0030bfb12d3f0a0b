package leader_test

import "testing"

// A term names the last leader, also after one that crashed, and none after the key was deleted.
func TestPrevious_NamesLastLeader(t *testing.T) { story(t) }

// A candidate that won the key and never led is no last leader.
func TestPrevious_AfterPendingOnly(t *testing.T) { story(t) }

// Each seat has a last leader of its own.
func TestPrevious_OnEachSeat(t *testing.T) { story(t) }

// With Inherit each term begins with the value of the last one, until a candidate without it leads.
func TestInherit_KeepsValue(t *testing.T) { story(t) }
