package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// loopFixture is a run loop in a bubble, with a candidate of a store in memory. The test is its
// supervisor, so no command runs.
type loopFixture struct {
	*testing.T
	loop    *runLoop
	store   *leadertest.Store
	link    *leadertest.Link
	signals chan os.Signal
	said    lockedText
	ended   chan error
	begun   time.Time
	token   uint64 // of the last order to start
}

type lockedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// inLoop runs a test with a run loop.
func inLoop(t *testing.T, r *run, do func(*loopFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newLoopFixture(t, r)
		go func() { f.ended <- f.loop.loop() }()
		synctest.Wait()
		do(f)
	})
}

// newLoopFixture returns a run loop that has not begun.
func newLoopFixture(t *testing.T, r *run) *loopFixture {
	t.Helper()
	r.globals, r.election, r.id = &globals{bucket: "elections"}, "jobs", "a"
	f := &loopFixture{T: t, store: leadertest.NewStore(nil), signals: make(chan os.Signal), ended: make(chan error, 1), begun: time.Now()}
	f.link = f.store.Link("a")
	f.loop = &runLoop{
		run: r, log: newRunLog(&f.said, "jobs", r.logFormat, false), signals: f.signals, seen: seenBucket{name: "elections"},
		supervisor: &supervisorProcess{begun: clockNow(), orders: make(chan []order, 1), inbox: make(chan supervisorReport, 8)},
	}
	var err error
	f.loop.candidate, err = leader.Campaign(t.Context(), f.link, "jobs", r.config(f.loop.log))
	expect.OK(t, err)
	if r.wait > 0 {
		f.loop.waited = time.After(r.wait)
	}
	t.Cleanup(func() {
		f.link.Close() // the run ends with its candidate, and with its command
		<-f.loop.candidate.Done()
		synctest.Wait()
		f.loop.supervisor.inbox <- supervisorReport{What: reportEnded}
		synctest.Wait()
		f.loop.log.close()
	})
	return f
}

// takes fails unless these orders wait for the supervisor, apart from renewals of the lease.
func (f *loopFixture) takes(want ...string) {
	f.Helper()
	synctest.Wait()
	var got []string
	select {
	case waiting := <-f.loop.supervisor.orders:
		for _, o := range waiting {
			if o.Do == orderStart {
				f.token = o.Token
			}
			if o.Do != orderLease && o.Do != orderHold {
				got = append(got, o.Do)
			}
		}
	default:
	}
	expect.That(f.T, slices.Equal(got, want), "%v: orders %q, want %q", time.Since(f.begun), got, want)
}

// reports sends a report of the supervisor.
func (f *loopFixture) reports(b supervisorReport) {
	f.Helper()
	f.loop.supervisor.inbox <- b
	synctest.Wait()
}

// starts starts the command.
func (f *loopFixture) starts() {
	f.Helper()
	f.takes(orderStart)
	f.reports(supervisorReport{What: reportStarted, PID: 7})
}

func (f *loopFixture) signal(sig unix.Signal) {
	f.Helper()
	select {
	case f.signals <- sig:
		synctest.Wait()
	case <-time.After(time.Minute):
		f.Fatalf("nobody takes %v", sig)
	}
}

// stepDown asks the leader to hand over. It does not wait until it has.
func (f *loopFixture) stepDown() {
	f.Helper()
	go func() { _ = f.store.StepDown("jobs") }()
	synctest.Wait()
}

// keeps fails unless the key is held, or is not.
func (f *loopFixture) keeps(want bool) {
	f.Helper()
	synctest.Wait()
	h := f.store.Holder("jobs")
	expect.That(f.T, (h.ID == "a" && !h.Released) == want, "%v: the key is held: %t, %+v", time.Since(f.begun), !want, h)
}

// goesOn fails if the run has ended.
func (f *loopFixture) goesOn() {
	f.Helper()
	synctest.Wait()
	select {
	case err := <-f.ended:
		f.Fatalf("%v: the run has ended: %v\n%s", time.Since(f.begun), err, f.text())
	default:
	}
}

