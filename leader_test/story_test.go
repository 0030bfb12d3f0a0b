package leader_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// A story is a script with the transcript of what happens. The files of testdata/stories have
// them, and testdata/stories/README.md describes their form. A test of that name plays it.

var updateStories = flag.Bool("update", false, "rewrite the transcripts of testdata/stories")

// scene is a script, with its transcript. Scenes of one test have labels after its name.
type scene struct {
	file, test, label string
	lines             []string
}

// scenes are the scenes of all files, in order.
var scenes = sync.OnceValues(func() (all []*scene, err error) {
	files, err := filepath.Glob("testdata/stories/*.txt")
	for _, file := range files {
		text, failed := os.ReadFile(file)
		err = cmp.Or(err, failed)
		for part := range strings.SplitSeq("\n"+string(text), "\n## ") {
			lines := strings.Split(strings.TrimRight(part, "\n"), "\n")
			test, label, _ := strings.Cut(lines[0], ": ")
			all = append(all, &scene{file, test, label, lines[1:]})
		}
	}
	return all, err
})

// story plays the scenes of the test, each in all its places, and compares their transcripts.
func story(t *testing.T) {
	t.Helper()
	played := 0
	for _, sc := range check.Got(scenes())(t) {
		if sc.test != t.Name() {
			continue
		}
		for place := range strings.SplitSeq(sc.header("in "), ", ") {
			for way := range strings.SplitSeq(sc.header("with WAY: "), " | ") {
				t.Run(strings.Join([]string{sc.label, place, way}, "/"), func(t *testing.T) {
					got := sc.playIn(t, place, way)
					if *updateStories && !t.Failed() {
						sc.rewrite(t, got)
					}
					check.That(t, slices.Equal(got, sc.lines), "what was to happen (-) and what does (+), in %s:\n%s",
						sc.file, differences(sc.lines, got))
				})
			}
		}
		played++
	}
	check.That(t, played > 0, "there is no story %s", t.Name())
}

// header returns the rest of the line with that beginning, or "".
func (sc *scene) header(word string) string {
	for _, line := range sc.lines {
		if rest, ok := strings.CutPrefix(line, word); ok {
			return rest
		}
	}
	return ""
}

// rewrite replaces the transcript in the file.
func (sc *scene) rewrite(t *testing.T, lines []string) {
	t.Helper()
	text := string(check.Got(os.ReadFile(sc.file))(t))
	head := "## " + strings.TrimSuffix(sc.test+": "+sc.label, ": ") + "\n"
	before, after, _ := strings.Cut(text, head)
	_, after, more := strings.Cut(after, "\n## ")
	if more {
		after = "\n\n## " + after
	}
	sc.lines = lines
	check.OK(t, os.WriteFile(sc.file, []byte(before+head+strings.Join(lines, "\n")+cmp.Or(after, "\n")), 0o600))
}

// stage is where a scene is played: a server or a kit, with all actors by their names.
type stage struct {
	*world
	kit     *leadertest.Store // nil: on the server
	dialed  map[string]*client
	cast    map[string]*candidate
	cancel  map[string]context.CancelFunc // ends the context given to Campaign
	locks   map[string]*leader.Lock
	sent    map[string]int64 // requests of a client that were counted before
	clocks  map[string]*jumpy
	buckets map[string]leader.Store // in which an actor acquires locks
	olds    []*kvProcess            // of nats-kv-leader-elect
	past    leadertest.Snapshot     // of the kit

	from    time.Duration // the transcript begins
	without []string      // what contains one of these is left out of it
	untimed []string      // of what contains one of these, it has not the exact time

	noting sync.Mutex
	noted  []noted
}

// noted is what an actor has noted at a time.
type noted struct {
	at        time.Duration
	who, what string
	after     bool   // the rest of what who notes at the instant, because chance decides when
	by        string // "by ": at is not the exact time, but the next one of the script
}

// has reports whether it contains one of these.
func (n noted) has(words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(n.who+" "+n.what, word) })
}

// words returns the parts of a list in a header.
func words(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ", ")
}

// places are the buckets that a scene may be played in.
var places = map[string]func(w *world){
	"sealed": (*world).sealed, "expiring": (*world).expiring, "ordinary": (*world).ordinary, "rostered": (*world).rostered,
	"roster": (*world).rosterOf, "default": func(w *world) { w.create(leader.BucketConfig{}) }, // a lease of 15 s
	"no bucket": func(*world) {},
	"two consumers": func(w *world) { // for the key and the cordon of one client
		check.Got(w.ops.js.CreateStream(w.Context(), jetstream.StreamConfig{
			Name: "KV_E", Subjects: []string{"$KV.E.>"}, MaxMsgsPerSubject: 1, AllowDirect: true, MaxConsumers: 2,
		}))(w)
	},
	"KVElect": (*world).kvElect,
	"rostered with a TTL": func(w *world) {
		w.create(leader.BucketConfig{MaxLease: lease, TTL: lease * 3 / 2, Storage: jetstream.MemoryStorage, Roster: true})
	},
}

