package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// story is a run loop in a bubble, with a candidate of a store in memory and with supervisors that
// start no command. A script says what happens, and the transcript shows what the run loop does.
type story struct {
	*testing.T
	loop    *runLoop
	store   *leadertest.Store
	link    *leadertest.Link
	signals chan os.Signal
	signs   chan struct{} // nil: without --stall
	ended   chan struct{}
	begun   time.Time

	process     *idleProcess // of the last supervisor
	immortal    atomic.Bool  // supervisors do not die when they are killed
	pids        int
	state, text string
	renewed     string // the last order with a new lease

	mu    sync.Mutex
	noted []heard
}

// heard is a line of the transcript. Lines of one instant are in the order of their kinds, because
// the goroutines that cause them are in no order.
type heard struct {
	at   time.Duration
	kind int
	text string
}

const (
	ofProcess = iota // of a supervisor
	ofPipe           // to a supervisor
	ofOrder
	ofRequest
	ofLog
	ofEnd
)

func (s *story) notef(kind int, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted = append(s.noted, heard{time.Since(s.begun), kind, fmt.Sprintf(format, args...)})
}

// Write adds lines of the log.
func (s *story) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		if _, text, found := strings.Cut(line, " natsleader: jobs: "); found { // the beginning has the time and the level
			line = strings.Fields(line)[1] + " " + text
		}
		kind := ofLog
		if strings.Contains(line, "asked to hand over") || strings.Contains(line, wire.LogAnswered) { // of the candidate's goroutine
			kind = ofRequest
		}
		s.notef(kind, "%s", strings.TrimSuffix(line, "\n"))
	}
	return len(b), nil
}

// useBubbleClock has commands and supervisors read the clock of the bubble.
func useBubbleClock(t *testing.T) {
	t.Helper()
	ClockNow = func() instant { return instant(time.Now().UnixNano()) }
	t.Cleanup(func() { ClockNow = bootTime })
}

// newStory returns a run loop that has not begun.
func newStory(t *testing.T, r *run) *story {
	t.Helper()
	useBubbleClock(t)
	if r.Globals == nil {
		r.Globals = new(front.Globals)
	}
	r.Bucket, r.election, r.id = "elections", "jobs", "a"
	s := &story{T: t, store: leadertest.NewStore(nil), signals: make(chan os.Signal), begun: time.Now(), pids: 100}
	s.link = s.store.Link("a")
	if r.stall > 0 {
		s.signs = make(chan struct{})
	}
	s.loop = &runLoop{
		run: r, log: newRunLog(s, "jobs", r.LogFormat, false), signals: s.signals, signs: s.signs, seen: inspect.SeenBucket{Name: "elections"},
		command: newCommandMetrics("elections", "jobs"), supervise: s.supervise,
	}
	expect.OK(t, s.loop.startSupervisor())
	s.loop.candidate = expect.Got(leader.Campaign(t.Context(), r.succession.of(s.link), "jobs", r.config(s.loop.log)))(t)
	id := "a"
	s.loop.log.Id.Store(&id)
	if r.wait > 0 {
		s.loop.waited = time.After(r.wait)
	}
	t.Cleanup(func() {
		s.link.Close()
		<-s.loop.candidate.Done()
		if s.immortal.Store(false); s.ended != nil {
			<-s.ended // the run ends with its candidate, when its command has not ended in time
		} else {
			s.loop.supervisor.shutDown()
		}
		s.loop.log.close()
	})
	return s
}

// supervise starts a supervisor that starts no command, as newSupervisorProcess starts one that does.
func (s *story) supervise(supervision, []string) (*supervisorProcess, error) {
	s.pids++
	o := &supervisorProcess{begun: ClockNow(), pid: s.pids, orders: make(chan []order, 1), inbox: make(chan supervisorReport, 8)}
	withPipe(s.T, &o.reports)
	p := &idleProcess{s: s, pid: s.pids}
	p.die = sync.OnceFunc(func() {
		p.dead = true
		close(o.inbox)
	})
	o.process, s.process = p, p
	s.notef(ofProcess, "supervisor %d begins", o.pid)
	go func() {
		for waiting := range o.orders {
			for _, one := range waiting {
				s.ordered(one)
			}
		}
		s.notef(ofPipe, "supervisor %d gets no more orders", o.pid)
		p.die()
	}()
	return o, nil
}