// ends fails unless the run ends with an exit code after a time.
func (f *loopFixture) ends(code int, after time.Duration) {
	f.Helper()
	begun := time.Now()
	select {
	case err := <-f.ended:
		if took := time.Since(begun); codeOf(err) != code || took != after {
			f.Errorf("ended with %d after %v, want %d after %v: %v", codeOf(err), took, code, after, err)
		}
	case <-time.After(time.Hour):
		f.Fatalf("the run goes on\n%s", f.text())
	}
}

func (f *loopFixture) text() string {
	synctest.Wait()
	f.said.mu.Lock()
	defer f.said.mu.Unlock()
	return f.said.text.String()
}

// saysOnce fails unless each text is once in the log.
func (f *loopFixture) saysOnce(texts ...string) {
	f.Helper()
	said := f.text()
	for _, text := range texts {
		expect.That(f.T, strings.Count(said, text) == 1, "not once: %s\n%s", text, said)
	}
}

// follows starts another candidate, which leads when a hands over.
func (f *loopFixture) follows() {
	f.Helper()
	c := expect.Got(leader.Campaign(f.Context(), f.store.Link("b"), "jobs", leader.Config{ID: "b"}))(f.T)
	f.Cleanup(func() { <-c.Done() })
	synctest.Wait()
}

var (
	commandEnded   = supervisorReport{What: reportEnded}
	commandFailed  = supervisorReport{What: reportEnded, Code: 3}
	commandStopped = supervisorReport{What: reportEnded, Code: 128 + 15, Stopped: true}
)

// A leader that steps down keeps the key until its command has ended, and then begins again
// with its next term.
func TestRunLoop_KeepsTheKeyForItsCommand(t *testing.T) {
	inLoop(t, &run{drain: time.Hour}, func(f *loopFixture) {
		f.starts()
		first := f.token
		f.stepDown()
		f.takes(orderLost, orderStop)
		time.Sleep(time.Minute)
		f.takes()
		h := f.store.Holder("jobs")
		expect.That(t, h.ID == "a" && !h.Released && h.Token == first, "the key is not kept: %+v", h)
		f.reports(commandStopped)
		f.keeps(false)
		time.Sleep(time.Minute)
		f.starts()
		expect.That(t, f.token > first, "token %d after %d", f.token, first)
		f.goesOn()
	})
}

// After the loss of its lease natsleader does not lead again before its command has ended. The next
// command begins with the next term, whose lease is valid at the end.
func TestRunLoop_NextTermAwaitsCommand(t *testing.T) {
	inLoop(t, &run{drain: time.Hour}, func(f *loopFixture) {
		f.starts()
		first := f.token
		f.link.Cut()
		time.Sleep(20 * time.Second)
		f.takes(orderLost, orderStop)
		f.link.Restore()
		time.Sleep(time.Minute)
		f.takes()
		expect.That(t, strings.Count(f.text(), "elected") == 1, "elected before its command has ended:\n%s", f.text())
		f.reports(commandStopped)
		time.Sleep(time.Minute)
		f.starts()
		expect.That(t, f.token > first, "token %d after %d", f.token, first)
		f.goesOn()
		f.signal(unix.SIGTERM)
		f.reports(commandStopped)
		f.ends(128+15, 0)
		f.saysOnce("handed over")
	})
}

// A leader without a running command gives up the key at once, and starts nothing after it.
func TestRunLoop_StepsDownBetweenStarts(t *testing.T) {
	inLoop(t, &run{drain: time.Hour, restart: 5, logFormat: logJSON}, func(f *loopFixture) {
		f.follows()
		f.starts()
		f.reports(commandFailed)
		f.takes()
		f.keeps(true)
		time.Sleep(firstRestart - 1)
		f.takes()
		time.Sleep(time.Nanosecond)
		f.starts()
		f.reports(commandFailed)
		f.saysOnce(`"failures":1,"pause_seconds":1}`, `"failures":2,"pause_seconds":2}`)
		f.stepDown()
		f.keeps(false)
		time.Sleep(time.Minute)
		f.takes()
		f.goesOn()
	})
}

// A command that fails once too often is given up, and with it the leadership. Each start has the token of the
// term.
func TestRunLoop_GivesUp(t *testing.T) {
	inLoop(t, &run{restart: 1}, func(f *loopFixture) {
		f.starts()
		first := f.token
		f.reports(commandFailed)
		time.Sleep(firstRestart)
		f.starts()
		f.reports(commandFailed)
		f.ends(3, 0)
		f.keeps(false)
		expect.Equal(t, f.token, first, "the second start has token %d")
		f.saysOnce("failure 1 of 2 in a row: starting the command again in 1s",
			"failure 2 of 2 in a row: giving up the leadership", "handed over")
	})
}

