//go:build field && linux

package torture_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/leader"
)

// Faults of any kind, at any time, in candidates, links and servers. No write of an
// older term is accepted after a newer term was elected or has written. An acknowledged
// write is stored, and a refused write is not. The register and the list are
// linearizable. The writers ignore leases.
func TestTorture_OnlyNewestTermWrites(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	tortureWriters(t, 3, *duration, jetstream.FileStorage, jetstream.MemoryStorage)
}

// Only the newest term writes to a stream with one replica. With one replica, the server
// that is killed has all data. In memory it is only stopped, or all data would be lost.
func TestTorture_OneReplica(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	t.Run("on file", func(t *testing.T) {
		tortureWriters(t, 1, *duration/4, jetstream.FileStorage, jetstream.FileStorage)
	})
	t.Run("in memory", func(t *testing.T) {
		tortureWriters(t, 1, *duration/4, jetstream.MemoryStorage, jetstream.MemoryStorage)
	})
}

// tortureWriters runs two elections. Their leaders write, each to a ledger.
func tortureWriters(t *testing.T, servers int, duration time.Duration, storages ...jetstream.StorageType) {
	t.Helper()
	const lease = 2 * time.Second
	d := newDriver(t, startCluster(t, servers), seeded(t),
		candidateSpec{Lease: lease, Ping: time.Second}, lease*8/10, sealed(lease), expiring(lease))
	for i, b := range d.buckets {
		d.keep(b, storages[i], ledgerSpec{})
	}
	for range 3 {
		d.seat()
	}
	defer func() { // also if the test ends early
		d.table(d.check())
		d.checkLedgers()
	}()
	d.calm()
	d.torture(duration, func() []fault { return d.writersFaults(storages) })
	d.close()
}

// writersFaults are the faults that a ledger in that storage outlives, and two more.
func (d *driver) writersFaults(storages []jetstream.StorageType) []fault {
	memory, alone := slices.Contains(storages, jetstream.MemoryStorage), len(d.c.Nodes) == 1
	all := slices.Concat(d.faults(), d.oblivions(), []fault{
		{"guard deleted", "key", d.spec.Lease / 4, d.spec.Lease, (*driver).deleteGuard},
		{"stream's leader moved", "server", 0, time.Second, (*driver).moveLeader},
	})
	return slices.DeleteFunc(all, func(f fault) bool {
		switch f.kind {
		case "all stores rolled back":
			return true
		case "any server killed", "stream's leader killed", "rolling restart":
			return memory && alone
		case "two servers killed":
			return memory || alone
		case "two servers paused", "one server's store rolled back", "stream's leader moved",
			"stream's leader cut off from other servers", "stream's leader one-way to other servers",
			"all links between servers slow", "all links between servers lossy":
			return alone
		default:
			return false
		}
	})
}

// checkLedgers reads the ledgers and fails the test for values that should not be there.
func (d *driver) checkLedgers() {
	d.tb.Helper()
	for _, b := range d.buckets {
		told := d.books(b)
		f := checkLedger(told)
		f.report(d.tb, b.ledger.Bucket)
		for _, what := range []string{register, list} {
			expect.That(d.tb, linear(d.tb, told, f, what, d.c.dir),
				"%s: the history of the %s is not known to be linearizable", b.ledger.Bucket, what)
		}
	}
}

// books reads the attempts that the processes have written down so far, and then the
// stored values.
func (d *driver) books(b *bucket) books {
	d.tb.Helper()
	for _, l := range b.lives {
		l.follow(d.tb)
		l.diary.follow(d.tb)
	}
	lives := b.lives
	if b.shards > 0 {
		lives = b.of(strconv.Itoa(writing)).lives
	}
	return books{lives: lives, voids: b.voids, guarded: !b.ledger.Bare, ledger: d.c.readLedger(*b.ledger)}
}

