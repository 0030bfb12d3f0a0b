package leader_test

import (
	"strings"
	"testing"
	"time"
)

// Operations on a key or a bucket that an operator may do while a leader lives.

// veterans returns a leader and a waiting candidate, at 20.5s. The last renewal was at
// 20s.
func (w *world) veterans() (a, b *candidate) {
	w.Helper()
	a = w.stand("a")
	w.at(12 * time.Second)
	b = w.stand("b")
	w.at(20500 * time.Millisecond)
	a.news()
	b.saw(w.T, "12s observed a")
	return a, b
}

// A deleted key deposes the leader at once, and is taken after one unknown lease. Fault
// 11 of docs/faults.md: deleted.
func TestDeletedKey_DeposesAtOnce(t *testing.T) { story(t) }

// A leader whose key was deleted keeps away for one interval.
func TestDeletedKey_LeaderKeepsAway(t *testing.T) { story(t) }

// Fault 11 of docs/faults.md: purged.
func TestPurgedKey_IsLikeDeleted(t *testing.T) { story(t) }

// The next renewal notices an emptied stream. Fault 11 of docs/faults.md: purged without
// a trace. No feed reports it.
func TestEmptiedStream_IsNoticed(t *testing.T) { story(t) }

// A purge-protected bucket refuses purges.
func TestPurgeProtection_RefusesPurges(t *testing.T) { story(t) }

// The next renewal notices a bucket that was rolled up by the writer of another key.
// Fault 11 of docs/faults.md: rolled up by a client that may write another key.
func TestRolledUpBucket_IsNoticed(t *testing.T) { story(t) }

// A record that cannot be read counts as held for one unknown lease. Fault 11 of
// docs/faults.md: emptied, filled with junk, or with another application's format.
func TestUnreadableRecord_HoldsKey(t *testing.T) {
	for _, junk := range []string{
		"", " ", "junk", "null", "{}", "[]", "7", `{"v":1}`, `{"leader":"somebody"}`, "\x00\xff",
		`{"v":1,"state":"leading","session":"s","lease":"forever"}`,
		`{"v":1,"state":"leading","session":"s","lease":"-5s"}`,
		`{"v":1,"state":"dancing","session":"s","lease":"5s"}`,
		`{"v":1,"state":"leading","session":"","lease":"5s"}`,
		`{"v":1,"state":"leading","session":"s","lease":"5s","token":18446744073709551615}`,
		`{"v":1,"state":"leading","session":"s","lease":"99999h"}`,
		strings.Repeat("[", 10000),
	} {
		inSealed(t, func(w *world) {
			a := w.lone()
			w.write(w.kv(), "e", junk)
			w.at(time.Minute)
			a.saw(t, "3.5s faulted foreign", "3.5s deposed preempted", "3.5s observed foreign",
				"9.5s observed nobody", "9.5s pending", "9.5s elected")
		})
	}
}

// The unknown lease counts anew from each revision of a foreign record.
func TestForeignRecord_EachRevision(t *testing.T) { story(t) }

// A record of a later format counts for its lease. Fault 11 of docs/faults.md: the format
// of another application, of a later version.
func TestLaterFormat_HoldsItsLease(t *testing.T) { story(t) }

// A bucket that was made anew has no leader for one unknown lease. Fault 12 of
// docs/faults.md: deleted and made anew.
func TestRecreatedBucket_IsWaitedFor(t *testing.T) { story(t) }

// The loss of a deleted bucket fences the leader, and a bucket that is made later is
// used. Fault 12 of docs/faults.md: missing.
func TestDeletedBucket_Fences(t *testing.T) { story(t) }

// An expired record leaves a marker, and a candidate that finds it is pending for one
// unknown lease. Fault 12 of docs/faults.md: with a TTL, expired.
func TestExpiredRecord_Marker(t *testing.T) { story(t) }

// An election is not disturbed by changes of another.
func TestElection_IsUndisturbed(t *testing.T) { story(t) }