// ordered adds an order to the transcript. Of the new leases since the last step only the last is shown, without
// its time, since the run loop looks for them now and then.
func (s *story) ordered(o order) {
	text := "order " + o.Do
	if o.Token != 0 {
		text += fmt.Sprint(" ", o.Token)
	}
	if begun := instant(s.begun.UnixNano()); o.Lease.Warn != 0 {
		text += fmt.Sprintf(", stop by %v, kill by %v", o.Lease.Warn.sub(begun), o.Lease.Kill.sub(begun))
	}
	if o.Signal != 0 {
		text += " " + signalName(unix.Signal(o.Signal))
	}
	if o.Do == orderLease || o.Do == orderHold {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.renewed = text
		return
	}
	s.notef(ofOrder, "%s", text)
}

// idleProcess is the process of a supervisor that starts no command.
type idleProcess struct {
	s            *story
	pid          int
	killed, dead bool
	die          func()
}

func (p *idleProcess) Wait() (*os.ProcessState, error) { return nil, nil }

func (p *idleProcess) Signal(os.Signal) error { return nil }

func (p *idleProcess) Kill() error {
	if !p.killed {
		p.s.notef(ofProcess, "supervisor %d is killed", p.pid)
	}
	if p.killed = true; !p.s.immortal.Load() {
		p.die()
	}
	return nil
}

// tell performs a script of steps, and adds what happens to the transcript.
func (s *story) tell(script string) {
	s.Helper()
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		err := s.loop.log.outcome(s.loop.loop())
		s.loop.supervisor.shutDown()
		s.notef(ofEnd, "exit code %d", front.CodeOf(err))
	}()
	s.happened()
	for step := range strings.SplitSeq(script, ", ") {
		s.text += "> " + step + "\n"
		s.step(step)
		s.happened()
	}
}

// happened adds what has happened since it was called last.
func (s *story) happened() {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.noted, func(a, b heard) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		if a.kind != b.kind || a.kind != ofPipe {
			return a.kind - b.kind
		}
		return strings.Compare(a.text, b.text)
	})
	for _, n := range s.noted {
		s.text += fmt.Sprintf("%-9v %s\n", n.at, n.text)
	}
	if s.noted = nil; s.renewed != "" {
		s.text += fmt.Sprintf("%-9s %s\n", "", s.renewed)
		s.renewed = ""
	}
	h := s.store.Holder("jobs")
	state := strings.TrimSpace(fmt.Sprintf("%s holds the key %s", h.ID, h.Value))
	switch h.State {
	case leader.HolderForeign:
		state = "the key is foreign"
	case leader.HolderNone, leader.HolderReleased, leader.HolderExpired:
		state = "the key is free"
	case leader.HolderPending, leader.HolderLeading:
	}
	if state += fmt.Sprintf(", supervisor %d", s.loop.supervisorPID.Load()); state != s.state {
		s.text += fmt.Sprintf("%-9v %s\n", time.Since(s.begun), state)
		s.state = state
	}
}

