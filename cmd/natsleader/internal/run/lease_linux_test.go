package run

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
)

// Each renewal moves the three ends of a run: of the lease, of the command and of the supervisor. If
// the bucket's MaxLease was lowered, the shorter lease counts from then on, also when a longer one
// comes back.
func TestCommandRun_Extend(t *testing.T) {
	const begun = instant(1e15)
	at := func(d time.Duration) instant { return begun.Add(d) }
	const long, short = 15 * time.Second, 6 * time.Second
	s := &commandRun{}
	for i, x := range []struct {
		now          instant
		left, length time.Duration
		longer       bool
		lease        lease
		by           instant
	}{
		{at(0), 0, long, false, lease{}, 0},
		{at(0), 12 * time.Second, long, true, lease{at(12 * time.Second), at(14 * time.Second), 750 * time.Millisecond}, at(14500 * time.Millisecond)},
		{at(0), 12*time.Second + time.Millisecond, long, false, lease{at(12 * time.Second), at(14 * time.Second), 750 * time.Millisecond}, at(14500 * time.Millisecond)},
		{at(20 * time.Second), -1, long, false, lease{at(12 * time.Second), at(14 * time.Second), 750 * time.Millisecond}, at(14500 * time.Millisecond)},
		{at(3 * time.Second), 12 * time.Second, long, true, lease{at(15 * time.Second), at(17 * time.Second), 750 * time.Millisecond}, at(17500 * time.Millisecond)},
		{at(12 * time.Second), 4 * time.Second, short, true, lease{at(16 * time.Second), at(16800 * time.Millisecond), 300 * time.Millisecond}, at(17 * time.Second)},
		{at(12 * time.Second), 12 * time.Second, long, true, lease{at(24 * time.Second), at(24800 * time.Millisecond), 300 * time.Millisecond}, at(25 * time.Second)},
	} {
		if longer := s.extend(x.now, x.left, x.length); longer != x.longer || s.lease != x.lease || s.leaseBy != x.by {
			t.Errorf("%d: longer: %t, %+v, the supervisor until %v", i, longer, s.lease, s.leaseBy.sub(begun))
		}
	}
	for length, want := range map[time.Duration]time.Duration{time.Millisecond: shortestBeat, time.Hour: longestBeat} {
		expect.Equal(t, beatOf(length), want, "the clock is read each %v")
	}
}

// A supervisor is killed when its lease or its order is overdue, whichever comes first. The next look
// is no later than that.
func TestRunLoop_LooksInTime(t *testing.T) {
	const now = instant(1e15)
	for name, x := range map[string]struct {
		run    run
		s      *commandRun
		killed bool
		wait   time.Duration
	}{
		"no command":              {wait: time.Hour},
		"no lease":                {s: &commandRun{}, wait: longestBeat},
		"the lease is over":       {s: &commandRun{leaseBy: now}, killed: true, wait: longestBeat},
		"the lease ends":          {s: &commandRun{leaseBy: now + 1}, wait: 1},
		"notified, lease is over": {run: run{won: 10}, s: &commandRun{leaseBy: now}, wait: longestBeat},
		"the order is late":       {s: &commandRun{leaseBy: now + 5e9, answerBy: now}, killed: true, wait: longestBeat},
		"the lease comes first":   {s: &commandRun{leaseBy: now, answerBy: now + 5e9}, killed: true, wait: longestBeat},
		"the order comes first":   {s: &commandRun{leaseBy: now + 5e9, answerBy: now + 1e6}, wait: time.Millisecond},
		"far from the end":        {s: &commandRun{lease: lease{Warn: now + 1e9, Beat: 5e8}}, wait: 5e8},
		"near the end":            {s: &commandRun{lease: lease{Warn: now + 1e9 - 1, Beat: 5e8}}, wait: shortestBeat},
	} {
		o := &supervisorProcess{process: &os.Process{}}
		withPipe(t, &o.reports)
		c := &runLoop{run: &x.run, supervisor: o, current: x.s}
		if wait := c.look(now); wait != x.wait || (o.killed != 0) != x.killed || x.s != nil && x.s.hung != x.killed {
			t.Errorf("%s: again in %v, want %v; killed: %t", name, wait, x.wait, o.killed != 0)
		}
	}
}

// The time that is left is that until the end of the lease, by the clock by which it ends sooner: the time of day may have been
// set back, and a time namespace has a boottime of its own.
func TestLeaseNote_Remaining(t *testing.T) {
	for _, k := range []struct{ wall, boot time.Duration }{{time.Hour, time.Hour}, {2 * time.Hour, time.Hour}, {time.Hour, 2 * time.Hour}} {
		begun := ClockNow()
		left := LeaseNote{7, time.Now().Add(k.wall), begun.Add(k.boot).Uptime()}.remaining()
		took := ClockNow().sub(begun) + 2*time.Millisecond // of rounding
		expect.That(t, left <= time.Hour+time.Millisecond && left >= time.Hour-took, "%v are left", left)
	}
	for _, k := range []struct{ wall, boot time.Duration }{{-time.Second, time.Hour}, {time.Hour, -time.Second}} {
		left := LeaseNote{7, time.Now().Add(k.wall), ClockNow().Add(k.boot).Uptime()}.remaining()
		expect.Equal(t, left, 0, "after its end by one of the clocks %v are left")
	}
	synctest.Test(t, func(t *testing.T) {
		expect.Equal(t, (LeaseNote{Token: 7, Until: time.Now().Add(time.Minute)}).remaining(), time.Minute,
			"without that clock %v are left")
		expect.Equal(t, (LeaseNote{Token: 7, Until: time.Now().Add(-time.Minute)}).remaining(), 0,
			"after the end %v are left")
		if left := (LeaseNote{Until: time.Now().Add(time.Minute)}).remaining(); left != 0 { // the wall clock was set
			t.Errorf("without a term %v are left", left)
		}
	})
}

