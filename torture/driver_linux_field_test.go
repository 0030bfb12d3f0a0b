//go:build field && linux

package torture_test

import (
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/leader"
)

// driver runs candidates on a cluster and injects faults. It follows the journals to
// choose its victims, and to see when it is calm again.
type driver struct {
	tb    testing.TB
	c     *cluster
	rng   *rand.Rand
	start time.Time
	spec  candidateSpec // what all candidates have in common
	fence time.Duration

	made    int // seats
	seats   []*seat
	buckets []*bucket
	steps   []step
}

// seat is a place for a candidate. Its processes come and go, and its links stay.
type seat struct {
	name   string
	member string // the ID of its process in a group
	stays  bool   // all its processes have that one
	links  []*link
	number int // of processes so far
	proc   *testcluster.Process
	lives  map[*bucket]*life // of this process
}

// bucket is one election, with all that was written about it.
type bucket struct {
	cfg    leader.BucketConfig
	shards int         // of the group in it; 0: an election
	ledger *ledgerSpec // its leader writes to it; nil: no ledger
	history
}

// step is a fault, from its injection until it was calm again.
type step struct {
	kind     string
	from, to int64
}

func newDriver(tb testing.TB, c *cluster, rng *rand.Rand, spec candidateSpec, fence time.Duration, buckets ...leader.BucketConfig) *driver {
	tb.Helper()
	d := &driver{tb: tb, c: c, rng: rng, start: time.Now(), spec: spec, fence: fence}
	for _, cfg := range buckets {
		c.create(cfg)
		d.buckets = append(d.buckets, &bucket{cfg: cfg, shards: spec.Shards, history: history{fence: fence}})
	}
	d.whole()
	return d
}

func (d *driver) logf(format string, args ...any) {
	d.tb.Helper()
	d.tb.Logf("%9.3fs  %s", time.Since(d.start).Seconds(), fmt.Sprintf(format, args...))
}