// step performs a step of a script: some time, a signal, or what its name says.
func (s *story) step(step string) {
	s.Helper()
	words := strings.Fields(step)
	number := func() int { return expect.Got(strconv.Atoi(words[1]))(s.T) }
	report := func(b supervisorReport) {
		expect.Must(s.T, !s.process.dead, "%s: the supervisor is dead\n%s", step, s.text)
		s.loop.supervisor.inbox <- b
	}
	switch words[0] {
	case "started":
		report(supervisorReport{What: reportStarted, PID: 7})
	case "ends": // with an exit code
		report(supervisorReport{What: reportEnded, Code: number(), At: ClockNow()})
	case "stopped":
		report(supervisorReport{What: reportEnded, Code: 128 + 15, Stopped: true, At: ClockNow()})
	case "had-stopped": // so many seconds ago
		report(supervisorReport{What: reportEnded, Code: 128 + 15, Stopped: true, At: ClockNow().Add(-time.Duration(number()) * time.Second)})
	case "failed":
		report(supervisorReport{What: reportFailed, Code: front.ExitNotFound, Error: "no such command"})
	case "leaves": // a process, and ends
		report(supervisorReport{What: reportLeft, PID: 8, Error: "nginx"})
		report(supervisorReport{What: reportEnded, At: ClockNow()})
	case "unwritten":
		report(supervisorReport{What: reportLease, Error: "no space left on device"})
	case "written":
		report(supervisorReport{What: reportLease})
	case "not": // sent, because the command does not handle the signal
		report(supervisorReport{What: reportNotSent})
	case "immortal": // supervisors that are killed
		s.immortal.Store(true)
	case "sign":
		s.signs <- struct{}{}
	case "dies": // the supervisor
		s.process.die()
	case "transfer": // to the candidate that waits
		go func() { _ = s.store.StepDown("jobs") }()
	case "follower":
		c := expect.Got(leader.Campaign(s.Context(), s.store.Link("b"), "jobs", leader.Config{ID: "b"}))(s.T)
		s.Cleanup(func() { <-c.Done() })
	case "foreign": // another client overwrites the key
		s.store.Put("jobs", []byte("foreign"))
	case "cut":
		s.link.Cut()
	case "freeze":
		s.link.Freeze()
	case "restore":
		s.link.Restore()
	case "metrics":
		page := httptest.NewRecorder()
		expect.Got(answers(s.loop.candidate, s.loop.command))(s.T).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		for line := range strings.Lines(page.Body.String()) {
			if strings.HasPrefix(line, "natsleader_command_") || strings.HasPrefix(line, "natsleader_leader_info") {
				s.text += line
			}
		}
	default:
		if d, err := time.ParseDuration(step); err == nil {
			time.Sleep(d)
			return
		}
		select {
		case s.signals <- unix.SignalNum(step):
		case <-time.After(time.Minute):
			s.Fatalf("the run loop does not read %s\n%s", step, s.text)
		}
	}
}

