//go:build field && unix

package schedule_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/schedule"
)

var clockDuration = flag.Duration("clocks", time.Duration(proof.Size(20, 600))*time.Second, "how long processes with wrong clocks are killed and stopped")

// workerEnv has the order of a child of TestClocks_Processes.
const workerEnv = "NATSLEADER_TEST_SCHEDULE_WORKER"

// workerOrder says what a child does.
type workerOrder struct{ URL, ID, Clock, Journal string }

func init() {
	if text := os.Getenv(workerEnv); text != "" {
		var o workerOrder
		err := json.Unmarshal([]byte(text), &o)
		if err == nil {
			err = o.run()
		}
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
}

// workerLine is a line of a journal. At is by the clock of the machine, which is the server's, too.
type workerLine struct {
	ID, Kind    string // begins, ends, or the name of a fault
	At          time.Time
	Slot, After time.Time
	Begun       bool
	Missed      []time.Time
	Skipped     string
	Least, Most int64 `json:",omitempty"`
}

// fileClock is the clock of the system, with a wall clock that is ahead by what a file says.
type fileClock struct {
	leader.Clock
	file string
}

func (c fileClock) AfterFunc(d time.Duration, f func()) leader.Timer {
	return c.Clock.(interface {
		AfterFunc(d time.Duration, f func()) leader.Timer
	}).AfterFunc(d, f)
}

func (c fileClock) Wall() time.Time {
	text, _ := os.ReadFile(c.file) // that is replaced by a rename
	ahead, _ := time.ParseDuration(strings.TrimSpace(string(text)))
	return time.Now().Add(ahead)
}

// run works each slot until the standard input is closed.
func (o workerOrder) run() error {
	journal, err := os.OpenFile(o.Journal, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	say := func(l workerLine) {
		l.ID, l.At = o.ID, time.Now()
		text, _ := json.Marshal(l)
		_, _ = journal.Write(append(text, '\n'))
	}
	nc, err := nats.Connect(o.URL, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	store, err := leader.OpenBucket(js, "E")
	if err != nil {
		return err
	}
	s, err := schedule.Campaign(context.Background(), store, "job", schedule.Every(time.Second), leader.Config{
		ID: o.ID, LeaseDuration: 3 * time.Second, Clock: fileClock{leader.SystemClock(), o.Clock}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	faults := s.Candidate().Events(context.Background(), leader.Faulted{})
	go func() {
		for e := range faults {
			if name := nameOf(e.(leader.Faulted).Err); name != "" {
				say(workerLine{Kind: name})
			}
		}
	}()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for slot := range s.Slots() {
		l := workerLine{Slot: slot.Time, After: slot.After, Begun: slot.Begun, Missed: slot.Missed, Skipped: nameOf(slot.Skipped)}
		l.Kind = "begins"
		say(l)
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) // the work
		l.Kind = "ends"
		say(l)
	}
	return s.Candidate().Err()
}

// workshop is three hosts with clocks of their own, of which one is right.
type workshop struct {
	*testing.T
	url, dir string
	hosts    []*workHost
	rng      *rand.Rand
}

type workHost struct {
	id    string
	lives int
	clock string
	proc  *testcluster.Process
}

func (w *workshop) journal(h *workHost) string { return filepath.Join(w.dir, h.id+".jsonl") }

// set sets the clock of a host.
func (w *workshop) set(h *workHost, ahead time.Duration) {
	w.Helper()
	check.OK(w.T, os.WriteFile(h.clock+".new", []byte(ahead.String()), 0o600))
	check.OK(w.T, os.Rename(h.clock+".new", h.clock))
}

// start starts the process of a host.
func (w *workshop) start(h *workHost) {
	w.Helper()
	h.lives++
	order := check.Got(json.Marshal(workerOrder{w.url, fmt.Sprint(h.id, h.lives), h.clock, w.journal(h)}))(w.T)
	h.proc = testcluster.StartTo(w.T, fmt.Sprint(h.id, h.lives), testcluster.Self(w.T, workerEnv, string(order)), filepath.Join(w.dir, h.id+".out"))
}

// lines returns what the journals have, in the order of time.
func (w *workshop) lines() (all []workerLine) {
	w.Helper()
	for _, h := range w.hosts {
		text, err := os.ReadFile(w.journal(h))
		if err != nil {
			continue
		}
		for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
			var l workerLine
			if json.Unmarshal(sc.Bytes(), &l) == nil { // or it was cut short by a kill
				all = append(all, l)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b workerLine) int { return a.At.Compare(b.At) })
	return all
}

// ended returns how many bodies have ended, and the host of the last one.
func (w *workshop) ended() (n int, last *workHost) {
	w.Helper()
	for _, l := range w.lines() {
		if l.Kind == "ends" {
			n++
			last = w.hosts[l.ID[0]-'a']
		}
	}
	return n, last
}

// Three processes, of whose hosts one has a right clock, one is 2 h ahead, and one 3 h behind by steps. Their leaders are killed
// and stopped. Each slot is new once, comes not before its time by the server, and none is untold.
func TestClocks_Processes(t *testing.T) {
	c := testcluster.New(t, testcluster.Options{Binaries: []string{""}, Connect: func(urls string) *nats.Conn {
		nc := check.Got(nats.Connect(urls, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true)))(t)
		t.Cleanup(nc.Close)
		return nc
	}})
	testcluster.Until(t, "the bucket is there", func(ctx context.Context) error {
		return check.Err(leader.CreateOrUpdateBucket(ctx, c.JS, leader.BucketConfig{Name: "E", MaxLease: 3 * time.Second}))
	})
	seed := rand.Uint64()
	w := &workshop{T: t, url: c.URLs, dir: t.TempDir(), rng: rand.New(rand.NewPCG(seed, 0))}
	for i, ahead := range []time.Duration{0, 2 * time.Hour, -3 * time.Hour} {
		h := &workHost{id: string(rune('a' + i))}
		h.clock = filepath.Join(w.dir, h.id+".clock")
		w.hosts = append(w.hosts, h)
		w.set(h, ahead)
		w.start(h)
	}
	kills, stops, steps := 0, 0, 0
	for begun := time.Now(); time.Since(begun) < *clockDuration; {
		before, _ := w.ended()
		more := 1 + w.rng.IntN(5)
		testcluster.Eventually(t, "slots are worked", func() bool {
			n, _ := w.ended()
			return n >= before+more
		})
		_, h := w.ended()
		switch w.rng.IntN(5) {
		case 0, 1:
			kills++
			h.proc.Kill()
			w.start(h)
		case 2, 3:
			stops++
			h.proc.Pause()
			resume := time.Now().Add(time.Duration(w.rng.IntN(8000)) * time.Millisecond)
			testcluster.Eventually(t, "the pause is over", func() bool { return time.Now().After(resume) })
			h.proc.Resume()
		default:
			steps++
			w.set(w.hosts[2], -3*time.Hour+time.Duration(w.rng.Int64N(int64(2*time.Minute)))-time.Minute)
		}
	}
	before, _ := w.ended()
	testcluster.Eventually(t, "slots are worked at the end", func() bool {
		n, _ := w.ended()
		return n >= before+3
	})
	for _, h := range w.hosts {
		h.proc.Kill()
	}
	w.judge(fmt.Sprintf("%d kills, %d stops, %d steps of a clock", kills, stops, steps))
}

// judge checks the journals.
func (w *workshop) judge(faults string) {
	w.Helper()
	lines := w.lines()
	fresh, told, tally := map[int64]string{}, map[int64]bool{}, map[string]int{}
	var first, last time.Time
	var early, late time.Duration
	reported := map[string]int{}
	for _, l := range lines {
		switch l.Kind {
		case "begins":
			tally["slots"]++
			if first.IsZero() {
				first = l.After
			}
			switch by, twice := fresh[l.Slot.UnixNano()]; {
			case l.Begun:
				tally["begun"]++
			case twice:
				w.Errorf("slot %v is new to %s, and was so to %s", l.Slot, l.ID, by)
			default:
				fresh[l.Slot.UnixNano()] = l.ID
			}
			tally["missed"] += len(l.Missed)
			if l.Skipped != "" {
				tally["skipped: "+l.Skipped]++
			}
			early = max(early, l.Slot.Sub(l.At))
			if len(l.Missed) == 0 && !l.Begun {
				late = max(late, l.At.Sub(l.Slot))
			}
		case "ends":
			last = l.Slot
			told[l.Slot.UnixNano()] = true
			for _, m := range l.Missed {
				told[m.UnixNano()] = true
			}
			if l.Skipped != "" || len(l.Missed) == 100 {
				first = l.Slot
			}
		default:
			reported[l.ID[:1]+": "+l.Kind]++
		}
	}
	untold := 0
	for t := schedule.Every(time.Second).Next(first); !t.After(last); t = schedule.Every(time.Second).Next(t) {
		if !told[t.UnixNano()] {
			untold++
		}
	}
	w.Logf("%s; %v; faults %v; at most %v early, %v late if none was missed", faults, tally, reported, early, late)
	check.That(w.T, untold == 0, "%d slots are untold", untold)
	check.That(w.T, early <= 3*time.Second, "a slot is %v early", early)
	check.That(w.T, reported["a: clock"] == 0, "the host with the right clock reports it")
	check.That(w.T, reported["b: clock"]+reported["c: clock"] > 0, "no host reports its clock")
}