// --delay is the time from winning to leading.
func TestRunLoop_Delay(t *testing.T) {
	inLoop(t, &run{delay: 5 * time.Second}, func(f *loopFixture) {
		time.Sleep(5*time.Second - 1)
		f.takes()
		time.Sleep(time.Nanosecond)
		f.starts()
		f.saysOnce("won; leads in 5s")
	})
}

// A leader may refuse step-down requests. Its value is in the record.
func TestRunLoop_RefusesRequests(t *testing.T) {
	inLoop(t, &run{refuse: true, value: "http://a:8080"}, func(f *loopFixture) {
		f.starts()
		expect.OK(t, f.store.StepDown("jobs"))
		f.keeps(true)
		f.saysOnce("asked to hand over by leadertest: refused")
		expect.Equal(t, string(f.store.Holder("jobs").Value), "http://a:8080", "the value is %q")
		f.takes()
	})
}

// A signal ends a run between two starts at once.
func TestRunLoop_SignalBetweenStarts(t *testing.T) {
	inLoop(t, &run{drain: time.Hour, restart: 5}, func(f *loopFixture) {
		f.starts()
		f.reports(commandFailed)
		f.signal(unix.SIGTERM)
		f.ends(128+15, 0)
		f.keeps(false)
		f.takes()
	})
}

// A command is started again only if it has failed, while it leads and within the bound.
func TestRunLoop_EndsWithCommand(t *testing.T) {
	for name, k := range map[string]struct {
		conf  run
		end   supervisorReport
		code  int
		after time.Duration
	}{
		"it ends well":           {run{restart: 5}, commandEnded, 0, 0},
		"it fails":               {run{}, commandFailed, 3, 0},
		"it ends well, and hold": {run{hold: 10 * time.Second}, commandEnded, 0, 10 * time.Second},
		"it fails, and hold":     {run{hold: 10 * time.Second}, commandFailed, 3, 10 * time.Second},
		"it cannot be run":       {run{restart: 5, hold: time.Minute}, supervisorReport{What: reportFailed, Code: exitNotFound, Error: "no"}, exitNotFound, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, &k.conf, func(f *loopFixture) {
				f.takes(orderStart)
				if k.end.What == reportEnded {
					f.reports(supervisorReport{What: reportStarted, PID: 7})
				}
				f.reports(k.end)
				f.keeps(k.after > 0)
				f.ends(k.code, k.after)
				f.keeps(false)
				f.takes()
				said := f.text()
				expect.That(t, !strings.Contains(said, "in a row"), "it has said:\n%s", said)
			})
		})
	}
}

// A command that the supervisor has ended while the lease is valid is not the end of the run: the
// leader hands over, and begins again. It logs the loss of its next term.
func TestRunLoop_CommandEndedByLateSupervisor(t *testing.T) {
	inLoop(t, &run{}, func(f *loopFixture) {
		f.starts()
		f.reports(commandStopped)
		f.keeps(false)
		f.goesOn()
		if said := f.text(); !strings.Contains(said, "its supervisor was held up; handing over") || strings.Contains(said, "lost: ") {
			t.Errorf("it has said:\n%s", said)
		}
		time.Sleep(time.Minute)
		f.starts()
		f.stepDown()
		f.takes(orderLost, orderStop)
		if said := f.text(); strings.Count(said, "lost: resigned") != 1 {
			t.Errorf("it has said:\n%s", said)
		}
	})
}

// While --hold goes on, a signal and the loss of the leadership end the run with the outcome of
// the command.
func TestRunLoop_HoldEndsWithOutcome(t *testing.T) {
	for name, do := range map[string]func(*loopFixture){
		"a signal": func(f *loopFixture) { f.signal(unix.SIGTERM) },
		"the loss": func(f *loopFixture) { f.stepDown() },
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, &run{hold: time.Hour, once: true}, func(f *loopFixture) {
				f.starts()
				f.reports(commandFailed)
				time.Sleep(time.Minute)
				do(f)
				f.ends(3, 0)
				f.keeps(false)
			})
		})
	}
}

