//go:build unix

// Package run has the commands that stand in an election, and the supervisor of what they run.
package run

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/choria-io/fisk"
	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/kvelect"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// usualDrain is the default of --drain. The command has ended, and the key is handed over, within the 10 s that `docker stop` waits.
const usualDrain = 8 * time.Second

const runHelp = `Stands in the election, and runs the command whenever it leads, and only then.

When the leadership ends, the command's process group gets the stop signal, and
what is left of it SIGKILL: after --drain, and in any case before the lease could
belong to another candidate. Then it stands again. When the command ends by itself, what it
has started is ended, too, the leadership is handed over, and its exit code is that
of natsleader. So let a daemon run in the foreground.

The command finds in its environment NATSLEADER_ELECTION, NATSLEADER_BUCKET,
NATSLEADER_ID, NATSLEADER_TOKEN (the fencing token, greater than that of every
earlier leader), and NATSLEADER_LEASE_FILE: 'natsleader remaining' shows for how
long the lease is valid. If that file cannot be written for one lease, the leadership is
handed over.

  natsleader run billing -- ./worker --fast
  natsleader run billing --stall 30s -- ./worker-that-gives-signs-of-life
  natsleader run nightly --try --hold 10m --shell -- './report && ./mail'
  natsleader run proxy --notify USR1,USR2 -- ./proxy
  natsleader run billing --succession queue -- ./worker
  natsleader run maintenance --no-command --wait 1m

With --try the run ends if another candidate leads: once for all hosts that start
it at about the same time, if --hold is longer than their times are apart. If the host that leads
dies meanwhile, another one may run the command again.

With --restart a run of a minute or longer, and a new term, begin a new row of failures.
A command that ends with exit code 0 is not started again.

With --stall the command has to give signs of life, as a service of systemd
with WatchdogSec does: it sends WATCHDOG=1 to the socket in NOTIFY_SOCKET. If none
comes for that long, the command is ended as at any loss, and another leads. Before it
leads again, this candidate waits for one lease; with --notify it ends. No sign is
expected during --hold and after the stop signal.

With --notify the command is started at once, and not ended with the leadership. The
signals go to the command itself, not to its group. The first one waits while the command
does not handle it and would die of it (Linux). A line says so. On other systems choose
signals that end no process, such as WINCH and URG. The lease file shows the
leadership in any case.

With --no-command it prints the fencing token when it leads, and keeps the leadership
until a signal ends it. The caller ends what depends on the lease. When the leadership
is lost, it ends with exit code 79.

SIGINT, SIGTERM, SIGHUP and SIGQUIT end the command and hand over, a second one
at once. SIGUSR1, SIGUSR2 and SIGWINCH go on to the command's group. The command
has no controlling terminal: it cannot ask for a password at /dev/tty.

Exit codes: the command's own, or

     1  anything not listed here
    64  usage
    69  NATS cannot be reached, or does not show in time which candidate leads (--try),
        or another process uses the address of --http
    75  another candidate leads, with --try (--busy-exit-code)
    77  a permission is missing, also when --wait is over
    78  the bucket does not exist, is not fit, or keeps no roster that is needed
    79  leadership lost, with --once or --no-command
   124  --wait is over
   126  the command cannot be run
   127  the command was not found
   128+n  natsleader, or the command, was ended by signal n`

// run holds the arguments of `natsleader run`.
type run struct {
	*front.Globals
	election string
	argv     []string

	id, value    string
	lease, delay time.Duration
	drain, wait  time.Duration
	stall        time.Duration
	waitGiven    bool
	stopName     string
	notifyNames  string
	http         string
	once, quiet  bool
	refuse       bool
	succession   succession
	holder       bool // without a command

	try, retryConnect bool
	busyCode          int
	busyGiven         bool
	hold              time.Duration
	restart           int
	shell             bool
	credentials       bool

	stopSignal unix.Signal
	won, lost  unix.Signal // 0: the command is started and ended
}