// seat makes a place with links to all servers and puts a candidate there. The
// candidate tries the servers in that order, or in a random one.
func (d *driver) seat(order ...*testcluster.Node) *seat {
	d.tb.Helper()
	d.made++
	s := &seat{name: fmt.Sprintf("c%d", d.made), stays: d.made%2 == 0}
	if len(order) == 0 {
		order = slices.Clone(d.c.Nodes)
		d.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for _, n := range order {
		s.links = append(s.links, newLink(d.tb, n.Name, n.Address))
	}
	d.seats = append(d.seats, s)
	d.run(s)
	return s
}

// run starts a process in the seat.
func (d *driver) run(s *seat) {
	d.tb.Helper()
	s.number++
	spec := d.spec
	spec.ID, spec.URLs = fmt.Sprintf("%s.%d", s.name, s.number), nil
	if s.member = spec.ID; s.stays && d.buckets[0].ledger == nil { // or the IDs in guards would not name the process
		s.member, spec.Hold = s.name, spec.Lease/2
	}
	spec.Member = s.member
	spec.Journal, spec.MinToken, spec.Ledger = make(map[string]string), make(map[string]uint64), make(map[string]ledgerSpec)
	for _, l := range s.links {
		spec.URLs = append(spec.URLs, "nats://"+l.proxy.Listen)
	}
	s.lives = make(map[*bucket]*life)
	for _, b := range d.buckets {
		l := &life{id: spec.ID, path: filepath.Join(d.c.dir, spec.ID+"."+b.cfg.Name+".jsonl")}
		spec.Journal[b.cfg.Name], s.lives[b] = l.path, l
		if b.ledger != nil {
			l.diary.path = filepath.Join(d.c.dir, spec.ID+"."+b.ledger.Bucket+".jsonl")
			told := *b.ledger
			told.Diary = l.diary.path
			spec.Ledger[b.cfg.Name] = told
		}
		b.lives = append(b.lives, l)
		spec.MinToken[b.cfg.Name] = b.minToken(d.tb)
	}
	cmd := testcluster.Self(d.tb, candidateEnv, string(encode(d.tb, spec)))
	cmd.SysProcAttr = dies
	s.proc = testcluster.StartTo(d.tb, spec.ID, cmd, filepath.Join(d.c.dir, spec.ID+".out"))
}

// minToken returns the MinToken for a candidate in the bucket. Tokens can be ahead of
// the bucket's revisions, because the bucket was made to forget some. Its record and
// living candidates remember such tokens. If the record expires while all candidates
// are dead, the tokens are lost unless a process that has seen them passes them on.
func (b *bucket) minToken(tb testing.TB) uint64 {
	tb.Helper()
	var seen uint64
	if b.cfg.TTL > 0 && len(b.voids) > 0 {
		for _, l := range b.lives {
			l.follow(tb)
			for _, e := range l.entries {
				seen = max(seen, e.Token)
			}
		}
	}
	return seen
}

// kill ends the process of a seat at once.
func (s *seat) kill() {
	s.proc.Kill()
	for _, l := range s.lives {
		l.killed = monotonic()
	}
}

// stop asks the process of a seat to stop.
func (s *seat) stop() { _ = s.proc.Cmd.Process.Signal(syscall.SIGTERM) }

func (s *seat) tell(line string) { _, _ = io.WriteString(s.proc.Stdin, line+"\n") }

// finish waits for a process that is to stop.
func (d *driver) finish(s *seat) {
	d.tb.Helper()
	testcluster.Eventually(d.tb, s.proc.Name+" has stopped", func() bool { return !s.proc.Alive() })
	expect.Must(d.tb, s.proc.Cmd.ProcessState.Success(), "%v", s.proc)
}

// leading returns the latest claim of the life, if it is recent.
func (l *life) leading(tb testing.TB) (entry, bool) {
	tb.Helper()
	l.follow(tb)
	for _, e := range slices.Backward(l.entries) {
		switch e.What {
		case leads:
			return e, monotonic()-e.At < int64(time.Second)
		case elected, fenced, deposed, ended:
			return entry{}, false
		}
	}
	return entry{}, false
}

// knows returns the ID of the leader that the life has observed.
func (l *life) knows() string {
	for _, e := range slices.Backward(l.entries) {
		if e.What == observed {
			return e.ID
		}
	}
	return ""
}

// server returns the server that the candidate is connected to, or nil.
func (d *driver) server(s *seat) *testcluster.Node {
	for _, l := range s.lives {
		l.follow(d.tb)
		for _, e := range slices.Backward(l.entries) {
			if e.What == connected || e.What == disconnected {
				return d.c.Node(e.Text)
			}
		}
	}
	return nil
}

// leader returns the leader in the bucket and its latest claim. It returns nil if there
// is none, or more than one. In a group it is the assigner.
func (d *driver) leader(b *bucket) (found *seat, claim entry) {
	d.tb.Helper()
	if b.shards > 0 {
		return d.assigner(b), entry{}
	}
	for _, s := range d.seats {
		if e, leads := s.lives[b].leading(d.tb); leads && s.proc.Alive() {
			if found != nil {
				return nil, entry{}
			}
			found, claim = s, e
		}
	}
	return found, claim
}

// victim returns the leader in one of the buckets, or any candidate if there is no
// leader. In a group it is the assigner or any member.
func (d *driver) victim() *seat {
	d.tb.Helper()
	b := d.buckets[d.rng.IntN(len(d.buckets))]
	if s, _ := d.leader(b); s != nil && (b.shards == 0 || d.rng.IntN(2) == 0) {
		return s
	}
	return d.seats[d.rng.IntN(len(d.seats))]
}

func (d *driver) whole() {
	d.tb.Helper()
	d.c.Whole(d.streams()...)
}

// streams returns the buckets of all elections, and their ledgers.
func (d *driver) streams() []string {
	var all []string
	for _, b := range d.buckets {
		all = append(all, b.cfg.Name)
		if b.ledger != nil {
			all = append(all, b.ledger.Bucket)
		}
	}
	return all
}

func (d *driver) anyStream() string {
	all := d.streams()
	return all[d.rng.IntN(len(all))]
}

// calm waits until the servers are whole, exactly one candidate in every bucket leads,
// renews and writes, and all candidates know it. So all candidates have seen the latest
// token. In a group each shard has one owner, and all members have as many, but for one.
func (d *driver) calm() {
	d.tb.Helper()
	d.whole()
	since := monotonic()
	for _, b := range d.buckets {
		defer func() {
			if d.tb.Failed() {
				d.tell(b)
			}
		}()
		testcluster.Eventually(d.tb, "one leads in "+b.cfg.Name+", and all know", func() bool {
			if b.shards > 0 {
				return d.shared(b)
			}
			if d.spec.Locks {
				d.alive()
				return !slices.ContainsFunc(d.seats, func(s *seat) bool { return !s.lives[b].hadSince(d.tb, since) })
			}
			s, claim := d.leader(b)
			if s == nil || time.Duration(claim.Left) < d.fence/4*3 {
				return false
			}
			d.alive()
			for _, other := range d.seats {
				if other != s && other.lives[b].knows() != s.lives[b].id {
					return false
				}
			}
			return b.ledger == nil || s.lives[b].works(d.tb, *b.ledger, claim.Token, since)
		})
	}
}

// alive fails the test if a process has ended by itself.
func (d *driver) alive() {
	d.tb.Helper()
	for _, s := range d.seats {
		expect.Must(d.tb, s.proc.Alive(), "it has died by itself: %v", s.proc)
	}
}

// tell logs the last entries of all journals.
func (d *driver) tell(b *bucket) {
	for _, s := range d.seats {
		entries := s.lives[b].entries
		for _, e := range entries[max(0, len(entries)-8):] {
			d.tb.Logf("%s in %s: %+v", s.lives[b].id, b.cfg.Name, e)
		}
	}
}

// hold lets a fault last for a while.
func (d *driver) hold(least, most time.Duration) {
	time.Sleep(least + time.Duration(d.rng.Int64N(int64(most-least))))
}

// close stops all candidates in good order, so that every win has its loss.
func (d *driver) close() {
	d.tb.Helper()
	for _, s := range d.seats {
		s.stop()
	}
	for _, s := range d.seats {
		d.finish(s)
	}
}

// check reads all journals and fails the test if they show a broken promise. It returns a verdict on each election
// and on each shard.
func (d *driver) check() (verdicts []verdict) {
	d.tb.Helper()
	for _, b := range d.buckets {
		for _, l := range b.lives {
			l.follow(d.tb)
		}
		var locks []stretch[lockState]
		terms, closest := 0, time.Duration(-1)
		for what, h := range b.histories() {
			v := check(h)
			for _, broken := range v.broken {
				d.tb.Errorf("%s%s: %s", b.cfg.Name, what, broken)
			}
			for _, noted := range v.noted {
				d.tb.Logf("%s%s: noted: %s", b.cfg.Name, what, noted)
			}
			if terms += len(v.terms); closest < 0 || v.closest >= 0 && v.closest < closest {
				closest = v.closest
			}
			verdicts, locks = append(verdicts, v), append(locks, locked(h, v.terms)...)
		}
		d.tb.Logf("%s: %d processes, %d terms, the closest two %v apart", b.cfg.Name, len(b.lives), terms, closest)
		expect.That(d.tb, orderly(d.tb, "lock-"+b.cfg.Name, lockModel, locks, d.c.dir),
			"%s: the history of the lock is not known to be linearizable", b.cfg.Name)
	}
	return verdicts
}

// histories are those of an election, or of each shard of a group.
func (b *bucket) histories() iter.Seq2[string, history] {
	return func(yield func(string, history) bool) {
		if b.shards == 0 {
			yield("", b.history)
			return
		}
		for n := range b.shards {
			if !yield(fmt.Sprintf(", shard %d", n), b.of(strconv.Itoa(n))) {
				return
			}
		}
	}
}

// table logs, for each kind of fault, how often it was injected, how often there was no
// leader, and for how long.
func (d *driver) table(verdicts []verdict) {
	d.tb.Helper()
	type row struct {
		times int
		gaps  []time.Duration
	}
	rows := make(map[string]*row)
	var kinds []string
	for _, s := range d.steps {
		r := rows[s.kind]
		if r == nil {
			r = &row{}
			rows[s.kind] = r
			kinds = append(kinds, s.kind)
		}
		r.times++
		for _, v := range verdicts {
			r.gaps = append(r.gaps, v.leaderless(s.from, s.to)...)
		}
	}
	slices.Sort(kinds)
	out := fmt.Sprintf("%-40s %5s %10s %9s %9s %9s\n", fmt.Sprintf("nobody led, in %d elections or shards", len(verdicts)), "times", "leaderless", "median", "p99", "worst")
	for _, k := range kinds {
		r := rows[k]
		slices.Sort(r.gaps)
		out += fmt.Sprintf("%-40s %5d %10d %8.3fs %8.3fs %8.3fs\n", k, r.times, len(r.gaps),
			quantile(r.gaps, 0.5).Seconds(), quantile(r.gaps, 0.99).Seconds(), quantile(r.gaps, 1).Seconds())
	}
	d.tb.Log("\n" + out)
}