// With --once the run ends with the first term, when the command has ended, also one that is notified.
func TestRunLoop_Once(t *testing.T) {
	for _, r := range []*run{{}, {won: unix.SIGUSR1, lost: unix.SIGUSR2}} {
		r.once, r.drain = true, time.Hour
		inLoop(t, r, func(f *loopFixture) {
			f.starts()
			f.stepDown()
			f.takes(orderLost, orderStop)
			time.Sleep(time.Minute)
			f.goesOn()
			f.reports(commandStopped)
			f.ends(exitLost, 0)
		})
	}
}

// --wait ends a run that has not led by then, and no other.
func TestRunLoop_Wait(t *testing.T) {
	inLoop(t, &run{wait: 10 * time.Second}, func(f *loopFixture) {
		f.starts()
		time.Sleep(time.Minute)
		f.goesOn()
		f.takes()
	})
}

// The outcome of --wait has the fault of the candidate, unless the candidate has read the key since.
func TestRunLoop_WaitNamesTheFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLoopFixture(t, &run{wait: 10 * time.Second})
		f.loop.handleEvent(leader.Faulted{Err: leader.ErrPermission})
		err := f.loop.waitedTooLong()
		expect.Says(t, err, leader.ErrPermission, "--wait 10s")
		expect.Equal(t, codeOf(err), exitDenied, "with the fault: exit code %d")
		f.loop.handleEvent(leader.Observed{})
		if err := f.loop.waitedTooLong(); codeOf(err) != exitWaited || errors.Is(err, leader.ErrPermission) {
			t.Errorf("after the fault: %d, %v", codeOf(err), err)
		}
	})
}

// The first signal stops the command, the second kills it once, and the exit code is that of the
// first. Other signals go to the command, except for those that natsleader itself sends to it.
func TestRunLoop_Signals(t *testing.T) {
	inLoop(t, &run{drain: time.Hour}, func(f *loopFixture) {
		f.starts()
		f.signal(unix.SIGUSR1)
		f.takes(orderSignal)
		f.signal(unix.SIGTERM)
		f.takes(orderStop)
		time.Sleep(time.Minute)
		f.keeps(true)
		f.signal(unix.SIGINT)
		f.takes(orderKill)
		f.signal(unix.SIGINT)
		f.takes()
		f.goesOn()
		f.reports(commandStopped)
		f.ends(128+15, 0)
		f.keeps(false)
	})
	inLoop(t, &run{won: unix.SIGUSR1, lost: unix.SIGUSR2}, func(f *loopFixture) {
		f.starts()
		f.signal(unix.SIGUSR1)
		f.signal(unix.SIGUSR2)
		f.takes()
		f.signal(unix.SIGWINCH)
		f.takes(orderSignal)
	})
}

// A notified command goes on when the term is over. The key is kept for the drain.
func TestRunLoop_NotifiedCommandGoesOn(t *testing.T) {
	inLoop(t, &run{won: unix.SIGUSR1, lost: unix.SIGUSR2, drain: 3 * time.Second}, func(f *loopFixture) {
		f.starts()
		f.stepDown()
		f.takes(orderLost)
		time.Sleep(3*time.Second - 1)
		f.keeps(true)
		time.Sleep(time.Nanosecond)
		f.keeps(false)
		time.Sleep(time.Minute)
		f.takes()
		f.goesOn()
		f.reports(commandEnded)
		f.ends(0, 0)
	})
}

// At the end a leader waits for a server that does not answer: 5 s with a lease that is valid, 1 s
// otherwise, and not at all after another signal.
func TestRunLoop_HandOverIsBounded(t *testing.T) {
	for name, k := range map[string]struct {
		frozen time.Duration // before the signal
		hurry  bool
		after  time.Duration
		says   bool
	}{
		"the lease is valid": {0, false, 5 * time.Second, true},
		"the lease is over":  {20 * time.Second, false, time.Second, false},
		"a second signal":    {0, true, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, &run{drain: time.Hour}, func(f *loopFixture) {
				f.starts()
				f.link.Freeze()
				time.Sleep(k.frozen)
				f.signal(unix.SIGTERM)
				if k.hurry {
					f.signal(unix.SIGTERM)
				}
				f.reports(commandStopped)
				f.ends(128+15, k.after)
				said := f.text()
				expect.That(t, strings.Contains(said, "not handed over: the server does not answer") == k.says,
					"it has said:\n%s", said)
			})
		})
	}
	inLoop(t, &run{drain: time.Hour}, func(f *loopFixture) {
		f.starts()
		f.link.Freeze()
		f.signal(unix.SIGTERM)
		f.reports(commandStopped)
		f.signal(unix.SIGWINCH)
		f.goesOn()
		f.signal(unix.SIGTERM)
		f.ends(128+15, 0)
	})
}

