package leader_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// keys are names, some of which are not valid.
var keys = []string{
	"e", "a.b", "a/b=c-d_e", "", ".", "a.", ".a", "a..b", "a b", "a*", "a.>", "ä", "a\x00b", "a\nb", "$a",
	strings.Repeat("k", 200), strings.Repeat("k", 5000),
}

func TestParity_Keys(t *testing.T) {
	inParity(t, func(p *parity) {
		s, _, _, _ := p.open("a")
		p.settings(s)
		for _, key := range keys {
			if wire.CheckElection(key) == nil { // package leader passes no other to a store
				p.update(s, key, "x", 0)
				p.get(s, key)
				p.mark(s, key, "y", 1+p.zero["key"])
				p.watch(s, key, "feed")()
				p.announce(s, key, rosterA, "1", time.Minute)
				p.stands(s, key, "view")()
			}
			p.result("lookup", func() error { _, err := leader.Lookup(p.Context(), s, key); return err })
		}
		for _, session := range []string{"", "a", "a.b", strings.ToLower(rosterA), rosterA[1:], rosterA + "A", "*" + rosterA[1:]} {
			p.announce(s, "e", session, "1", time.Minute)
		}
	}, bucketSealed)
}

func TestParity_Writes(t *testing.T) {
	inParity(t, func(p *parity) {
		s, _, _, _ := p.open("a")
		other, _, _, _ := p.open("b")
		p.settings(s)
		p.get(s, "e")
		stop := p.watch(other, "e", "feed")
		p.update(s, "e", "none", 7+p.zero["key"])
		first := p.update(s, "e", "one", 0)
		p.update(s, "e", "again", 0)
		p.get(s, "e")
		p.update(s, "f", "of another key", first)
		p.update(s, "f", "of another key", 0)
		second := p.update(s, "e", "two", first)
		p.update(s, "e", "late", first)
		p.update(s, "e", "early", second+1)
		marker := p.mark(s, "e", "marked", second)
		p.get(other, "e")
		p.mark(s, "e", "late", second)
		p.update(s, "e", "as if it were nothing", 0)
		fourth := p.update(s, "e", "", marker)
		p.get(s, "e")
		p.mark(s, "e", "", fourth)
		p.get(s, "e")
		p.put("e", "put")
		p.del("e")
		p.get(s, "e")
		p.pass(2 * time.Second)
		p.get(s, "e")
		p.result("purge", func() error { return p.refused(p.purge("e")) })
		p.get(s, "e")
		p.settings(s)
		p.result("wipe", func() error { return p.refused(p.wipe()) })
		p.get(s, "e")
		p.settings(s)
		p.update(s, "e", "after all", 0)
		p.get(s, "f")
		stop()
		p.update(s, "f", "unheard", 0)
	}, bucketSealed, bucketExpiring, bucketOrdinary)
}

// refused marks an error as a refusal by the bucket, whichever of the two it is.
func (p *parity) refused(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", leader.ErrIncompatibleBucket, err)
	}
	return nil
}

func TestParity_Sizes(t *testing.T) {
	inParity(t, func(p *parity) {
		s, _, _, _ := p.open("a")
		limit := p.settings(s).MaxValue
		p.say("limit %d", limit)
		r := p.update(s, "e", strings.Repeat("x", max(limit, 1)), 0)
		p.update(s, "e", strings.Repeat("x", limit+100), r)
		p.update(s, "e", strings.Repeat("x", limit+100), r+5)
		p.mark(s, "e", strings.Repeat("x", limit+100), r)
		if limit > 1000 { // no roster beside the small one
			p.announce(s, "e", rosterA, strings.Repeat("x", limit+100), time.Minute)
		}
		p.get(s, "e")
		_, err := leader.Campaign(p.Context(), s, "e", leader.Config{Value: []byte(strings.Repeat("x", maxValue+1))})
		p.say("campaign: %s", p.name(err))
	}, bucketSealed, bucketSmall)
}

func TestParity_Expiry(t *testing.T) {
	inParity(t, func(p *parity) {
		s, _, _, _ := p.open("a")
		p.settings(s)
		stop := p.watch(s, "e", "feed")
		r := p.update(s, "e", "one", 0)
		p.pass(9 * time.Second)
		p.get(s, "e")
		p.update(s, "e", "two", r)
		p.pass(9 * time.Second)
		p.get(s, "e")
		p.pass(2 * time.Second)
		e := p.get(s, "e")
		p.pass(11 * time.Second)
		p.get(s, "e")
		p.update(s, "e", "three", e.Revision)
		p.update(s, "e", "three", 0)
		p.settings(s)
		stop()
	}, bucketExpiring)
}