// A leader is stopped between the check of its term and its write. It goes on when
// another candidate has led and written. With a writer this has no effect. With an
// ordinary Put, the write of the other is lost. All checks of ledgers find that, so
// they would find it in the test above.
func TestPut_OfStoppedLeader(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		name string
		bare bool
		want string
	}{{"writer", false, refused}, {"ordinary Put", true, accepted}} {
		t.Run(k.name, func(t *testing.T) {
			const lease = time.Second
			d := newDriver(t, startCluster(t, 1), rand.New(rand.NewPCG(1, 1)),
				candidateSpec{Lease: lease, Ping: time.Second}, lease, leader.BucketConfig{Name: "E", MaxLease: lease})
			b := d.buckets[0]
			d.keep(b, jetstream.FileStorage, ledgerSpec{Counter: true, Bare: k.bare})
			for range 2 {
				d.seat()
			}
			d.calm()
			first, claim := d.leader(b)
			first.tell("wait " + b.cfg.Name)
			diary := &first.lives[b].diary
			testcluster.Eventually(t, "it has checked its term", func() bool {
				diary.follow(t)
				return slices.ContainsFunc(diary.attempts, func(a attempt) bool { return a.Kind == waiting })
			})
			first.proc.Pause()
			before := len(diary.attempts)
			testcluster.Eventually(t, "another leads and writes", func() bool {
				s, now := d.leader(b)
				return s != nil && now.Token != claim.Token && s.lives[b].works(t, *b.ledger, now.Token, claim.At)
			})
			first.tell("go " + b.cfg.Name)
			first.proc.Resume()
			testcluster.Eventually(t, "its write has come to an end", func() bool { diary.follow(t); return len(diary.attempts) > before })
			expect.Equal(t, diary.attempts[before].Out, k.want, "its write was %s")
			d.calm()
			d.close()
			told := d.books(b)
			f := checkLedger(told)
			found := strings.Join(f.broken, "\n")
			for _, fault := range []string{"an older term's write after a newer one's", "a write after a later term began", "a lost update"} {
				expect.That(t, strings.Contains(found, fault) == k.bare, "the checker says %q", found)
			}
			is := linear(t, told, f, register, d.c.dir)
			expect.That(t, is != k.bare, "linearizable: %v", is)
		})
	}
}

// A write is sent on a connection that is then given up, and arrives after the same
// term has written on another connection. It is not accepted any more: its outcome was
// unknown at first, and then it was known.
func TestHeldBackWrite_IsNotStored(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	const lease = time.Minute // no other term begins
	c := startCluster(t, 1)
	d := newDriver(t, c, rand.New(rand.NewPCG(1, 1)), candidateSpec{Lease: lease, Ping: time.Second}, lease,
		leader.BucketConfig{Name: "E", MaxLease: lease})
	b := d.buckets[0]
	d.keep(b, jetstream.FileStorage, ledgerSpec{})
	s := d.seat(c.Nodes[0], c.Nodes[0])
	d.calm()
	_, claim := d.leader(b)
	diary := &s.lives[b].diary
	held := 10 * time.Second
	for ; ; held *= 2 {
		from := monotonic()
		s.links[0].delay(held)
		testcluster.Eventually(t, "writes go the other way", func() bool {
			return s.lives[b].works(t, *b.ledger, claim.Token, from)
		})
		took := time.Duration(monotonic() - from)
		if took <= held {
			break
		}
		expect.Must(t, held <= time.Minute,
			"what was held for %v arrived before the client had noticed, after %v", held, took)
		s.links[0].heal() // the machine is busy: hold it for longer
		d.calm()
	}
	time.Sleep(held) // by then everything has arrived
	d.calm()
	_, now := d.leader(b)
	expect.That(t, now.Token == claim.Token, "token %d led, now %d does", claim.Token, now.Token)
	d.close()
	d.check()
	d.checkLedgers()
	expect.That(t, slices.ContainsFunc(diary.attempts, func(a attempt) bool { return a.Out == unknown }),
		"every outcome was known")
}

// A write that an old leader of the stream refuses is not taken for unwritten. A server
// that led the stream and was cut off is heard again before it knows that another server
// leads. For a moment both servers get every write, and one rejects the writes that the
// other stores.
func TestOldStreamLeader_Refusal(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	const lease = time.Minute // no other term begins
	c := startCluster(t, 3)
	d := newDriver(t, c, rand.New(rand.NewPCG(1, 1)), candidateSpec{Lease: lease, Ping: time.Second}, lease,
		leader.BucketConfig{Name: "E", MaxLease: lease})
	b := d.buckets[0]
	d.keep(b, jetstream.FileStorage, ledgerSpec{})
	s := d.seat()
	defer func() {
		d.check()
		d.checkLedgers()
	}()
	for range 4 {
		d.calm()
		_, claim := d.leader(b)
		old := d.another(s)
		d.c.Lead(b.ledger.Bucket, old)
		undo := d.cutOff(old)
		from := monotonic()
		testcluster.Eventually(t, "another server leads the stream", func() bool {
			return s.lives[b].works(t, *b.ledger, claim.Token, from)
		})
		undo()
	}
	d.calm()
	d.close()
}