// kits are the options of the stores in memory that a scene may be played in. Their lease is 15 s.
var kits = map[string][]leadertest.Option{
	"kit":             nil,
	"unprotected kit": {leadertest.WithoutPurgeProtection()},
	"small kit":       {leadertest.WithMaxValue(300)},
	"slow kit":        {leadertest.WithLatency(5 * time.Millisecond)},
	"kit of 10s":      {leadertest.WithMaxLease(10 * time.Second)},
	"kit of 1m":       {leadertest.WithMaxLease(time.Minute)},
	"kit with a TTL":  {leadertest.WithTTL(time.Hour), leadertest.WithMaxLease(15 * time.Second)},
}

// playIn plays a scene in a place and returns its lines as they are to be.
func (sc *scene) playIn(t *testing.T, place, way string) (lines []string) {
	t.Helper()
	play := func(w *world, kit *leadertest.Store) {
		s := &stage{
			world: w, kit: kit, dialed: map[string]*client{}, cast: map[string]*candidate{},
			cancel: map[string]context.CancelFunc{},
			locks:  map[string]*leader.Lock{}, sent: map[string]int64{}, clocks: map[string]*jumpy{},
			buckets: map[string]leader.Store{},
		}
		s.from, _ = time.ParseDuration(sc.header("from "))
		s.without, s.untimed = words(sc.header("without ")), words(sc.header("untimed "))
		lines = s.play(sc.lines, way)
	}
	if options, ok := kits[place]; ok {
		synctest.Test(t, func(t *testing.T) {
			w := &world{T: t, zero: time.Now(), checkers: map[string]*electionChecker{}}
			play(w, leadertest.NewStore(nil, options...))
		})
		return lines
	}
	prepare := places[place]
	check.Must(t, prepare != nil, "%s: there is no place %q", sc.file, place)
	in(prepare)(t, func(w *world) { play(w, nil) })
	return lines
}

// play does what the lines say, and returns them with the transcript that belongs to them.
func (s *stage) play(lines []string, way string) (out []string) {
	s.Helper()
	for _, line := range lines {
		if beginning, ok := strings.CutPrefix(line, "begins with "); ok {
			for _, sc := range check.Got(scenes())(s) {
				if sc.test == beginning {
					s.play(sc.lines, way)
				}
			}
		}
		at, acts, _ := strings.Cut(line, ": ")
		d, err := time.ParseDuration(at)
		switch {
		case strings.HasPrefix(line, "  "):
			continue // is made anew
		case err != nil:
			out = append(out, line)
			continue
		}
		s.at(d)
		out = append(append(out, s.transcript()...), line)
		for act := range strings.SplitSeq(strings.ReplaceAll(acts, "WAY", way), "; ") {
			for race := range strings.SplitSeq(act, " & ") {
				s.act(strings.Fields(race))
			}
			synctest.Wait()
		}
	}
	return append(out, s.transcript()...)
}

// act does what an actor is to do.
func (s *stage) act(words []string) {
	s.Helper()
	if len(words) < 2 {
		return // the end
	}
	who, verb := words[0], words[1]
	do := verbs[verb]
	check.Must(s, do != nil, "%s cannot do that: %q", who, words)
	do(s, who, words[2:])
}

// note writes down what an actor does now.
func (s *stage) note(who, format string, args ...any) {
	s.put(noted{at: s.now(), who: who, what: fmt.Sprintf(format, args...)})
}

// noteLast writes down what an actor does now, at a moment of this instant that is up to chance.
func (s *stage) noteLast(who, format string, args ...any) {
	s.put(noted{at: s.now(), who: who, what: fmt.Sprintf(format, args...), after: true})
}

func (s *stage) put(n noted) {
	s.noting.Lock()
	defer s.noting.Unlock()
	s.noted = append(s.noted, n)
}

// transcript returns the lines since the last call, in the order of time. At one instant, all that one
// actor has noted is on one line.
func (s *stage) transcript() (lines []string) {
	synctest.Wait()
	var all []noted
	for _, id := range slices.Sorted(maps.Keys(s.cast)) {
		for _, line := range s.cast[id].news() {
			at, what, _ := strings.Cut(line, " ")
			all = append(all, noted{at: check.Got(time.ParseDuration(at))(s), who: id, what: what})
		}
	}
	s.noting.Lock()
	defer s.noting.Unlock()
	all = append(all, s.noted...)
	s.noted = nil
	all = slices.DeleteFunc(all, func(n noted) bool { return n.at < s.from || n.has(s.without) })
	for i, n := range all {
		if n.has(s.untimed) {
			all[i].at, all[i].by = s.now(), "by "
		}
	}
	slices.SortStableFunc(all, func(a, b noted) int {
		order := cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.by, b.by), strings.Compare(a.who, b.who))
		switch {
		case order != 0 || !a.after && !b.after:
			return order
		case a.after && b.after:
			return strings.Compare(a.what, b.what)
		case a.after:
			return 1
		}
		return -1
	})
	for i, n := range all {
		if i > 0 && all[i-1].at == n.at && all[i-1].by == n.by && all[i-1].who == n.who {
			last := &lines[len(lines)-1]
			if before, free := strings.CutSuffix(*last, "observed nobody"); free && strings.HasPrefix(n.what, "observed ") {
				*last = before + n.what // whether it sees the key free in between is up to chance
			} else {
				*last += ", " + n.what
			}
		} else {
			lines = append(lines, fmt.Sprintf("  %s%v %s %s", n.by, n.at, n.who, n.what))
		}
	}
	return lines
}