// What keeps the lease from being written is reported with each write that fails, and its end once.
func TestLeaseFile_ReportsFaults(t *testing.T) {
	dir := filepath.Join(testworld.OwnDir(t), "dir")
	expect.OK(t, os.WriteFile(dir, nil, 0o600)) // a file is in the way
	f := openLeaseFile(filepath.Join(dir, "lease"))
	defer f.close()
	reported := func() string {
		select {
		case fault := <-f.faults:
			return fault
		case <-time.After(testworld.Patience):
			return "none was reported"
		}
	}
	for range 2 {
		f.put(LeaseNote{Token: 7})
		fault := reported()
		expect.That(t, strings.Contains(fault, unix.ENOTDIR.Error()), "%q", fault)
	}
	expect.OK(t, os.Remove(dir))
	f.put(LeaseNote{Token: 7})
	expect.Equal(t, reported(), "", "%q after a file that is written")
	f.put(LeaseNote{Token: 8})
	expect.Got(f.write(LeaseNote{Token: 9}))(t)
	expect.Equal(t, len(f.faults), 0, "%d reports of a file that is written")
	expect.OK(t, os.RemoveAll(dir))
	expect.OK(t, os.WriteFile(dir, nil, 0o600))
	f.put(LeaseNote{Token: 10})
	for f.hangs(ClockNow()) > 0 || len(f.faults) == 0 {
		time.Sleep(time.Millisecond)
	}
	path := expect.Got(f.write(LeaseNote{Token: 11}))(t) // for the next command, and elsewhere
	defer RemoveLeaseFile(path, nil)
	expect.Equal(t, reported(), "", "%q of the command before")
}

// A disk that does not answer is a fault, too.
func TestSupervisor_ReportsHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		useBubbleClock(t)
		s := onHungDisk("true")
		s.command = &managedProcess{}
		s.notes.began.Store(int64(ClockNow()))
		s.extend(order{Do: orderLease})
		time.Sleep(patienceWithDisk)
		s.extend(order{Do: orderLease})
		expect.Deep(t, <-s.reports, supervisorReport{What: reportLease, Error: "the disk has not answered for 5s"})
		expect.Equal(t, len(s.reports), 0, "%d more reports")
	})
}

// remaining prints the time that is left, and fails when the lease is over.
func TestRemaining_ReportsEndOfLease(t *testing.T) {
	path := filepath.Join(testworld.OwnDir(t), "lease")
	missing := filepath.Join(t.TempDir(), "lease")
	good, over := ClockNow().Add(time.Hour), ClockNow().Add(-time.Second)
	for name, k := range map[string]struct {
		note LeaseNote
		path string
		code int
	}{
		"good":                   {NewLeaseNote(7, good), path, 0},
		"over":                   {NewLeaseNote(7, over), path, front.ExitFailed},
		"the wall clock was set": {LeaseNote{7, time.Now().Add(time.Hour), over.Uptime()}, path, front.ExitFailed},
		"never led":              {NewLeaseNote(0, 0), path, front.ExitFailed},
		"no file":                {NewLeaseNote(7, good), missing, front.ExitFailed},
		"no command of run":      {NewLeaseNote(7, good), "", front.ExitUsage},
	} {
		expect.OK(t, k.note.Write(path))
		var out bytes.Buffer
		code := front.CodeOf(ShowRemaining(&out, k.path, false))
		expect.That(t, code == k.code && (out.String() == "0s\n") == (code == front.ExitFailed), "%s: %q, exit code %d", name, &out, code)
	}
}

// Of several notes that wait for a disk the newest is written, and close waits for it, but no
// longer than a second.
func TestLeaseFile_NewestCounts(t *testing.T) {
	path := filepath.Join(testworld.OwnDir(t), "lease")
	f := &leaseFile{next: make(chan leaseWrite, 1)}
	for token := range uint64(3) {
		f.put(LeaseNote{Token: token})
	}
	n := (<-f.next).Token
	expect.That(t, n == 2, "token %d", n)
	f = openLeaseFile(path)
	f.put(LeaseNote{Token: 7})
	f.close()
	line, err := ReadLeaseFile(path)
	expect.That(t, err == nil && len(line) != 0, "%q, %v", line, err)
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		(&leaseFile{next: make(chan leaseWrite), done: make(chan struct{})}).close()
		took := time.Since(begun)
		expect.That(t, took == time.Second, "it took %v", took)
	})
}

// A file that takes the place of another leaves no directory behind, neither the first nor its own.
func TestLeaseFile_MovesWithoutTrace(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := testworld.OwnDir(t)
	if err := os.Mkdir(filepath.Join(dir, "lease"), 0o700); err != nil { // no file can take its place
		t.Fatal(err)
	}
	f := openLeaseFile(filepath.Join(dir, "lease"))
	moved, err := f.write(NewLeaseNote(7, ClockNow()))
	expect.Must(t, err == nil && filepath.Dir(moved) != dir, "%s, %v", moved, err)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
	f.close() // by a supervisor that has not waited for the write
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
