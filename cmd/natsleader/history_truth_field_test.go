//go:build field && linux

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/history"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// truthEnv is for how long faults happen in TestHistory_TellsTheTruth, at least: 5m. It is a minute without it.
const truthEnv = "NATSLEADER_TEST_TRUTH"

// beat is a line of a command: it runs, and for which leader.
type beat struct {
	at    time.Time
	id    string
	token uint64
}

// truthFixture has three servers, and three `natsleader run` whose commands write a beat each tenth of a second, by the
// clock that the servers have, too.
type truthFixture struct {
	*runFixture
	trio *trio
	runs map[string]*runProcess
}

func (f *truthFixture) run(id string) {
	f.runs[id] = f.start(id, "--retry-connect", "--roster", "--", f.script("beat", `trap 'exit 0' TERM
while :; do
	echo "$(date +%s.%N) $NATSLEADER_ID $NATSLEADER_TOKEN" >>`+f.dir+`/beats
	sleep 0.1
done
`))
}

// beats returns what the commands have written, in the order of time.
func (f *truthFixture) beats() (beats []beat) {
	text, _ := os.ReadFile(filepath.Join(f.dir, "beats")) // none yet
	for line := range strings.Lines(string(text)) {
		var at float64
		var b beat
		if n, _ := fmt.Sscan(line, &at, &b.id, &b.token); n == 3 {
			b.at = time.Unix(0, int64(at*1e9))
			beats = append(beats, b)
		}
	}
	slices.SortStableFunc(beats, func(a, b beat) int { return a.at.Compare(b.at) })
	return beats
}

// last returns the candidate whose command has written the newest beat.
func (f *truthFixture) last() *runProcess {
	beats := f.beats()
	return f.runs[beats[len(beats)-1].id]
}

// command runs natsleader, which may fail, and returns what it prints.
func (f *truthFixture) command(args ...string) string {
	out, errs, _ := outcome(f.T, natsleader(f.T, append(args, "--server", f.url)...))
	f.logf("natsleader %s: %s", strings.Join(args, " "), errs)
	return out
}

func (f *truthFixture) logf(format string, args ...any) {
	f.Logf("%s "+format, append([]any{clockText(time.Now())}, args...)...)
}

