package group

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// A script drives the term 5 of member a, and shows after each step what it returns, what the term works on (with the
// token; ! if it has to end), and what it reports. A map is one letter for each shard: a: granted to this term, A: to
// its last term, b: to b. A digit before it is Since, and a letter after it the predecessor.
func TestMember_Script(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"grants begin and end", `
			map 3 a b a
			start 0 | start 1 | start 0 | start 2
			map 4 3a b b | map 5 3a b b
			end 2`, `
			map 3 a b a: [0 2] stops []; works on []; seen 3 []
			start 0: true; works on [0:3]; seen 3 []
			start 1: false; works on [0:3]; seen 3 []
			start 0: false; works on [0:3]; seen 3 []
			start 2: true; works on [0:3 2:3]; seen 3 []
			map 4 3a b b: [] stops [2]; works on [0:3 2:3!]; seen 4 [2]
			map 5 3a b b: [] stops []; works on [0:3 2:3!]; seen 5 [2]
			end 2: false; works on [0:3]; seen 5 []`},
		{"older maps are ignored", `
			map 3 a | start 0
			map 2 b | map 3 b`, `
			map 3 a: [0] stops []; works on []; seen 3 []
			start 0: true; works on [0:3]; seen 3 []
			map 2 b: [] stops []; works on [0:3]; seen 3 []
			map 3 b: [] stops []; works on [0:3]; seen 3 []`},
		{"a later grant of the same shard begins when the work under the earlier one has ended", `
			map 3 a | start 0
			map 5 5a | start 0 | end 0 | start 0`, `
			map 3 a: [0] stops []; works on []; seen 3 []
			start 0: true; works on [0:3]; seen 3 []
			map 5 5a: [0] stops [0]; works on [0:3!]; seen 5 [0]
			start 0: false; works on [0:3!]; seen 5 [0]
			end 0: false; works on []; seen 5 []
			start 0: true; works on [0:5]; seen 5 []`},
		{"work that ends by itself begins again", `
			map 3 a | start 0 | end 0 | start 0`, `
			map 3 a: [0] stops []; works on []; seen 3 []
			start 0: true; works on [0:3]; seen 3 []
			end 0: true; works on []; seen 3 []
			start 0: true; works on [0:3]; seen 3 []`},
		{"a grant to another term of the member is not its", `
			map 3 A | start 0`, `
			map 3 A: [] stops []; works on []; seen 3 []
			start 0: false; works on []; seen 3 []`},
		{"the predecessor has to be freed", `
			map 3 ap | start 0
			freed 2 | start 0 | busy 3 | start 0 | freed 3 | start 0
			map 4 4aq | start 0 | end 0 | start 0 | over | start 0`, `
			map 3 ap: [0] stops []; works on []; seen 3 []
			start 0: false; works on []; seen 3 []
			freed 2: ; works on []; seen 3 []
			start 0: false; works on []; seen 3 []
			busy 3: ; works on []; seen 3 []
			start 0: false; works on []; seen 3 []
			freed 3: ; works on []; seen 3 []
			start 0: true; works on [0:3]; seen 3 []
			map 4 4aq: [0] stops [0]; works on [0:3!]; seen 4 [0]
			start 0: false; works on [0:3!]; seen 4 [0]
			end 0: false; works on []; seen 4 []
			start 0: false; works on []; seen 4 []
			over: ; works on []; seen 4 []
			start 0: true; works on [0:4]; seen 4 []`},
		{"who leaves stops all, and begins nothing", `
			map 3 a a a a b | start 0 | start 1 | start 2
			map 4 b 3a 3a 3a b
			leave | leave | start 3 | end 1 | start 1
			map 5 5b 3a 3a 3a 5a | start 4`, `
			map 3 a a a a b: [0 1 2 3] stops []; works on []; seen 3 []
			start 0: true; works on [0:3]; seen 3 []
			start 1: true; works on [0:3 1:3]; seen 3 []
			start 2: true; works on [0:3 1:3 2:3]; seen 3 []
			map 4 b 3a 3a 3a b: [] stops [0]; works on [0:3! 1:3 2:3]; seen 4 [0]
			leave: [1 2]; works on [0:3! 1:3! 2:3!]; seen 4, left [0 1 2]
			leave: []; works on [0:3! 1:3! 2:3!]; seen 4, left [0 1 2]
			start 3: false; works on [0:3! 1:3! 2:3!]; seen 4, left [0 1 2]
			end 1: false; works on [0:3! 2:3!]; seen 4, left [0 2]
			start 1: false; works on [0:3! 2:3!]; seen 4, left [0 2]
			map 5 5b 3a 3a 3a 5a: [4] stops []; works on [0:3! 2:3!]; seen 5, left [0 2]
			start 4: false; works on [0:3! 2:3!]; seen 5, left [0 2]`},
		{"a map with fewer shards takes the others away", `
			map 3 a a | start 1
			map 4 3a | start 1 | map 5 3a 5a | start 1 | end 1 | start 1`, `
			map 3 a a: [0 1] stops []; works on []; seen 3 []
			start 1: true; works on [1:3]; seen 3 []
			map 4 3a: [] stops [1]; works on [1:3!]; seen 4 [1]
			start 1: false; works on [1:3!]; seen 4 [1]
			map 5 3a 5a: [1] stops []; works on [1:3!]; seen 5 [1]
			start 1: false; works on [1:3!]; seen 5 [1]
			end 1: false; works on []; seen 5 []
			start 1: true; works on [1:5]; seen 5 []`},
	} {
		got, want := "", strings.ReplaceAll(strings.TrimSpace(c.want), "\t", "")
		m, pred := NewMember(Session{"a", 5}), Standing{}
		for step := range strings.FieldsFuncSeq(c.script, func(r rune) bool { return r == '\n' || r == '|' }) {
			words := strings.Fields(step)
			if len(words) == 0 {
				continue
			}
			n := 0
			if len(words) > 1 {
				n, _ = strconv.Atoi(words[1])
			}
			var result any = ""
			switch words[0] {
			case "map":
				granted, stop := m.Receive(mapOf(uint64(n), words[2:]))
				result = fmt.Sprint(granted, " stops ", stop)
			case "leave":
				result = m.Leave()
			case "start":
				result = m.Start(n, pred)
			case "end":
				result = m.Ended(n)
			case "freed":
				pred = Standing{Report: Report{Seen: uint64(n)}}
			case "busy":
				pred = Standing{Report: Report{Seen: uint64(n), Busy: []int{1, 0}}}
			case "over":
				pred = Standing{Over: true}
			}
			got += fmt.Sprintf("%s: %v; %s\n", strings.Join(words, " "), result, show(m))
		}
		got = strings.TrimSpace(got)
		check.That(t, got == want, "%s: got\n%s\nwant\n%s", c.name, got, want)
	}
}

