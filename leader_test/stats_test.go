package leader_test

import (
	"bytes"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// statsOf returns a candidate over the kit, with that latency each way. It leads after
// settings, feed, read and write.
func statsOf(t *testing.T, latency time.Duration, cfg leader.Config) (*leadertest.Clock, *leadertest.Link, *leader.Candidate, *leadertest.Watcher) {
	t.Helper()
	clock := leadertest.NewClock()
	link := leadertest.NewStore(clock, leadertest.WithLatency(latency)).Link("a")
	cfg.ID = "a"
	c := check.Got(leader.Campaign(t.Context(), link, "e", cfg))(t)
	t.Cleanup(func() {
		link.Close()
		<-c.Done()
	})
	w := leadertest.Watch(t, clock, c)
	clock.Advance(time.Second)
	w.Expect(leadertest.Elected())
	return clock, link, c, w
}

// The figures of a leader that is cut off until its lease has run out, and that leads
// again.
func TestStats(t *testing.T) {
	clock, link, c, w := statsOf(t, 5*time.Millisecond, leader.Config{})
	const toLead = 40 * time.Millisecond
	want := leader.Stats{
		State: leader.StateLeader, Seats: 1, Seat: 1, Token: 1, LeaseDuration: 15 * time.Second,
		SinceRenewal: 970 * time.Millisecond, Remaining: 12*time.Second - 970*time.Millisecond, Leaderless: toLead,
		Pending: 1, Elected: 1,
	}
	got := c.Stats()
	want.WriteBounds = got.WriteBounds
	want.WriteSum, want.WriteCounts = 10*time.Millisecond, make([]uint64, len(got.WriteBounds)+1)
	want.WriteCounts[3] = 1 // of 10 ms, the bound included
	if !reflect.DeepEqual(got, want) || got.WriteBounds[3] != 10*time.Millisecond || !slices.IsSorted(got.WriteBounds) {
		t.Fatalf("a leader has\n%+v, not\n%+v", got, want)
	}

	clock.Advance(2500*time.Millisecond - 970*time.Millisecond + 10*time.Millisecond) // the first renewal
	link.Cut()
	clock.Advance(2500 * time.Millisecond)
	got = c.Stats()
	if got.Silent != 2500*time.Millisecond || got.Unknown != 1 || !maps.Equal(got.Faults, map[error]uint64{leader.ErrUnreachable: 1}) {
		t.Errorf("after the first renewal that fails:\n%+v", got)
	}
	clock.Advance(time.Second)
	got = c.Stats()
	check.That(t, got.Silent == 3500*time.Millisecond, "a second later it is silent for %v", got.Silent)
	clock.Advance(20 * time.Second)
	link.Restore()
	clock.Advance(10 * time.Second)
	w.Expect(leadertest.Fenced(leader.ErrLeaseExpired), leadertest.Deposed(leader.ErrLeaseExpired), leadertest.Elected())
	got = c.Stats()
	if got.Silent != 0 || got.State != leader.StateLeader || got.Token <= want.Token || got.FeedRebuilds > 1 {
		t.Errorf("when it leads again:\n%+v", got)
	}
	once := map[error]uint64{leader.ErrLeaseExpired: 1}
	if got.Pending != 2 || got.Elected != 2 || got.Unelected != 0 || !maps.Equal(got.Fenced, once) || !maps.Equal(got.Deposed, once) {
		t.Errorf("when it leads again, it has counted\n%+v", got)
	}
	for _, counts := range []map[error]uint64{got.Fenced, got.Deposed, got.Faults} { // they are copies
		counts[nil]++
	}
	again := c.Stats()
	check.That(t, again.Fenced[nil]+again.Deposed[nil]+again.Faults[nil] == 0,
		"the maps of a snapshot are those of the next: %+v", again)
	check.That(t, got.Leaderless > toLead+10*time.Second, "nobody led for %v", got.Leaderless)

	link.Close()
	<-c.Done()
	end := c.Stats()
	clock.Advance(time.Hour)
	got = c.Stats()
	check.That(t, reflect.DeepEqual(got, end) && got.SinceRenewal == 0 && got.Remaining == 0 && got.Token == 0,
		"an hour after the end:\n%+v, not\n%+v", got, end)
}

// A candidate that loses the key before its term begins counts as Pending and as unelected,
// and no term counts as ended.
func TestStats_CountsUnelected(t *testing.T) { story(t) }

// Faulted reports to a leader how long its lease is still valid, at the first renewal
// that fails.
func TestFaulted_HasRemainingLease(t *testing.T) {
	clock, link, _, w := statsOf(t, 5*time.Millisecond, leader.Config{})
	clock.Advance(2 * time.Second) // renewed at 2.53 s
	link.Cut()
	clock.Advance(2030 * time.Millisecond)
	w.Expect(leadertest.Match("Faulted with what is left of 12s", func(e leader.Event) bool {
		f, ok := e.(leader.Faulted)
		return ok && f.Remaining == 9500*time.Millisecond && strings.HasSuffix(f.String(), "; the lease is good for 9.5s")
	}))
	clock.Advance(time.Minute)
	w.Expect(leadertest.Fenced())
}

// One line for each event, with stable keys, and nothing while all is well, not
// even for debugging.
func TestLog(t *testing.T) {
	var log bytes.Buffer
	clock, link, c, _ := statsOf(t, 0, leader.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "until" {
				return slog.Attr{}
			}
			return a
		},
	}))})
	lines := func() []string {
		clock.Settle()
		defer log.Reset()
		return strings.Split(strings.TrimSpace(log.String()), "\n")
	}
	logged := func(when string, want ...string) {
		t.Helper()
		got := lines()
		check.That(t, slices.Equal(got, want), "%s:\n%s\nnot\n%s", when, strings.Join(got, "\n"), strings.Join(want,
			"\n"))
	}
	logged("elected",
		"level=INFO msg=pending election=e id=a token=1",
		"level=INFO msg=elected election=e id=a token=1",
	)
	clock.Advance(time.Hour)
	logged("an hour later", "")
	link.Cut()
	clock.Advance(2500 * time.Millisecond)
	if got := lines(); len(got) < 2 || !strings.HasPrefix(got[0], "level=DEBUG msg=\"request failed\" election=e id=a request=write err=") ||
		!strings.HasPrefix(got[1], "level=WARN msg=faulted election=e id=a err=") || !strings.Contains(got[1], " remaining=9.") {
		t.Errorf("cut:\n%s", strings.Join(got, "\n"))
	}
	link.Restore()
	clock.Advance(time.Minute)
	log.Reset()
	check.OK(t, leadertest.Resign(t.Context(), c))
	logged("resigned",
		`level=INFO msg=deposed election=e id=a token=1 cause="leader: resigned"`,
		`level=INFO msg=observed election=e id=a holder="" token=0`,
	)
}

// A server that answers is not silent, even if the answer is that a bucket or a
// permission is missing. No process should be restarted for that.
func TestSilent_EndsWithAnyAnswer(t *testing.T) { story(t) }

// A win that only a read has shown is no renewal, and neither is a renewal of an
// earlier term.
func TestSinceRenewal_IsOfThisClaim(t *testing.T) { story(t) }