// A candidate that was elected just before the end hands over at once.
func TestRunLoop_ElectedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLoopFixture(t, &run{drain: time.Hour})
		synctest.Wait()
		f.keeps(true)
		events := f.loop.candidate.Events(context.Background())
		f.loop.leave(nil)
		f.loop.handOver(events)
		took := time.Since(f.begun)
		expect.That(t, took == 0, "it took %v", took)
		f.keeps(false)
	})
}

// The first outcome of a run counts. An election that comes with it starts nothing.
func TestRunLoop_FirstOutcomeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLoopFixture(t, &run{drain: time.Hour})
		first := errors.New("first")
		f.loop.leave(first)
		f.loop.leave(errors.New("second"))
		term, _ := f.loop.candidate.Term()
		if f.loop.elected(term); f.loop.outcome != first || f.loop.current != nil { //nolint:errorlint // itself
			t.Errorf("%v, %+v", f.loop.outcome, f.loop.current)
		}
		f.takes()
	})
}

// A supervisor has the drain and two seconds to stop the command. A start that it reports
// meanwhile gives it no more.
func TestRunLoop_PatienceWithStop(t *testing.T) {
	c := &runLoop{run: &run{drain: 10 * time.Second}, log: newRunLog(new(lockedText), "jobs", logText, false), supervisor: &supervisorProcess{orders: make(chan []order, 1)}, current: &commandRun{}}
	defer c.log.close()
	before := clockNow()
	c.stop()
	by := c.current.answerBy
	expect.That(t, by >= before.add(12*time.Second) && by <= clockNow().add(12*time.Second),
		"an answer is due in %v", by.sub(before))
	c.stop()
	c.handleReport(supervisorReport{What: reportStarted, PID: 7})
	expect.That(t, c.current.answerBy == by, "an answer is due in %v", c.current.answerBy.sub(before))
	n := len(<-c.supervisor.orders)
	expect.That(t, n == 1, "%d orders", n)
}

// A supervisor that was at work for more than a second before it died does not count as one that ends as
// soon as it begins. The third of those in a row ends the run.
func TestSupervisorExited_LongLivedDoesNotCount(t *testing.T) {
	c := &runLoop{
		run:  &run{argv: []string{"true"}},
		conf: supervision{LeaseFile: []byte(filepath.Join(t.TempDir(), "lease", "lease"))},
		log:  newRunLog(new(lockedText), "jobs", logText, false), supervisor: &supervisorProcess{},
	}
	defer c.log.close()
	expect.OK(t, c.startSupervisor())
	defer func() { endSupervisor(c.supervisor) }()
	exits := func(lived time.Duration) {
		t.Helper()
		before := c.supervisor
		expect.Must(t, before.orders != nil, "no other was started: %v", c.outcome)
		before.begun = clockNow().add(-lived)
		c.supervisorExited()
		select {
		case <-before.orders: // closed
		default:
			t.Fatal("the one before still gets orders")
		}
		expect.That(t, c.leaving || int64(c.supervisor.process.Pid) == c.supervisorPID.Load(),
			"the process that is not reaped is another")
	}
	for range 2 {
		exits(-time.Hour) // it begins later: so much time may pass in this test
	}
	exits(2 * time.Second)
	expect.Must(t, !c.leaving && c.useless == 0, "%d were of no use: %v", c.useless, c.outcome)
	for range 2 {
		exits(-time.Hour)
		expect.Must(t, !c.leaving, "%d were of no use: %v", c.useless, c.outcome)
	}
	if exits(-time.Hour); !c.leaving || !strings.HasPrefix(c.outcome.Error(), "the supervising process ends as soon as it begins: ") {
		t.Errorf("leaving: %t, %v", c.leaving, c.outcome)
	}
}
