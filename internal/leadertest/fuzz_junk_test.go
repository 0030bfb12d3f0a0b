package leadertest_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// junkIsGone is the longest time from the deletion of the last junk to an election, where
// no lease is longer than 15 s. A candidate reads after half a lease, a pending candidate
// may wait for one lease and its successor for another, and a candidate that gave up the
// key waits one lease before it campaigns again.
const junkIsGone = 60 * time.Second

// script hands out the bytes of an input.
type script []byte

func (s *script) next() int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b)
}

// number is one of the extremes, or up to eight bytes of the input.
func (s *script) number() uint64 {
	extremes := []uint64{0, 1, 2, 1<<61 - 1, 1 << 61, 1<<62 - 1, 1 << 62, 1<<62 + 1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64 - 1, math.MaxUint64}
	if n := s.next(); n < len(extremes) {
		return extremes[n]
	}
	var b [8]byte
	for i := range b {
		b[i] = byte(s.next())
	}
	return binary.BigEndian.Uint64(b[:])
}

// raw is up to 255 bytes of the input as they are.
func (s *script) raw() []byte {
	n := min(s.next(), len(*s))
	b := (*s)[:n]
	*s = (*s)[n:]
	return b
}

func pick[T any](s *script, of ...T) T { return of[s.next()%len(of)] }

// record is a record of the key: any bytes, or one with extremes in it.
func (s *script) record(sessions ...string) []byte {
	if s.next()%4 == 0 {
		return s.raw()
	}
	return fmt.Appendf(nil, `{"v":%d,"state":%q,"id":%q,"session":%q,"n":%d,"lease":%q,"token":%d,"least":%d,"seats":%d,"since":%q,"priority":%d,"next":[%q,%q],"to":%q}`,
		pick(s, 1, 1, 2), pick(s, "pending", "elected", "leading", "released", "abdicating"), pick(s, "a", "b", "x"), pick(s, append(sessions, "X", "Y")...), s.number(),
		pick(s, "1ns", "1ms", "15s", "16s", "1h", "8000h", "8784h", "2562047h", "-1s"), s.number(), s.number(), int32(s.number()),
		pick(s, "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z"), int32(s.number()), pick(s, append(sessions, "X", "")...), pick(s, append(sessions, "Y", "a b")...), pick(s, "", "a", "b", "x"))
}

// announcement is an entry of the roster.
func (s *script) announcement() []byte {
	if s.next()%4 == 0 {
		return s.raw()
	}
	return fmt.Appendf(nil, `{"v":1,"id":%q,"priority":%d,"preempt":%v,"ticket":%d,"since":"2020-01-01T00:00:00Z"}`,
		pick(s, "a", "b", "x"), int32(s.number()), pick(s, true, false), s.number())
}

// guard is the value of a guard.
func (s *script) guard(sessions ...string) []byte {
	if s.next()%4 == 0 {
		return s.raw()
	}
	return fmt.Appendf(nil, `{"v":1,"election":%q,"token":%d,"id":"x","session":%q}`, pick(s, "e", "e", "f"), s.number(), pick(s, append(sessions, "X")...))
}

// sessionOf is the session of a record.
func sessionOf(e leadertest.Entry) string {
	var r struct{ Session string }
	_ = json.Unmarshal(e.Value, &r) // a record of a candidate decodes
	return r.Session
}

// FuzzJunk lets bytes choose the junk that is written to the key, the feed, the roster and
// the guard of two running candidates. When the junk has been deleted, one of them leads
// within junkIsGone, with a record that can be read and a guard that stands for its term.
func FuzzJunk(f *testing.F) {
	for token := range byte(12) { // the extremes
		f.Add([]byte{0, 1, 0, 2, 2, 0, 3, 5, token, token, 0, 0, 0, 0, 0, 0, 7, 40})
		f.Add([]byte{5, 1, 0, token, 0, 7, 200, 7, 200})
		f.Add([]byte{1, 0, 1, 0, 2, 2, 0, 3, 5, token, token, 0, 0, 0, 0, 0, 0, 7, 40})
		f.Add([]byte{0, 1, 0, 2, 0, 0, token, 2, 0, 0, 0, 0, 0, 0, 0, 7, 9, 8})
	}
	f.Add([]byte{0, 1, 0, 2, 2, 3, 3, 5, 0, 0, 0, 0, 0, 0, 0, 2, 7, 1})       // 8000h, deleted
	f.Add([]byte{4, 1, 0, 8, 0, 0, 7, 100, 4, 1, 1, 9, 0, 1, 7, 100, 7, 100}) // rivals
	f.Add([]byte{3, 1, 0, 2, 2, 3, 3, 5, 0, 0, 0, 0, 0, 0, 0, 7, 50})         // a marker
	f.Add([]byte{6, 0, 7, 250, 7, 250})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) <= 1000 {
			survivesJunk(t, data)
		}
	})
}

