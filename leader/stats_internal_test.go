package leader

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// The Stats of a candidate with several seats add up those of the seats, except for the longest silence and the
// longest work.
func TestStats_OfAllSeats(t *testing.T) {
	front := &Candidate{done: make(chan struct{}), permit: newBench(3)}
	for n := range 3 {
		k := uint64(1) << (8 * n)
		named := func(k uint64) map[string]uint64 { return map[string]uint64{"x": k} }
		front.seats = append(front.seats, &Candidate{done: front.done, permit: front.permit, clock: &stillClock{testEpoch}, start: testEpoch, tally: tally{
			writes: &writeTimes{counts: [len(writeBounds) + 1]uint64{k, 2 * k}, sum: time.Duration(3 * k)}, refused: 4 * k, unknown: 5 * k, feeds: 6*k + 1,
			pending: 7 * k, elected: 8 * k, unelected: 9 * k, fenced: named(10 * k), deposed: named(11 * k), faults: named(12 * k),
			led: true, leaderless: time.Duration(13 * k), silent: true, signed: -time.Duration(14 * k), working: true, ended: -time.Duration(15 * k),
		}})
	}
	const all, longest = 1 + 1<<8 + 1<<16, 1 << 16
	named := func(k uint64) map[string]uint64 { return map[string]uint64{"x": k * all} }
	want := Stats{
		Seats: 3, Refused: 4 * all, Unknown: 5 * all, FeedRebuilds: 6 * all, Pending: 7 * all, Elected: 8 * all, Unelected: 9 * all,
		Fenced: named(10), Deposed: named(11), Faults: named(12), Leaderless: 13 * all, Silent: 14 * longest, Unreleased: 15 * longest,
	}
	want.Writes.Bounds, want.Writes.Counts, want.Writes.Sum = writeBounds[:], make([]uint64, len(writeBounds)+1), 3*all
	want.Writes.Counts[0], want.Writes.Counts[1] = all, 2*all
	got := front.Stats()
	check.That(t, reflect.DeepEqual(got, want), "Stats are\n%+v, not\n%+v", got, want)
}

// The name of an error in Stats is that of its variable without Err, in snake case, and no
// two errors share one.
func TestErrorNames_AreThoseOfTheVariables(t *testing.T) {
	file := check.Got(parser.ParseFile(token.NewFileSet(), "stats.go", nil, 0))(t)
	seen := make(map[string]bool)
	hump := regexp.MustCompile(`([a-z])([A-Z])`)
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || v.Names[0].Name != "errorNames" {
			return true
		}
		for _, row := range v.Values[0].(*ast.CompositeLit).Elts {
			pair := row.(*ast.CompositeLit).Elts
			variable := ""
			ast.Inspect(pair[0], func(n ast.Node) bool { // the last of package and variable
				if id, ok := n.(*ast.Ident); ok {
					variable = id.Name
				}
				return true
			})
			name, err := strconv.Unquote(pair[1].(*ast.BasicLit).Value)
			want := strings.ToLower(hump.ReplaceAllString(variable[len("err"):], "${1}_${2}"))
			check.That(t, err == nil && name == want && !seen[name],
				"%s is called %q, not %q, or another one is", variable, name, want)
			seen[name] = true
		}
		return false
	})
	check.Equal(t, len(seen), len(errorNames), "%d names were found, not %d", len(errorNames))
}

// An error has its own name, also where the error that it wraps has one, too.
func TestErrorNames_TheMostSpecificCounts(t *testing.T) {
	for _, n := range errorNames {
		got := errorName(n.err)
		check.That(t, got == n.name, "%v is called %s, not %s", n.err, got, n.name)
	}
}