// The run loop starts and stops a command with its leadership, and ends with it.
func TestRunLoop(t *testing.T) {
	const won, lost = unix.SIGUSR1, unix.SIGUSR2
	for _, k := range []struct {
		name   string
		run    run
		script string
	}{
		// A leader that steps down keeps the key until its command has ended, and begins again with its next term.
		{"KeepsTheKeyForItsCommand", run{drain: time.Hour}, "started, transfer, 59s, stopped, 2s, started"},
		// After the loss of its lease natsleader does not lead again before its command has ended. The lease of the
		// next term is valid at the end.
		{"NextTermAwaitsCommand", run{drain: time.Hour}, "started, cut, 13s, restore, 1s, stopped, 2s, started, SIGTERM, stopped"},
		// A leader without a running command gives up the key at once, and starts nothing after it.
		{"StepsDownBetweenStarts", run{restart: 5, Globals: &front.Globals{LogFormat: front.LogJSON}}, "follower, started, ends 3, 1s, started, ends 3, transfer, 59s"},
		// A command that fails once too often is given up, and with it the leadership.
		{"GivesUp", run{restart: 1}, "started, ends 3, metrics, 1s, started, metrics, ends 3"},
		{"SignalBetweenStarts", run{restart: 5}, "started, ends 3, SIGTERM"},
		{"JSON", run{once: true, Globals: &front.Globals{LogFormat: front.LogJSON}}, "started, cut, 3s, restore, transfer, stopped"},
		{"Delay", run{delay: 5 * time.Second}, "5s, started"},
		{"RefusesRequests", run{refuse: true, value: "http://a:8080"}, "started, transfer"},
		{"CommandSucceeds", run{restart: 5}, "started, ends 0"},
		{"CommandFails", run{}, "started, ends 3"},
		{"CommandNotFound", run{restart: 5, hold: time.Minute}, "failed, metrics"},
		{"HoldAfterSuccess", run{hold: 10 * time.Second}, "started, ends 0, 10s"},
		{"HoldAfterFailure", run{hold: 10 * time.Second}, "started, ends 3, 10s"},
		// A signal and the loss of the leadership end --hold with the outcome of the command.
		{"SignalDuringHold", run{hold: time.Hour, once: true}, "started, ends 3, 59s, SIGTERM"},
		{"LossDuringHold", run{hold: time.Hour, once: true}, "started, ends 3, 59s, transfer"},
		{"Once", run{once: true, drain: time.Hour}, "started, transfer, 59s, stopped"},
		{"OnceNotified", run{once: true, drain: time.Hour, won: won, lost: lost}, "started, transfer, 59s, stopped"},
		{"Wait", run{wait: 10 * time.Second}, "started, 59s"},
		{"WaitIsOver", run{wait: 10 * time.Second, delay: time.Hour}, "10s"},
		// The first signal stops the command, the second kills it once, and the exit code is that of the first.
		{"Signals", run{drain: time.Hour}, "started, SIGUSR1, SIGTERM, 59s, SIGINT, SIGINT, stopped"},
		{"SignalsOfNotify", run{won: won, lost: lost}, "started, SIGUSR1, SIGUSR2, SIGWINCH"},
		{"SIGHUP", run{delay: time.Hour}, "SIGHUP"},
		{"SIGQUIT", run{delay: time.Hour}, "SIGQUIT"},
		// A notified command goes on when its term is over. The key is kept for the drain.
		{"NotifiedCommandGoesOn", run{won: won, lost: lost, drain: 3 * time.Second}, "not sent, started, transfer, 2.999999999s, 1ns, 59s, ends 0"},
		{"NotifiedCommandRestarts", run{won: won, lost: lost, restart: 1, delay: time.Hour}, "started, ends 3, 1s, started, ends 3"},
		// At the end a leader waits for a server that does not answer: 5 s with a valid lease, 1 s otherwise or after a
		// second signal, and not at all after another signal.
		{"HandOverWithValidLease", run{drain: time.Hour}, "started, freeze, SIGTERM, stopped, 59s"},
		{"HandOverAfterLease", run{drain: time.Hour}, "started, freeze, 14s, SIGTERM, stopped, 59s"},
		{"HandOverAfterSecondSignal", run{drain: time.Hour}, "started, freeze, SIGTERM, SIGTERM, stopped, 59s"},
		{"SignalDuringHandOver", run{drain: time.Hour}, "started, freeze, SIGTERM, stopped, SIGWINCH, SIGTERM"},
		// A command that its supervisor has ended while the lease is valid does not end the run: the leader hands over,
		// and begins again. It logs the loss of its next term.
		{"CommandEndedByLateSupervisor", run{}, "started, stopped, 2s, started, transfer"},
		// A natsleader that was stopped itself says how long the command ran, and not when it read that.
		{"CommandEndedMeanwhile", run{drain: time.Hour}, "started, freeze, 13s, had-stopped 2"},
		// A supervisor has the drain and two seconds to stop the command. A start that it reports meanwhile and an
		// order to stop for another reason give it no more.
		{"PatienceWithStop", run{drain: 10 * time.Second}, "SIGTERM, 1s, started, transfer, 59s"},
		// A supervisor has seven seconds to start the command, however often the lease is renewed. After the third
		// that does not the run ends.
		{"LateStart", run{}, "59s"},
		{"StartInTime", run{}, "6s, started, 59s"},
		{"SupervisorDies", run{}, "started, dies"},
		// The third supervisor in a row that lives for less than a second ends the run.
		{"SupervisorsEndAtOnce", run{}, "dies, dies, 2s, dies, dies, dies, dies"},
		// No order goes to a supervisor that was killed. The next one starts the command.
		{"KilledSupervisor", run{}, "immortal, 7s, stopped, 2s, dies, started"},
		// A supervisor that starts the command just as it is killed takes the command with it.
		{"StartOfKilledSupervisor", run{}, "immortal, 7s, started, dies, 59s"},
		{"UnkillableSupervisor", run{drain: time.Hour}, "started, immortal, cut, 59s"},
		// While a leader that was asked to step down keeps the key, the supervisor learns that the command may live on.
		{"LosesKeyInDrain", run{drain: time.Hour}, "started, transfer, 2.6s, foreign, 1s, stopped"},
		{"Overwritten", run{once: true}, "started, foreign, stopped"},
		// A command that gives no sign of life in time is ended as at any loss, and begins again with the next term.
		{"Stalled", run{stall: 10 * time.Second, drain: time.Hour}, "6.1s, started, 9.999999999s, sign, 9.999999999s, 1ns, 59s, stopped, 15s, started"},
		{"StalledOnce", run{stall: 10 * time.Second, drain: time.Hour, once: true}, "started, 10s, stopped"},
		// natsleader ends a command under --notify that hangs, and itself with it.
		{"StalledNotified", run{stall: 10 * time.Second, won: won, lost: lost, drain: time.Hour}, "started, 10s, stopped"},
		// No signs are awaited between two commands, after the last, nor from a command that is being stopped.
		{"StallBetweenStarts", run{stall: time.Second, restart: 5}, "started, ends 3, 1s, started, ends 3, 2s, started, 900ms"},
		{"StallDuringHold", run{stall: time.Second, hold: time.Minute}, "started, ends 0, 1m"},
		{"StallDuringStop", run{stall: time.Second, drain: time.Hour}, "started, SIGTERM, 59s, stopped"},
		// A command whose lease is in no file that it could ask goes on for one more lease.
		{"LeaseFileIsFull", run{drain: time.Hour}, "started, unwritten, 5s, unwritten, metrics, 9.9s, written, metrics, unwritten, 14.9s, 100ms, stopped, 2s, started, unwritten, ends 0"},
		{"LeaseFileIsFullNotified", run{won: won, lost: lost, drain: time.Second}, "started, 1s, unwritten, 15.5s, unwritten, 3s, unwritten, 16s"},
		// A term that ended otherwise costs the next one nothing.
		{"LeaseFileOfTheTermBefore", run{won: won, lost: lost, drain: time.Second}, "started, unwritten, 1s, transfer, written, 59s"},
		{"LeavesADaemon", run{}, "started, leaves"},
		{"HoldsLeaseInDrain", run{drain: time.Hour}, "started, transfer, 6s, cut, 30s, dies"},
	} {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStory(t, &k.run)
				s.tell(k.script)
				testworld.CompareTranscript(t, s.text)
			})
		})
	}
}