// The bucket is deleted and made anew.
func TestParity_RecreatedBucket(t *testing.T) {
	inParity(t, func(p *parity) {
		s, _, _, _ := p.open("a")
		fresh, _, _, _ := p.open("b")
		p.settings(s)
		stop := p.watch(s, "e", "feed")
		r := p.update(s, "e", "one", 0)
		p.get(s, "e")
		p.drop()
		p.pass(time.Second)
		p.update(s, "e", "two", r)
		p.mark(s, "e", "two", r)
		p.get(s, "e")
		p.get(s, "e")
		p.get(fresh, "e")
		p.update(fresh, "e", "two", 0)
		p.settings(s)
		p.settings(fresh)
		stop()
		p.watch(s, "e", "second feed")()
		p.watch(fresh, "e", "third feed")()
		p.result("lookup", func() error { _, err := leader.Lookup(p.Context(), s, "e"); return err })
		p.result("step down", func() error {
			_, err := leader.StepDown(p.Context(), s, "e", leader.StepDownOptions{By: "me"})
			return err
		})
		p.recreate()
		p.begin()
		p.pass(time.Second)
		p.settings(s)
		p.get(s, "e")
		stop = p.watch(s, "e", "fourth feed")
		p.update(s, "e", "three", 1+p.zero["key"])
		p.update(s, "e", "three", 0)
		p.get(s, "e")
		stop()
	}, bucketSealed, bucketOrdinary)
}

func TestParity_Connection(t *testing.T) {
	inParity(t, func(p *parity) {
		s, cut, restore, closes := p.open("a")
		other, _, _, _ := p.open("b")
		p.settings(s)
		defer p.watch(s, "e", "feed")()
		r := p.update(other, "e", "one", 0)
		everything := func() {
			p.settings(s)
			p.get(s, "e")
			p.update(s, "e", "two", r)
			p.watch(s, "f", "feed of f")()
			p.announce(s, "e", rosterA, "1", time.Minute)
			p.stands(s, "e", "view")()
			p.result("lookup", func() error { _, err := leader.Lookup(p.Context(), s, "e"); return err })
		}
		cut()
		p.pass(10 * time.Millisecond)
		r = p.update(other, "e", "unheard", r)
		everything()
		restore()
		p.pass(time.Second)
		p.get(s, "e")
		p.update(s, "e", "two", r)
		closes()
		p.pass(time.Millisecond)
		everything()
	}, bucketSealed)
}

func TestParity_Roster(t *testing.T) {
	inParity(t, func(p *parity) {
		s, _, _, _ := p.open("a")
		stop := p.stands(s, "e", "early view")
		p.announce(s, "e", rosterA, "1", 5*time.Second)
		p.announce(s, "e", rosterB, "2", 10*time.Second)
		p.announce(s, "f", rosterB, "of another election", 10*time.Second)
		p.announce(s, "e", rosterA, "3", 5*time.Second)
		late := p.stands(s, "e", "late view")
		p.announce(s, "e", rosterB, "", 0)
		p.announce(s, "e", rosterB, "", 0)
		p.announce(s, "e", rosterC, "", 0)
		p.pass(4 * time.Second)
		late()
		p.pass(3 * time.Second)
		p.announce(s, "e", rosterC, "{}", 1500*time.Millisecond)
		p.pass(1800 * time.Millisecond)
		p.pass(time.Second)
		p.result("roster", func() error { _, err := roster.Lookup(p.Context(), s, "e"); return err })
		stop()
		p.dropRoster()
		p.announce(s, "e", rosterA, "1", 5*time.Second)
		p.stands(s, "e", "view")()
		p.result("roster", func() error { _, err := roster.Lookup(p.Context(), s, "e"); return err })
	}, bucketSealed)
}

func TestParity_Requests(t *testing.T) {
	inParity(t, func(p *parity) {
		s, _, _, _ := p.open("a")
		ask := func(key, question string) {
			a := await(p, func(ctx context.Context, reply func([]byte, error)) {
				s.Backend().Ask(ctx, key, []byte(question), reply)
			})
			p.say("ask %s: %q, %s after %s", key, a.value, p.name(a.err), took(a.took))
		}
		ask("e", "nobody")
		listening := await(p, func(ctx context.Context, reply func(func(func()), error)) {
			s.Backend().Listen(ctx, "e", func(request []byte, answer func([]byte)) {
				if string(request) == "silence" {
					answer(nil)
					return
				}
				answer(append([]byte("re: "), request...))
			}, reply)
		})
		ask("e", "x")
		ask("f", "x")
		ask("e", "silence")
		closed := make(chan struct{})
		listening.value(func() { close(closed) })
		<-closed
		p.pass(time.Millisecond)
		ask("e", "gone")
		p.result("step down", func() error {
			_, err := leader.StepDown(p.Context(), s, "e", leader.StepDownOptions{By: "me"})
			return err
		})
		p.put("e", "foreign")
		p.result("step down", func() error {
			_, err := leader.StepDown(p.Context(), s, "e", leader.StepDownOptions{By: "me"})
			return err
		})
		p.result("transfer", func() error {
			_, err := leader.StepDown(p.Context(), s, "e", leader.StepDownOptions{To: "b", By: "me"})
			return err
		})
	}, bucketSealed)
}