func clockText(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// within pauses for no longer than that.
func within(most time.Duration) { time.Sleep(rand.N(most)) }

// faults are what happens to the servers and to the candidates.
func (f *truthFixture) faults() []func() {
	return []func(){
		func() { // terms of some seconds
			for _, n := range rand.Perm(3) {
				f.command("step-down", "jobs", "--to", string(rune('a'+n)), "--wait", "5s")
				within(4 * time.Second)
			}
		},
		func() { f.command("step-down", "jobs", "--wait", "5s") },
		func() { f.command("step-down", "jobs", "--force", "--yes") },
		func() {
			s := f.trio.servers[rand.N(3)]
			f.logf("%s ends in order", s.name)
			_ = s.cmd.Process.Signal(syscall.SIGTERM)
			within(2 * time.Second)
			s.kill()
			s.start()
		},
		func() {
			s := f.trio.servers[rand.N(3)]
			f.logf("%s is killed", s.name)
			s.kill()
			within(8 * time.Second)
			s.start()
		},
		func() { // the quorum is lost
			f.logf("two servers are killed")
			lost := rand.Perm(3)[:2]
			for _, n := range lost {
				f.trio.servers[n].kill()
			}
			within(20 * time.Second)
			for _, n := range lost {
				f.trio.servers[n].start()
			}
		},
		func() {
			p := f.last()
			f.logf("%s is killed", p.id)
			_ = p.cmd.Process.Kill()
			<-p.ended
			f.run(p.id)
		},
		func() {
			p := f.last()
			f.logf("%s is frozen", p.id)
			p.signal(syscall.SIGSTOP)
			within(20 * time.Second)
			p.signal(syscall.SIGCONT)
		},
	}
}

// history tells no wrong leader for any second, whatever happens to servers and candidates. What it does not know, it says.
func TestHistory_TellsTheTruth(t *testing.T) {
	t.Parallel()
	period, err := time.ParseDuration(cmp.Or(os.Getenv(truthEnv), "1m"))
	expect.OK(t, err)
	trio := startTrio(t, "")
	f := &truthFixture{&runFixture{T: t, url: trio.url("admin"), dir: t.TempDir()}, trio, make(map[string]*runProcess)}
	trio.makes(leader.BucketConfig{Name: "elections"})
	testworld.Eventually(t, "there is a history", func() bool { return strings.Contains(f.command("bucket", "add", "--roster", "--history", "1h"), "1h") })
	stands(t, f.url, "other", leader.Config{})
	recorded(t, f.url, "other", 1)
	for _, id := range []string{"a", "b", "c"} {
		f.run(id)
	}
	testworld.Eventually(t, "a command runs", func() bool { return len(f.beats()) > 0 })

	var lines []history.Timeline
	read := func() bool {
		var line history.Timeline
		known := json.Unmarshal([]byte(f.command("history", "jobs", "--since", "all", "--json")), &line) == nil
		if line.End = time.Now(); known {
			lines = append(lines, line)
		}
		return known
	}
	for begin := time.Now(); time.Since(begin) < period; {
		all := f.faults()
		for _, n := range rand.Perm(len(all)) {
			all[n]()
			within(8 * time.Second)
			read()
		}
	}
	testworld.Eventually(t, "the history is read", read)
	time.Sleep(period / 2) // it follows the bucket
	testworld.Eventually(t, "the history is read once more", read)
	for _, line := range lines {
		f.compare(line)
	}
	if line := lines[len(lines)-1]; t.Failed() {
		t.Logf("\n%s", strings.Join(front.Columns(line.Table(time.Now())), "\n"))
	}
	f.compareMoments(lines[len(lines)-1])
}

// compare fails the test for each second for which the time line has a wrong leader. A beat shows who leads until the next
// one, unless that is another's, or much later. The leader goes on until it hears that its key was deleted.
func (f *truthFixture) compare(line history.Timeline) {
	f.Helper()
	beats := f.beats()
	seconds, unknown := 0, 0
	for at := beats[0].at.Add(time.Second); at.Before(line.End); at = at.Add(time.Second) {
		n, _ := slices.BinarySearchFunc(beats, at, func(b beat, at time.Time) int { return b.at.Compare(at) })
		if n == len(beats) {
			break
		}
		before, after, x := beats[n-1], beats[n], line.At(at)
		leads := before.token == after.token && after.at.Sub(before.at) < 3*time.Second
		seconds++
		switch {
		case x.State == history.StateUnknown || x.State == "":
			unknown++
		case x.State == facts.Deleted && at.Sub(x.Since) < 2*time.Second:
		case x.State != facts.Leading:
			expect.That(f.T, !leads, "at %s %s leads, and the history read at %s has %+v", clockText(at), before.id, clockText(line.End), x)
		case x.Token == before.token && x.ID == before.id:
		default:
			expect.That(f.T, !leads && x.Token == after.token && x.ID == after.id,
				"at %s %s leads, and the history read at %s has %+v", clockText(at), before.id, clockText(line.End), x)
		}
	}
	f.Logf("read at %s: of %d s %d s are not known", clockText(line.End), seconds, unknown)
}

// compareMoments fails the test unless --at says what the time line has, or that it is not known: after an outage it may
// read a replica that lags.
func (f *truthFixture) compareMoments(line history.Timeline) {
	f.Helper()
	const moments = 60
	begin, unknown := f.beats()[0].at, 0
	for n := range moments {
		at := begin.Add(time.Duration(n) * line.End.Sub(begin) / moments)
		var x history.Span
		testworld.Eventually(f.T, "history --at is answered", func() bool {
			out, _, _ := outcome(f.T, natsleader(f.T, "history", "jobs", "--json", "--at", at.Format(time.RFC3339Nano), "--server", f.url))
			return json.Unmarshal([]byte(out), &x) == nil
		})
		want := line.At(at)
		if want.Until.IsZero() {
			want.Until, want.Ended, want.Renewed = x.Until, x.Ended, x.Renewed // it has gone on
		}
		if x != want && (x.State == history.StateUnknown || x.State == "") {
			unknown++
			continue
		}
		expect.That(f.T, x == want, "--at %s has %+v, and --since all %+v", clockText(at), x, want)
	}
	f.Logf("%d of %d --at do not know what --since all knows", unknown, moments)
}