// RegisterRun adds the command run.
func RegisterRun(app *fisk.Application, g *front.Globals) {
	r := &run{Globals: g}
	cmd := app.Command("run", "Run a command while leading").HelpLong(runHelp)
	cmd.Arg("election", "Election to stand in").Required().HintAction(func() []string { return inspect.ElectionNames(r.Globals) }).StringVar(&r.election)
	cmd.Arg("command", "Command and its arguments").PlaceHolder("-- <command>").StringsVar(&r.argv)
	cmd.Flag("lease", "How long others wait after the last renewal, at least 50ms; by default what the bucket says").PlaceHolder("DURATION").DurationVar(&r.lease)
	cmd.Flag("id", "What others see; by default host, process and a random part").PlaceHolder("ID").StringVar(&r.id)
	cmd.Flag("value", "Published with the lease, an address for instance").PlaceHolder("VALUE").StringVar(&r.value)
	cmd.Flag("try", "Lead now or never: end if another candidate leads, or all seats are taken").UnNegatableBoolVar(&r.try)
	cmd.Flag("busy-exit-code", "Exit code of --try if another candidate leads, or all seats are taken").Default(strconv.Itoa(front.ExitBusy)).IsSetByUser(&r.busyGiven).IntVar(&r.busyCode)
	cmd.Flag("wait", "Longest time to wait for the first leadership, then exit code 124; by default for ever").PlaceHolder("DURATION").IsSetByUser(&r.waitGiven).DurationVar(&r.wait)
	cmd.Flag("retry-connect", "Wait for NATS and for the bucket, instead of ending if they are not there at the start").UnNegatableBoolVar(&r.retryConnect)
	cmd.Flag("delay", "Least time from winning to leading").PlaceHolder("DURATION").DurationVar(&r.delay)
	r.succession.register(cmd)
	cmd.Flag("refuse-requests", "Do not hand over for 'natsleader step-down', nor for a candidate with --preempt").UnNegatableBoolVar(&r.refuse)
	cmd.Flag("http", "Serve /leader, /live and /connected for health checks, and /metrics").PlaceHolder("ADDRESS").StringVar(&r.http)
	r.RegisterLog(cmd)
	cmd.Flag("quiet", "Print errors only").Short('q').UnNegatableBoolVar(&r.quiet)
	cmd.Flag("no-command", "Run no command: print the token, and keep the leadership").UnNegatableBoolVar(&r.holder)
	cmd.Flag("shell", "Have sh run the command line: pipes, && and variables").UnNegatableBoolVar(&r.shell)
	cmd.Flag("pass-credentials", "Let the command have NATS_USER, NATS_PASSWORD, NATS_TOKEN, NATS_JWT and NATS_SEED; a password in NATS_URL is passed on always").UnNegatableBoolVar(&r.credentials)
	cmd.Flag("once", "End when the leadership is lost, instead of standing again").UnNegatableBoolVar(&r.once)
	cmd.Flag("hold", "Keep the leadership for this long after the command has ended, with any exit code").PlaceHolder("DURATION").DurationVar(&r.hold)
	cmd.Flag("restart", "While it leads, start a command that fails again, so many times in a row, after pauses of 1s, 2s, 4s and so on, 30s at most").PlaceHolder("N").IntVar(&r.restart)
	cmd.Flag("drain", "Time from the stop signal to SIGKILL, if the lease allows").Default(usualDrain.String()).DurationVar(&r.drain)
	cmd.Flag("stall", "End a command that gives no sign of life for this long, at least 1s, and hand over").PlaceHolder("DURATION").DurationVar(&r.stall)
	cmd.Flag("stop-signal", "Signal that stops the command, a name or a number").Default("TERM").StringVar(&r.stopName)
	cmd.Flag("notify", "Run the command always, and send it one signal when it leads, and one when it does not lead any more").PlaceHolder("WON,LOST").StringVar(&r.notifyNames)
	cmd.Action(r.checkAndRun)
}

// checkAndRun rejects what is wrong before any server is asked, and runs.
func (r *run) checkAndRun(pc *fisk.ParseContext) error {
	if err := r.checkCommand(pc); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	return r.run()
}

