package shard

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
)

// Config configures a member.
type Config struct {
	// Shards is the number of shards, at most 100,000, the same for all members. The first member fixes it.
	Shards int
	// ID is that of [leader.Config]. Of two members with one ID the second gets no shards while the first lives, and logs
	// a warning after two leases, or after a minute if LeaseDuration is not set, and then each minute. Each ID leaves a key
	// in the bucket: keep the ID of a member over restarts.
	ID    string
	Value []byte // published for routing, for example an address; at most 4 KiB
	// Program names the application of which this process is part, in at most 256 bytes. If two applications join one group
	// by accident, each works on some of the other's shards. So members that publish different names are the fault
	// [ErrProgramsDiffer] of all. A change of the name is such a fault while members with both names run, so it has no
	// version. Default: the path of the main module of the program, if its build information has it.
	Program string
	// Weight is the member's share of the shards, relative to that of others. Default: 1.
	Weight int
	// Most bounds how many shards the member takes. Default: 0, any number.
	Most int
	// Hold is how long the shards wait for a member of the same ID after a stop, and after the lease of a member that
	// crashed. Nothing moves meanwhile. A new assigner waits for all of it again. [Drain] a member before it stops for
	// good. Default: 0.
	Hold time.Duration

	// Guards returns the guards of a shard, which no other shard has. Before its work begins the member raises them to its
	// token. From then on they refuse the writes of earlier owners. The member calls Guards on several goroutines at once.
	// See docs/howto/shards.md.
	Guards func(shard int) []leader.Guard

	// These are those of [leader.Config], with the same defaults: a lease of 15 s if the bucket has no MaxLease, and for
	// StopTimeout 8 s, or 2 s more than GracePeriod if that is longer. GracePeriod is how long the work on a shard may go
	// on after the end of its context, before another member can work on the shard. After the end of the lease others work
	// at once, and the member gets no shards until GracePeriod is over or that work has ended. The shard of work that
	// still goes on then does not begin again in this process before that work has returned. Default: one lease, in a stop
	// no longer than StopTimeout allows.
	LeaseDuration, RenewDeadline, RenewInterval time.Duration
	GracePeriod, StopTimeout                    time.Duration
	ForceReconnect                              bool
	Logger                                      *slog.Logger
}

// maxValue bounds Config.Value. The rest of what a member publishes are shards: those that it stops, and some others.
const maxValue = 4 << 10

// pageSize is how many shards are on each page of the map. Tests have smaller pages.
var pageSize = 1000

// ErrProgramsDiffer is the fault that members of a group are of different programs, see [Config].Program.
var ErrProgramsDiffer = errors.New("shard: members of different programs")

// ErrShardsDiffer is the error of a member that has another number of shards than the group.
var ErrShardsDiffer = errors.New("shard: another number of shards than the group")

// check returns an error that names a setting that cannot work.
func (c *Config) check(name string) error {
	if err := group.CheckKeys(name, c.ID); err != nil {
		return fmt.Errorf("%w: %w", leader.ErrInvalidConfig, err)
	}
	switch {
	case c.Shards < 1 || c.Shards > group.MaxPages*pageSize:
		return fmt.Errorf("%w: Shards is %d: set it from 1 to %d", leader.ErrInvalidConfig, c.Shards, group.MaxPages*pageSize)
	case c.Weight < 0 || c.Weight > group.MaxWeight:
		return fmt.Errorf("%w: Weight is %d: set it from 1 to %d, or 0 for the default", leader.ErrInvalidConfig, c.Weight, group.MaxWeight)
	case c.Most < 0:
		return fmt.Errorf("%w: Most is %d: set 0 for any number", leader.ErrInvalidConfig, c.Most)
	case c.Hold < 0 || c.Hold > group.MaxHold:
		return fmt.Errorf("%w: Hold is %v: set it from 0 to %v", leader.ErrInvalidConfig, c.Hold, group.MaxHold)
	case len(c.Program) > group.MaxProgram:
		return fmt.Errorf("%w: Program has %d bytes, which is more than %d", leader.ErrInvalidConfig, len(c.Program), group.MaxProgram)
	case !utf8.ValidString(c.Program):
		return fmt.Errorf("%w: Program %q is not UTF-8", leader.ErrInvalidConfig, c.Program)
	case len(c.Value) > maxValue:
		return fmt.Errorf("%w: Value of %d bytes is more than %d", leader.ErrValueTooLarge, len(c.Value), maxValue)
	}
	return nil
}

// program returns the name of the program of this process, or "" if it is not known.
var program = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || len(info.Main.Path) > group.MaxProgram || info.Main.Path == "command-line-arguments" {
		return ""
	}
	return info.Main.Path
})

// election returns the settings of an election of the member.
func (c *Config) election() leader.Config {
	return leader.Config{
		ID: c.ID, LeaseDuration: c.LeaseDuration, RenewDeadline: c.RenewDeadline, RenewInterval: c.RenewInterval,
		GracePeriod: c.GracePeriod, StopTimeout: c.StopTimeout, ForceReconnect: c.ForceReconnect, Logger: c.Logger,
	}
}
