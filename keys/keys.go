// Package keys lets exactly one process of a fleet work on each key of a bucket that matches a filter: tenants, devices,
// streams or jobs, which come and go while the processes do.
//
//	tenants, err := keys.OpenBucket(js, "tenants")
//	...
//	s, err := keys.Join(ctx, bucket, "tenants", keys.Config{
//		Bucket: tenants, Filter: "tenants.*", Member: shard.Config{ID: hostname},
//	})
//	...
//	return s.Serve(func(lead context.Context, k *keys.Key) { // for each key, on a goroutine of its own
//		for lead.Err() == nil { // asks the clock
//			item(lead, k.Name(), k.Entry().Value, k.Token())
//		}
//	}) // nil if ctx has ended
//
// The work on a key begins when the key is put, ends when it is deleted, and moves when members come and go. It rests on
// package shard, and needs no other protocol: each key is in a slot, a slot is a shard, and the context, the token and the
// guard of a key are those of its shard.
//
// In the repository, docs/howto/keys.md has the rules for the work, and what is not promised.
//
//	keys.go     Join, Set, Config, and the checks of its fields
//	key.go      Key: the work on one key by this process
//	machine.go  the rules: on which keys this process works
//	names.go    names of keys, patterns of names, and the slots of names
//	actor.go    the goroutine that owns the machine, and carries out its effects
//	bucket.go   OpenBucket: the keys of a bucket on a NATS server
package keys

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/keyset"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

var (
	// ErrDeleted is the cause with which the context of a key ends that was deleted, also by [Key.Complete].
	ErrDeleted = errors.New("keys: the key was deleted")
	// ErrNotWanted is the cause with which the context of a key ends that [Config].Wants does not want any more, or whose
	// value has become too long.
	ErrNotWanted = errors.New("keys: the key is not wanted any more")
	// ErrChanged is returned by [Key.Complete] for a key whose value has changed, or that is deleted.
	ErrChanged = errors.New("keys: the key has changed")
)

// defaultSlots is the number of slots of a set: one page of the group's map. maxSlots is the most that a group has.
const (
	defaultSlots = 1000
	maxSlots     = 100_000
)

// Entry is a key with its newest value.
type Entry struct {
	Name     string
	Value    []byte // not to be changed
	Revision uint64
}

// Bucket is a bucket of keys: the result of [OpenBucket], or in tests a leadertest.Link.
type Bucket interface{ bucket }

// bucket keeps the method for this package out of the documentation.
type bucket interface {
	KeySet() keyset.Bucket
}

// Config configures a set.
type Config struct {
	// Bucket has the keys. It is not the bucket of the group.
	Bucket Bucket
	// Filter says which keys are in the set: a key, or a pattern with the wildcards * and >, for example "tenants.*".
	Filter string
	// Member configures the member of the group. All members have the same number of Shards, which are the slots of the keys;
	// default: 1,000. It never changes for a group, and should be far above the number of members.
	Member shard.Config

	// Wants reports whether a key is to be worked on, for example by a status in its value. Default: all are.
	Wants func(Entry) bool
	// Ready reports whether work on a key may begin, for example because its parents are gone. get returns the entry of any
	// key that matches Filter. Ready does not end work that has begun. Default: all are.
	//
	// Wants and Ready are functions of their arguments: they neither wait nor change anything. They are called on a goroutine
	// of the set, Ready for each key that waits whenever another key has changed.
	Ready func(e Entry, get func(name string) (Entry, bool)) bool

	// Guards, for example "guards", lets the set raise a guard for each slot, with the key "guards.17" in Bucket, which is a
	// bucket of [fence.CreateOrUpdateBucket]. The work on a key then begins when the set has received all that earlier owners
	// have written through [Key.Writer] to keys that match Filter, and their later writes are refused. Default: there are no guards, and a read of the
	// key confirms each begin.
	Guards string
}

// prepare returns an error that names a setting that cannot work, and sets the defaults.
func (c *Config) prepare() error {
	switch {
	case c.Bucket == nil:
		return fmt.Errorf("%w: no Bucket: use keys.OpenBucket", leader.ErrInvalidConfig)
	case !isFilter(c.Filter):
		return fmt.Errorf("%w: Filter %q matches no key: use for example \"tenants.*\", or \">\" for all keys of the bucket", leader.ErrInvalidConfig, c.Filter)
	case c.Guards != "" && !isKey(c.Guards):
		return fmt.Errorf("%w: Guards %q is not the beginning of a key: use for example \"guards\"", leader.ErrInvalidConfig, c.Guards)
	case c.Guards != "" && overlap(c.Guards+".*", c.Filter):
		return fmt.Errorf("%w: the guards %s.* match Filter %q, and are no keys to work on: use another name, or a narrower Filter", leader.ErrInvalidConfig, c.Guards, c.Filter)
	case c.Guards != "" && c.Member.Guards != nil:
		return fmt.Errorf("%w: Guards and Member.Guards are set: use one of them", leader.ErrInvalidConfig)
	case c.Member.Shards < 0 || c.Member.Shards > maxSlots:
		return fmt.Errorf("%w: Member.Shards is %d: set it from 1 to %d, or 0 for the default", leader.ErrInvalidConfig, c.Member.Shards, maxSlots)
	}
	if c.Member.Shards == 0 {
		c.Member.Shards = defaultSlots
	}
	if c.Member.Logger == nil {
		c.Member.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// mainPath returns the path of the module of the main package, or "" if it is not known.
func mainPath() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Path
	}
	return ""
}