// checkCommand rejects a command line without a command, and takes it.
func (r *run) checkCommand(pc *fisk.ParseContext) error {
	const form = "natsleader run [flags] ELECTION -- COMMAND"
	if r.holder {
		r.once = true
		if flag := flagOfCommand(pc); flag != "" || len(r.argv) > 0 || r.Command != nil {
			return front.Usagef("--no-command runs none: it takes no command, and no flag that is about one%s", flag)
		}
		return nil
	}
	if r.Command != nil {
		if len(r.argv) > 0 {
			return front.Usagef("%q stands before the --: %s", r.argv[0], form)
		}
		r.argv = r.Command
	} else if flag := flagAfterCommand(pc); flag != "" {
		return front.Usagef("%s stands after the command, and it is not clear whose it is: %s", flag, form)
	}
	switch {
	case len(r.argv) == 0:
		return front.Usagef("no command: %s, or --no-command", form)
	case r.restart < 0 || r.restart > 1000:
		return front.Usagef("--restart %d is not from 0 to 1000", r.restart)
	case r.shell:
		r.argv = []string{"sh", "-c", strings.Join(r.argv, " ")}
	}
	_, err := lookUp(r.argv[0])
	return err
}

// flagOfCommand returns the first flag that says how to run the command, for the end of a message.
func flagOfCommand(pc *fisk.ParseContext) string {
	about := []string{"shell", "pass-credentials", "hold", "restart", "drain", "stall", "stop-signal", "notify"}
	for _, e := range pc.Elements {
		if flag, ok := e.Clause.(*fisk.FlagClause); ok && slices.Contains(about, flag.Model().Name) {
			return ": leave out --" + flag.Model().Name
		}
	}
	return ""
}

// flagAfterCommand returns the first flag that comes after the first word of the command. A
// command that is not set off by a "--" may not have any.
func flagAfterCommand(pc *fisk.ParseContext) string {
	begun := false
	for _, e := range pc.Elements {
		switch clause := e.Clause.(type) {
		case *fisk.ArgClause:
			begun = begun || clause.Model().Name == "command"
		case *fisk.FlagClause:
			if begun {
				return "--" + clause.Model().Name
			}
		}
	}
	return ""
}

