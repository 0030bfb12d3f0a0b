//go:build field && linux

package torture_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testcluster"
)

// fault is one kind of harm. inject does the harm, and the function that it returns
// undoes it, nil if there is nothing to undo. Between the two, the harm lasts.
type fault struct {
	kind string
	// class is the part that it strikes. Two faults at once are of different classes.
	// Neither of them is of the class store, because the store may then answer no
	// client, not even the driver.
	class string
	// least and most of how long it lasts, in leases or in seconds.
	least, most time.Duration
	inject      func(d *driver) (undo func())
}

// The faults that the store's memory outlives. There is one leader in spite of all of
// them.
func (d *driver) faults() []fault {
	lease := d.spec.Lease
	return slices.Concat(
		[]fault{
			{"leader resigns", "candidate", lease / 4, lease, (*driver).resign},
			{"candidate stopped", "candidate", lease / 4, lease, (*driver).stop},
			{"candidate killed", "candidate", lease / 4, 2 * lease, (*driver).killCandidate},
			{"all candidates killed", "candidate", lease / 4, 2 * lease, (*driver).killAll},
			{"candidate paused, shorter than a lease", "candidate", lease / 10, lease / 2, (*driver).pauseCandidate},
			{"candidate paused, longer than a lease", "candidate", lease, 3 * lease, (*driver).pauseCandidate},
			{"stream's leader killed", "server", time.Second, 8 * time.Second, streamsLeader((*driver).killServer)},
			{"stream's leader paused", "server", time.Second, 10 * time.Second, streamsLeader((*driver).pauseServer)},
			{"any server killed", "server", time.Second, 8 * time.Second, anyServer((*driver).killServer)},
			{"any server paused", "server", time.Second, 10 * time.Second, anyServer((*driver).pauseServer)},
			{"rolling restart", "server", 0, 0, (*driver).roll},
			{"one server's store rolled back", "server", 0, 0, (*driver).rollBackOne},
			{"stream's leader cut off from other servers", "store", time.Second, 10 * time.Second, streamsLeader((*driver).cutOff)},
			{"stream's leader one-way to other servers", "store", time.Second, 10 * time.Second, streamsLeader((*driver).halfCutOff)},
			{"two servers killed", "store", time.Second, 8 * time.Second, twoServers((*driver).killServer)},
			{"two servers paused", "store", time.Second, 10 * time.Second, twoServers((*driver).pauseServer)},
			{"all links between servers slow", "server", time.Second, 5 * time.Second, allRoutes((*link).slow)},
			{"all links between servers lossy", "store", time.Second, 5 * time.Second, allRoutes((*link).lose)},
			{"key deleted", "key", lease / 4, lease, (*driver).deleteKey},
			{"key purged", "key", lease / 4, lease, (*driver).purgeKey},
		},
		links(lease))
}

// links are the faults of the links between candidates and servers.
func links(lease time.Duration) []fault {
	var all []fault
	for _, k := range []struct {
		kind string
		harm func(d *driver, l *link)
	}{
		{"links black-holed", func(_ *driver, l *link) { l.swallow(toServer, otherWay) }},
		{"links one-way, nothing to servers", func(_ *driver, l *link) { l.swallow(toServer) }},
		{"links one-way, nothing from servers", func(_ *driver, l *link) { l.swallow(otherWay) }},
		{"links slow", func(d *driver, l *link) { l.slow(d.rng) }},
		{"links lossy", func(d *driver, l *link) { l.lose(d.rng) }},
		{"links cut", func(_ *driver, l *link) { l.cut() }},
	} {
		all = append(all, fault{k.kind, "link", lease / 4, 3 * lease, func(d *driver) func() {
			var hit []*link
			switch s := d.victim(); d.rng.IntN(4) {
			case 0: // of all candidates
				for _, other := range d.seats {
					hit = append(hit, other.links...)
				}
			case 1: // to the server it is connected to
				n := d.server(s)
				for _, l := range s.links {
					if n != nil && l.server == n.Name {
						hit = append(hit, l)
					}
				}
			default:
				hit = s.links
			}
			return harm(hit, func(l *link) { k.harm(d, l) })
		}})
	}
	return all
}

// resign lets a leader resign. A member of a group, and a process with locks, stops and starts again.
func (d *driver) resign() func() {
	b := d.buckets[d.rng.IntN(len(d.buckets))]
	if b.shards > 0 || d.spec.Locks {
		d.stop()()
		return nil
	}
	if s, _ := d.leader(b); s != nil {
		s.tell("resign " + b.cfg.Name)
	}
	return nil
}

func (d *driver) stop() func() {
	s := d.victim()
	s.stop()
	return func() {
		d.finish(s)
		d.run(s)
	}
}

func (d *driver) killCandidate() func() {
	s := d.victim()
	s.kill()
	return func() { d.run(s) }
}

func (d *driver) killAll() func() {
	for _, s := range d.seats {
		s.kill()
	}
	return func() {
		for _, s := range d.seats {
			d.run(s)
		}
	}
}

func (d *driver) pauseCandidate() func() {
	s := d.victim()
	s.proc.Pause()
	from := monotonic() + int64(100*time.Millisecond) // all its threads have stopped by then
	return func() {
		for _, l := range s.lives {
			l.pauses = append(l.pauses, pause{from, monotonic()})
		}
		s.proc.Resume()
	}
}