// A candidate that was elected just before the end hands over at once.
func TestRunLoop_ElectedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, &run{drain: time.Hour})
		synctest.Wait()
		events := s.loop.candidate.Events(context.Background())
		s.loop.leave(nil)
		s.loop.handOver(events)
		expect.Equal(t, time.Since(s.begun), 0, "it took %v")
		expect.That(t, s.store.Holder("jobs").State == leader.HolderReleased, "the key is held")
	})
}

// The first outcome of a run counts. An election that comes with it starts nothing.
func TestRunLoop_FirstOutcomeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, &run{drain: time.Hour})
		first := errors.New("first")
		s.loop.leave(first)
		s.loop.leave(errors.New("second"))
		term, _ := s.loop.candidate.Term()
		s.loop.elected(term)
		expect.Is(t, s.loop.outcome, first)
		expect.That(t, s.loop.current == nil, "it starts %+v", s.loop.current)
	})
}

// The outcome of --wait has the fault of the candidate, unless the candidate has read the key since.
func TestRunLoop_WaitNamesTheFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, &run{wait: 10 * time.Second})
		s.loop.handleEvent(leader.Faulted{Err: leader.ErrPermission})
		err := s.loop.waitedTooLong()
		expect.Says(t, err, leader.ErrPermission, "10s (--wait)")
		expect.Equal(t, front.CodeOf(err), front.ExitDenied, "with the fault: exit code %d")
		s.loop.handleEvent(leader.Observed{})
		err = s.loop.waitedTooLong()
		expect.That(t, front.CodeOf(err) == front.ExitWaited && !errors.Is(err, leader.ErrPermission), "after the fault: %v", err)
	})
}

// With --try the store may not show in time which candidate leads. That is another outcome than that another one leads, whatever
// code the user has given that one.
func TestRunLoop_TryIsUndecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, &run{try: true})
		err := s.loop.waitedTooLong()
		expect.That(t, front.CodeOf(err) == front.ExitUnreachable, "%v: exit code %d", err, front.CodeOf(err))
		s.loop.handleEvent(leader.Faulted{Err: leader.ErrPermission})
		err = s.loop.waitedTooLong()
		expect.Says(t, err, leader.ErrPermission, "(--try)")
		expect.Equal(t, front.CodeOf(err), front.ExitDenied, "with the fault: exit code %d; want %d")
		err = s.loop.taken(leader.Holder{ID: "b"})
		expect.Equal(t, front.CodeOf(err), 0, "another leads: exit code %d; want %d") // as given
	})
}