// check checks everything that can be wrong without asking a server.
func (r *run) check() error {
	if err := inspect.CheckElection(r.election); err != nil {
		return err
	}
	if err := r.checkDurations(); err != nil {
		return err
	}
	if err := r.succession.check(r.lease); err != nil {
		return err
	}
	if !utf8.ValidString(r.id) {
		return front.Usagef("--id %q is not UTF-8", r.id)
	}
	var err error
	if r.http != "" {
		if err = front.CheckAddress("http", r.http); err != nil {
			return err
		}
	}
	if r.stopSignal, err = parseSignal(r.stopName); err != nil {
		return err
	}
	if r.notifyNames != "" {
		won, lost, two := strings.Cut(r.notifyNames, ",")
		if !two {
			return front.Usagef("--notify needs two signals, for example USR1,USR2")
		}
		if r.won, err = parseSignal(won); err != nil {
			return err
		}
		if r.lost, err = parseSignal(lost); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) checkDurations() error {
	const (
		longest  = 1000 * time.Hour
		shortest = 50 * time.Millisecond // of a lease that is renewed most of the time
	)
	for _, flag := range []struct {
		name        string
		d, shortest time.Duration
	}{{"lease", r.lease, shortest}, {"wait", r.wait, 0}, {"drain", r.drain, time.Millisecond}, {"delay", r.delay, time.Millisecond}, {"stall", r.stall, time.Second}, {"hold", r.hold, 0}, {"turn-timeout", r.succession.turn, time.Millisecond}} {
		switch {
		case flag.d < 0:
			return front.Usagef("--%s %v is negative", flag.name, flag.d)
		case flag.d > 0 && flag.d < flag.shortest:
			return front.Usagef("--%s %v is less than %v", flag.name, flag.d, flag.shortest)
		case flag.d > longest:
			return front.Usagef("--%s %v is more than %v", flag.name, flag.d, longest)
		}
	}
	switch {
	case r.wait == 0 && r.waitGiven:
		return front.Usagef("--wait 0s: --try leads now or never, and without --wait it waits for ever")
	case r.try && r.wait > 0:
		return front.Usagef("--try does not wait: leave out --wait %v", r.wait)
	case r.busyGiven && !r.try:
		return front.Usagef("--busy-exit-code %d is for --try", r.busyCode)
	case r.busyCode < 0 || r.busyCode > 255:
		return front.Usagef("--busy-exit-code %d is not from 0 to 255", r.busyCode)
	case r.try && r.retryConnect:
		return front.Usagef("--try does not wait: leave out --retry-connect")
	case r.wait > 0 && r.wait <= r.delay:
		return front.Usagef("--wait %v is over before --delay %v: it would never lead", r.wait, r.delay)
	}
	return nil
}

// untilGone is the GracePeriod of a candidate that ends its command with the term. The
// candidate keeps the lease until nothing of the command is left and the function of
// Term.Go returns.
const untilGone = 24 * time.Hour

func (r *run) config(log *runLog) leader.Config {
	cfg := leader.Config{
		ID: r.id, Value: []byte(r.value),
		LeaseDuration: r.lease, PendingPeriod: r.delay, GracePeriod: untilGone + r.drain, StallTimeout: r.stall,
		RefuseRequests: r.refuse, Logger: log.logger(), ForceReconnect: true,
	}
	r.succession.apply(&cfg)
	if r.won != 0 && r.drain == 0 {
		cfg.GracePeriod = 0 // natsleader does not know when the command is ready
	}
	return cfg
}

// succession holds the flags of `natsleader run` for the order in which candidates
// follow.
type succession struct {
	roster   bool
	kind     string
	priority int
	preempt  bool
	turn     time.Duration
	seats    int
	kvElect  bool
}

// The values of --succession.
const (
	byRace     = "race"
	byQueue    = "queue"
	byPriority = "priority"
)

func (s *succession) register(cmd *fisk.CmdClause) {
	cmd.Flag("roster", "Announce it in the bucket's roster while it stands").UnNegatableBoolVar(&s.roster)
	cmd.Flag("succession", "Who tries first when nobody leads: race, queue or priority; the last two imply --roster").Default(byRace).
		EnumVar(&s.kind, byPriority, byQueue, byRace)
	cmd.Flag("priority", "With --succession priority: higher ones go first (default: 0)").PlaceHolder("N").IntVar(&s.priority)
	cmd.Flag("preempt", "With --succession priority: a leader of lower priority hands over when this candidate has stood for a lease").UnNegatableBoolVar(&s.preempt)
	cmd.Flag("turn-timeout", fmt.Sprintf("How long to wait for each of those before it (default: %v, or less with a short lease)", wire.DefaultTurnTimeout)).PlaceHolder("DURATION").DurationVar(&s.turn)
	cmd.Flag("seats", "How many may lead at once, each on a seat: ELECTION, ELECTION.seat.2 and so on; the same for all").Default("1").PlaceHolder("N").IntVar(&s.seats)
	cmd.Flag("kv-elect", "Share the key with processes of nats-kv-leader-elect").UnNegatableBoolVar(&s.kvElect)
}

// check rejects flags that contradict each other.
func (s *succession) check(lease time.Duration) error {
	switch {
	case s.seats < 1 || s.seats > 1000:
		return front.Usagef("--seats %d is not from 1 to 1000", s.seats)
	case s.priority != 0 && s.kind != byPriority:
		return front.Usagef("--priority %d needs --succession priority (now: %s)", s.priority, s.kind)
	case s.preempt && s.kind != byPriority:
		return front.Usagef("--preempt needs --succession priority (now: %s)", s.kind)
	case lease > 0 && s.turn >= lease:
		return front.Usagef("--turn-timeout %v is not less than --lease %v", s.turn, lease)
	}
	return nil
}

// fit returns an error if the bucket does not allow this succession. A lease of 0 is
// the bucket's.
func (s *succession) fit(info leader.BucketInfo, lease time.Duration) error {
	switch listed := s.roster || s.kind != byRace; {
	case listed && !info.Roster:
		return leader.ErrNoRoster
	case lease == 0 && info.MaxLease > 0 && s.turn >= info.MaxLease:
		return front.Usagef("--turn-timeout %v is not less than the lease, which is the bucket's MaxLease %v", s.turn, info.MaxLease)
	}
	return nil
}

// apply sets the succession in the configuration of a candidate.
func (s *succession) apply(cfg *leader.Config) {
	switch {
	case s.kind != byRace:
		cfg.Queue = &leader.Queue{Priority: s.priority, Preempt: s.preempt}
	case s.roster:
		cfg.Queue = &leader.Queue{AtOnce: true}
	}
	cfg.TurnTimeout = s.turn
}

// of returns the store of a candidate.
func (s *succession) of(store leader.Store) leader.Store {
	if store = seats.Of(store, s.seats); s.kvElect {
		store = kvelect.Beside(store)
	}
	return store
}