var junkSeeds = flag.Uint64("junk", 300, "how many random inputs of FuzzJunk to try")

// TestJunk_IsSurvived does the same with random bytes, in every run.
func TestJunk_IsSurvived(t *testing.T) {
	for seed := range *junkSeeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 12))
			data := make([]byte, rng.IntN(300))
			for i := range data {
				data[i] = byte(rng.Uint32())
				if rng.IntN(3) > 0 {
					data[i] %= 12 // within the choices
				}
			}
			survivesJunk(t, data)
		})
	}
}

// survivesJunk is the test of FuzzJunk for one input.
func survivesJunk(t *testing.T, data []byte) {
	s := script(data)
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock, leadertest.WithLatency(time.Millisecond))
	guard := leadertest.NewStore(clock, leadertest.WithoutPurgeProtection(), leadertest.WithLatency(time.Millisecond))
	var sessions []string
	stand := func(id string) *leader.Candidate {
		link := store.Link(id)
		c, err := leader.Campaign(t.Context(), link, "e", leader.Config{
			ID: id, Guards: []leader.Guard{guard.Link(id).Guard()},
			Queue: &leader.Queue{Priority: len(sessions), Preempt: id == "b"},
		})
		check.OK(t, err)
		t.Cleanup(func() {
			link.Close()
			guard.Link(id).Close()
			<-c.Done()
		})
		clock.Advance(100 * time.Millisecond)
		sessions = append(sessions, sessionOf(store.Entry("e")))
		return c
	}
	a := stand("a")
	b := stand("b")
	for range 40 {
		if len(s) == 0 {
			break
		}
		switch s.next() % 9 {
		case 0:
			store.Put("e", s.record(sessions...))
		case 1:
			last := store.Entry("e").Revision
			store.Forge("e", leadertest.Entry{
				Revision: pick(&s, last+1, last, last+2, last+1<<40, 1, math.MaxUint64), Marker: s.next()%4 == 3, Value: s.record(sessions...),
				Created: pick(&s, time.Time{}, time.Unix(0, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)),
			})
		case 2:
			store.Delete("e")
		case 3:
			store.Backend().Mark(t.Context(), "e", s.record(sessions...), store.Entry("e").Revision, func(uint64, error) {})
		case 4:
			session := pick(&s, append(sessions, "X", "Y", "Z")...)
			store.Backend().Announce(t.Context(), "e", session, s.announcement(), 15*time.Second, func(uint64, error) {})
		case 5:
			guard.Put(fence.DefaultGuardKey, s.guard(sessions...))
		case 6:
			over, cancel := context.WithCancel(t.Context())
			cancel()
			_ = leadertest.Led(a).Resign(over) // it resigns all the same
		case 7:
			clock.Advance(time.Duration(1+s.next()) * 100 * time.Millisecond)
		case 8:
			store.Link("a").Reconnect()
		}
		clock.Settle()
	}
	store.Delete("e")
	guard.Delete(fence.DefaultGuardKey)
	clock.Advance(junkIsGone)
	c := a
	if b.IsLeader() {
		c = b
	}
	term, ok := c.Term()
	if !ok {
		t.Fatalf("nobody leads %v after all junk was deleted; the key holds %s", junkIsGone, store.Entry("e").Value)
	}
	if h := store.Holder("e"); h.State != leader.HolderLeading || h.ID != c.ID() || h.Token != term.Token() {
		t.Errorf("the key says that %v, and %s leads with token %d", h, c.ID(), term.Token())
	}
	var stands struct{ Token uint64 }
	if e := guard.Entry(fence.DefaultGuardKey); json.Unmarshal(e.Value, &stands) != nil || stands.Token != term.Token() {
		t.Errorf("the guard is %s, and the term has token %d", e.Value, term.Token())
	}
	check.That(t, !a.IsLeader() || !b.IsLeader(), "both lead")
}