// streamsLeader strikes the server that leads the stream of one of the buckets, or of a
// ledger.
func streamsLeader(how func(*driver, *testcluster.Node) func()) func(*driver) func() {
	return func(d *driver) func() {
		return how(d, d.c.Leads(d.anyStream()))
	}
}

func anyServer(how func(*driver, *testcluster.Node) func()) func(*driver) func() {
	return func(d *driver) func() { return how(d, d.c.Nodes[d.rng.IntN(len(d.c.Nodes))]) }
}

// twoServers leaves one server, which can store nothing.
func twoServers(how func(*driver, *testcluster.Node) func()) func(*driver) func() {
	return func(d *driver) func() {
		var undo []func()
		for _, i := range d.rng.Perm(len(d.c.Nodes))[:2] {
			undo = append(undo, how(d, d.c.Nodes[i]))
		}
		return func() {
			for _, u := range undo {
				u()
			}
		}
	}
}

func (d *driver) killServer(n *testcluster.Node) func() {
	n.Kill()
	return n.Up
}

func (d *driver) pauseServer(n *testcluster.Node) func() {
	n.Pause()
	return n.Up
}

// cutOff separates a server from the others, but not from its clients.
func (d *driver) cutOff(n *testcluster.Node) func() {
	return harm(d.c.links[n], func(l *link) { l.swallow(toServer, otherWay) })
}

// halfCutOff lets a server receive from the others, but not send to them, or the other
// way round.
func (d *driver) halfCutOff(n *testcluster.Node) func() {
	speaks := d.rng.IntN(2) == 0
	return harm(d.c.links[n], func(l *link) {
		if speaks == (l.server == n.Name) {
			l.swallow(otherWay)
		} else {
			l.swallow(toServer)
		}
	})
}

// allRoutes strikes the links between all servers.
func allRoutes(how func(*link, *rand.Rand)) func(*driver) func() {
	return func(d *driver) func() {
		var all []*link
		for _, n := range d.c.Nodes {
			all = append(all, d.c.links[n]...)
		}
		slices.SortFunc(all, func(a, b *link) int { return strings.Compare(a.proxy.Listen, b.proxy.Listen) })
		return harm(slices.Compact(all), func(l *link) { how(l, d.rng) })
	}
}

// harm does harm to links until it is undone.
func harm(links []*link, how func(*link)) (undo func()) {
	for _, l := range links {
		how(l)
	}
	return func() {
		for _, l := range links {
			l.heal()
		}
	}
}

// roll shuts the servers down and starts them again, one after another.
func (d *driver) roll() func() {
	for _, i := range d.rng.Perm(len(d.c.Nodes)) {
		d.c.Nodes[i].Shut()
		d.whole()
	}
	return nil
}

// rollBackOne gives one server of three an earlier copy of its store. The others
// remember.
func (d *driver) rollBackOne() func() {
	n := d.c.Nodes[d.rng.IntN(len(d.c.Nodes))]
	n.Shut()
	copied := save(d.tb, n)
	d.whole()
	for range 1 + d.rng.IntN(3) {
		d.resign()
		d.hold(d.spec.Lease/2, d.spec.Lease)
	}
	n.Shut()
	swap(d.tb, n, copied)
	d.whole()
	return nil
}

// ask sends a request that only the driver makes, until the store answers. It returns
// the error code of a refusal.
func (d *driver) ask(do func(ctx context.Context) error) (refused int) {
	d.tb.Helper()
	testcluster.Eventually(d.tb, "the store answers the driver", func() bool {
		ctx, cancel := context.WithTimeout(d.tb.Context(), 2*time.Second)
		defer cancel()
		err := do(ctx)
		refused = code(err)
		return err == nil || refused != 0
	})
	return refused
}

// onKey makes a request for the key of a bucket.
func (d *driver) onKey(b *bucket, do func(ctx context.Context, kv jetstream.KeyValue) error) (refused int) {
	d.tb.Helper()
	return d.ask(func(ctx context.Context) error {
		kv, err := d.c.JS.KeyValue(ctx, b.cfg.Name)
		if err != nil {
			return err
		}
		return do(ctx, kv)
	})
}

// purge purges the stream of a bucket.
func (d *driver) purge(b *bucket) (refused int) {
	d.tb.Helper()
	return d.ask(func(ctx context.Context) error {
		s, err := d.c.JS.Stream(ctx, "KV_"+b.cfg.Name)
		if err != nil {
			return err
		}
		return s.Purge(ctx)
	})
}

func (d *driver) deleteKey() func() {
	b := d.buckets[d.rng.IntN(len(d.buckets))]
	key := d.key(b)
	refused := d.onKey(b, func(ctx context.Context, kv jetstream.KeyValue) error { return kv.Delete(ctx, key) })
	expect.That(d.tb, refused == 0, "nats kv del was refused with %d", refused)
	return nil
}

// purgeKey purges the key. If that is refused, as it must be in a purge-protected
// bucket, it purges the stream.
func (d *driver) purgeKey() func() {
	b := d.buckets[d.rng.IntN(len(d.buckets))]
	key := d.key(b)
	refused := d.onKey(b, func(ctx context.Context, kv jetstream.KeyValue) error { return kv.Purge(ctx, key) })
	sealed := b.cfg.TTL == 0
	expect.That(d.tb, sealed == (refused == noRollup), "%s: a purge of the key was answered with %d", b.cfg.Name, refused)
	if sealed && refused == noRollup {
		refused = d.purge(b)
		expect.That(d.tb, refused == noPurge, "%s: a purge of the stream was answered with %d", b.cfg.Name, refused)
	}
	return nil
}
