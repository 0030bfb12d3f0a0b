//go:build field

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/examples/internal/child"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/internal/proof"
)

func TestMain(m *testing.M) {
	if isCandidate() {
		os.Exit(candidate())
	}
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what happens at once on an idle machine.
const patience = 30 * time.Second

// game is a playground in a test.
type game struct {
	*testing.T
	*playground
}

// newGame starts a playground, in which a candidate leads.
func newGame(t *testing.T, lease time.Duration) game {
	t.Helper()
	p, err := open(t.Context(), lease)
	check.OK(t, err)
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
		for _, b := range p.judge.broken {
			t.Error("BROKEN:", b)
		}
		if t.Failed() {
			for _, s := range p.stories {
				t.Log(s.Text)
			}
		}
	})
	g := game{t, p}
	g.leads("")
	return g
}

// becomes waits until the playground looks in a way.
func (g game) becomes(what string, is func(v view) bool) {
	g.Helper()
	limit := time.After(patience)
	for {
		v, news := g.view()
		if is(v) {
			return
		}
		select {
		case <-news:
		case <-limit:
			g.Fatalf("not %s: %+v", what, v.Seats)
		}
	}
}

// leads waits until a candidate leads that is not the given one, and returns its ID.
func (g game) leads(before string) (id string) {
	g.Helper()
	g.becomes("led by another than "+before, func(v view) bool {
		id = v.first(func(s seatView) bool {
			return s.State == "leader" && !s.Frozen && s.ID != before && s.Link == link.Works
		}).ID
		return id != ""
	})
	return id
}

// do does something to a candidate.
func (g game) do(what, id string) {
	g.Helper()
	err := g.ask(request{Do: what, ID: id})
	check.Must(g, err == nil, "%s %s: %v", what, id, err)
}

func (g game) ask(r request) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = g.act(g.Context(), body)
	return err
}

// seat returns what is shown of a candidate.
func (v view) seat(id string) seatView {
	return v.first(func(s seatView) bool { return s.ID == id })
}

// first returns the first seat of which is reports true, or none.
func (v view) first(is func(seatView) bool) seatView {
	return append(slices.DeleteFunc(slices.Clone(v.Seats), func(s seatView) bool { return !is(s) }), seatView{})[0]
}

// The candidates share the shards of a group, and those that are left take the shards of one that was killed.
func TestPlayground_SharesShards(t *testing.T) {
	t.Parallel()
	g := newGame(t, leastLease)
	shared := func(among int) {
		t.Helper()
		g.becomes("shared", func(v view) bool {
			has, owners := 0, 0
			for _, s := range v.Seats {
				n := len(s.Shards)
				if has += n; n >= shards/among && n <= (shards+among-1)/among {
					owners++
				}
			}
			return has == shards && owners == among
		})
	}
	shared(5)
	g.do(doKill, "c")
	shared(4)
}

// Whatever is done to a leader, another leads, and the one before waits when it is over.
func TestPlayground_LeaderLost(t *testing.T) {
	t.Parallel()
	g := newGame(t, leastLease)
	for _, c := range []struct{ do, undo string }{
		{doResign, ""}, {doKill, doStart}, {link.Cut, doRestore}, {link.Held, doRestore}, {link.HeldUp, doRestore}, {link.HeldDown, doRestore},
	} {
		was := g.leads("")
		g.do(c.do, was)
		g.leads(was)
		if c.undo != "" {
			g.do(c.undo, was)
		}
		g.becomes(was+" waits after "+c.do, func(v view) bool {
			s := v.seat(was)
			return (s.State == "candidate" || s.State == "leader") && s.Link == link.Works
		})
	}
}

// A leader that is frozen in its work writes when it wakes up, and the guard refuses that.
func TestPlayground_Zombie(t *testing.T) {
	t.Parallel()
	if !child.CanFreeze {
		proof.Skip(t, "processes cannot be frozen on this system")
	}
	g := newGame(t, leastLease)
	// It may be frozen between two items, and then writes nothing when it wakes up.
	refused := false
	for n := 0; !refused; n++ {
		check.Must(t, n < 20, "no late write was refused")
		was := g.leads("")
		g.becomes("at work", func(v view) bool { return v.seat(was).Stored > 0 })
		g.do(doFreeze, was)
		g.leads(was)
		before, _ := g.view()
		g.do(doThaw, was)
		g.becomes(was+" has left its term", func(v view) bool {
			s := v.seat(was)
			return s.State == "candidate" || s.State == "leader" && s.Token != before.seat(was).Token
		})
		g.becomes("news", func(v view) bool {
			newest := before.Stories[len(before.Stories)-1].N
			refused = slices.ContainsFunc(v.Stories, func(s story) bool {
				return s.N > newest && strings.HasPrefix(s.Text, was+" woke up and wrote")
			})
			return refused || v.seat(was).Stored > before.seat(was).Stored || v.Checks > before.Checks+100
		})
	}
}