// program returns what the members of the group publish as their program: all of them have to work on the same keys. main is
// the path of the module, which counts as in package shard: that of a program that `go run` builds from files says nothing.
func (c *Config) program(main, bucket string) string {
	if main == "command-line-arguments" {
		main = ""
	}
	name := "on keys " + bucket + " " + c.Filter
	if of := cmp.Or(c.Member.Program, main); of != "" {
		name = of + " " + name
	}
	if c.Guards != "" {
		name += " with guards " + c.Guards
	}
	if len(name) > group.MaxProgram {
		name = fmt.Sprintf("keys %x", sha256.Sum256([]byte(name)))
	}
	return name
}

// Set is the keys on which the members of a group work, each on its share.
type Set struct {
	cfg    Config
	bucket keyset.Bucket
	member *shard.Member
	log    *slog.Logger
	guards []guard

	inputs chan func(a *actor, now time.Time)
	over   chan struct{}         // closed when no input is taken any more
	done   chan struct{}         // closed when the goroutines of the set have ended
	failed atomic.Pointer[error] // ended the member
}

// lookLimit bounds the look at the bucket in Join.
const lookLimit = 2 * time.Second

// Join makes this process a member of the group that works on a set of keys, until ctx ends or [shard.Member.Stop] is called.
// Errors: those of [shard.Join], [leader.ErrInvalidConfig] for settings of the set that cannot work, [leader.ErrNoBucket] if the
// server says that there is no Bucket, and [leader.ErrIncompatibleBucket] if its keys can expire without a marker. After all other
// faults the set tries again, and logs them.
//
// Members of one group with different Buckets, Filters or Guards would leave keys without work. They are the fault
// [shard.ErrProgramsDiffer] of all, as members of different programs are.
func Join(ctx context.Context, store leader.Store, group string, cfg Config) (*Set, error) {
	if err := cfg.prepare(); err != nil {
		return nil, err
	}
	port := cfg.Bucket.KeySet()
	if store != nil {
		if groups, ok := store.Backend().(interface{ Name() string }); ok && groups.Name() == port.Name() {
			return nil, fmt.Errorf("%w: Bucket %s is that of the group: keep the keys in another bucket", leader.ErrInvalidConfig, port.Name())
		}
	}
	s := &Set{
		cfg: cfg, bucket: port, log: cfg.Member.Logger.With("group", group),
		inputs: make(chan func(*actor, time.Time)), over: make(chan struct{}), done: make(chan struct{}),
	}
	s.cfg.Member.Program = s.cfg.program(mainPath(), port.Name())
	if err := s.openGuards(); err != nil {
		return nil, err
	}
	look, end := context.WithTimeout(ctx, lookLimit)
	defer end()
	switch err := s.bucket.Check(look); {
	case errors.Is(err, leader.ErrNoBucket):
		return nil, fmt.Errorf("%w: the bucket of the keys: create it first", err)
	case errors.Is(err, leader.ErrIncompatibleBucket):
		return nil, err
	}
	var err error
	if s.member, err = shard.Join(ctx, store, group, s.cfg.Member); err != nil {
		return nil, err
	}
	go s.run(context.WithoutCancel(ctx))
	return s, nil
}

// Member returns the member of the group, for its events, its figures, health checks and Stop. Its Serve is for
// [Set.Serve] alone.
func (s *Set) Member() *shard.Member { return s.member }

// Serve calls work for each key of this process, on a goroutine of its own, with the context of the key. If work returns
// while the key is still there, Serve calls it again after 5 s. Serve returns when the member has left and all work has
// returned: [shard.Member.Err], or [leader.ErrConnectionClosed] if the application has closed the connection of the bucket of
// keys, which ends the member.
//
// The work on a key is late, and moves, as that on a shard does: see [shard.Member.Serve], also for a panic of work. Keys of
// one slot move together. A key whose work does not return holds back the other keys of its slot.
func (s *Set) Serve(work func(lead context.Context, k *Key)) error {
	if work == nil {
		return fmt.Errorf("%w: Serve has no function to call for each key", leader.ErrInvalidConfig)
	}
	err := s.member.Serve(func(lead context.Context, sh *shard.Shard) { s.serveSlot(lead, sh, work) })
	<-s.done
	if failed := s.failed.Load(); failed != nil {
		return *failed
	}
	return err
}