func mapOf(revision uint64, grants []string) Map {
	m := Map{Revision: revision}
	for _, text := range grants {
		var g Grant
		if '0' <= text[0] && text[0] <= '9' {
			g.Since, text = uint64(text[0]-'0'), text[1:]
		}
		if g.Owner = (Session{text[:1], 5}); text[0] == 'A' {
			g.Owner = Session{"a", 4}
		}
		if len(text) > 1 {
			g.Pred = Session{text[1:], 5}
		}
		m.Grants = append(m.Grants, g)
	}
	m.Resolve()
	return m
}

func show(m *Member) string {
	var works []string
	for i, w := range m.work {
		if w.since != 0 {
			works = append(works, fmt.Sprintf("%d:%d%s", i, w.since, map[bool]string{true: "!"}[w.stops]))
		}
	}
	r := m.Report()
	return fmt.Sprintf("works on %v; seen %d%s %v", works, r.Seen, map[bool]string{true: ", left"}[r.Left], r.Busy)
}

// A term waits for a shard that is granted to it, and for its predecessor, until its work begins or it leaves.
func TestMember_Waits(t *testing.T) {
	m := NewMember(Session{"a", 5})
	waits := func(want ...string) {
		t.Helper()
		var got []string
		for i := range m.seen.Grants {
			pred, waits := m.Waits(i)
			got = append(got, pred.ID+map[bool]string{true: "+"}[waits])
		}
		check.That(t, reflect.DeepEqual(got, want), "got %q, want %q", got, want)
	}
	m.Receive(mapOf(3, []string{"a", "ap", "bp", "A"}))
	waits("+", "p+", "p", "")
	m.Start(0, Standing{})
	waits("", "p+", "p", "")
	m.Leave()
	waits("", "p", "p", "")
}