// A slow link shortens the lease of a leader, which goes on.
func TestPlayground_Slow(t *testing.T) {
	t.Parallel()
	g := newGame(t, longestLease)
	was := g.leads("")
	g.do(link.Slow, was)
	before, _ := g.view()
	g.becomes("working over a slow link", func(v view) bool { return v.seat(was).Stored > before.seat(was).Stored+3 })
	if v, _ := g.view(); v.seat(was).State != "leader" {
		t.Errorf("%s is %q", was, v.seat(was).State)
	}
}

// The leader of a server that goes away does not lead, and a candidate leads when it is back. A restart
// is as short as a leader survives, or not. A deleted key is taken again.
func TestPlayground_Server(t *testing.T) {
	t.Parallel()
	g := newGame(t, leastLease)
	go g.watchKey(t.Context())
	ledBy := func() (id string) {
		if row := g.state.Row(electionName); row.State == stateLeading {
			id = row.ID
		}
		return id
	}
	g.do(doOutage, "")
	g.becomes("without a leader", func(v view) bool {
		return !v.Up && v.first(func(s seatView) bool { return s.State == "leader" }).ID == ""
	})
	err := g.ask(request{Do: doDelete})
	check.That(t, err != nil && strings.Contains(err.Error(), "the server is down"),
		"the key was deleted on a server that is down: %v", err)
	g.do(doUp, "")
	g.leads("")
	g.do(doRestart, "")
	g.becomes("in contact", func(v view) bool { return v.Up && ledBy() != "" })
	g.becomes("waited for", func(v view) bool { // a candidate has opened its watch again
		return v.first(func(s seatView) bool { return s.State == "candidate" && s.Patience > 1 }).ID != ""
	})
	id := g.leads("")
	before := g.state.Row(electionName).Token
	g.do(doDelete, "")
	g.becomes("deposed", func(v view) bool { return v.seat(id).State != "leader" })
	g.becomes("led again", func(view) bool { return ledBy() != "" && g.state.Row(electionName).Token > before })
}

// All candidates start again for another lease. What cannot be done is refused, with the reason.
func TestPlayground_Requests(t *testing.T) {
	t.Parallel()
	g := newGame(t, leastLease)
	check.OK(t, g.ask(request{Do: doLease, Lease: 2000}))
	id := g.leads("")
	v, _ := g.view()
	check.That(t, v.Lease == 2000 && v.seat(id).Left <= 2000 && len(v.Seats) == 5, "%+v", v)
	g.do(doKill, "e")
	for _, c := range []struct {
		request
		want string
	}{
		{request{Do: doKill, ID: "f"}, `there is no candidate "f"`},
		{request{Do: "dance", ID: "a"}, `"dance" is nothing that can be done to a candidate`},
		{request{Do: doStart, ID: "a"}, "a runs"},
		{request{Do: doResign, ID: "e"}, "e does not run"},
		{request{Do: doLease, Lease: 500}, "a lease is from 1s to 10s, not 500ms"},
		{request{Do: doLease, Lease: 1 << 62}, "a lease is from 1s to 10s"},
	} {
		err := g.ask(c.request)
		check.That(t, err != nil && strings.Contains(err.Error(), c.want), "%+v: %v, not %q", c.request, err, c.want)
	}
	if _, err := g.act(t.Context(), json.RawMessage("{")); err == nil {
		t.Error("half a request was taken")
	}
	g.do(doThaw, "a") // it is so
}

// A candidate that ends by itself is shown as such, with what it printed.
func TestPlayground_CandidateEnds(t *testing.T) {
	t.Parallel()
	g := newGame(t, longestLease) // a candidate that ends has one lease for it
	g.mu.Lock()
	proc := g.seats[4].proc
	g.mu.Unlock()
	proc.Quit()
	g.becomes("without e", func(v view) bool { return v.seat("e").State == "killed" })
	g.mu.Lock()
	g.lease = -time.Second // of which the library says that it is wrong
	g.mu.Unlock()
	g.do(doStart, "e")
	g.becomes("failed", func(v view) bool { return len(v.Broken) > 0 })
	g.mu.Lock()
	if got := strings.Join(g.judge.broken, "\n"); !strings.HasPrefix(got, "the process of e (2) has failed: ") || !strings.Contains(got, "LeaseDuration") {
		t.Error(got)
	}
	g.lease, g.judge.broken = longestLease, nil
	g.mu.Unlock()
	g.do(doStart, "e")
	g.becomes("with e", func(v view) bool { return v.seat("e").State == "candidate" })
}

// TestPlayground_InBrowser of cmd/natsleader starts the program with good settings.
func TestRun_BadSettings(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-lease", "20s"}, 2, "-lease 20s is not from 1s to 10s"},
		{[]string{"now"}, 2, `unexpected argument "now"`},
		{[]string{"-http", "0.0.0.0:0"}, 1, "listens on a loopback address only"},
		{[]string{"-http", "nowhere"}, 1, "-http nowhere"},
		{[]string{"-h"}, 0, "-http address"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), c.args, &stdout, &stderr); code != c.code || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%q: exit code %d\n%s", c.args, code, stderr.String())
		}
	}
}
