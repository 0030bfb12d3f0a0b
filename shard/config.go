package shard

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
)

// Config configures a member.
type Config struct {
	// Shards is the number of shards, at most 100,000. All members say the same. It is fixed by the first one.
	Shards int
	// ID names the member to others, as [leader.Config].ID, with the same default. No two members of a group have the
	// same: the second one gets no shards while the first one lives, and logs a warning each minute. A key with the record
	// of the member stays in the bucket for each ID. So let an ID stay over restarts, and do not make one for each process.
	ID    string
	Value []byte // published for routing, such as an address; at most 4 KiB
	// Weight is the member's share of the shards, relative to that of others. Default: 1.
	Weight int
	// Most bounds how many shards the member takes. Default: 0, any number.
	Most int
	// Hold is how long the shards wait for a member of the same ID when this one's term is over: after a stop, and, one
	// lease later, after a crash. Nothing moves meanwhile. A new assigner waits for as long again. To let a member go for
	// good, [Drain] it before it stops. Default: 0.
	Hold time.Duration

	// Guards returns the guards of a shard, each used for that shard alone, as those of [leader.Config]: before its work
	// begins they are raised to its token, and from then on they refuse the writes of earlier owners. It is called on
	// goroutines of the shards, at the same time. See docs/fencing.md.
	Guards func(shard int) []leader.Guard

	// These are those of [leader.Config]. DrainTimeout is how long the work on a shard may go on after the end of its
	// context, before another member can work on the shard. Default: one lease. It does not bound the time after the end of
	// the lease, when others work at once, and the member gets no shards before that work has ended.
	LeaseDuration, RenewDeadline, RenewInterval time.Duration
	DrainTimeout, StopTimeout                   time.Duration
	ForceReconnect                              bool
	Logger                                      *slog.Logger
}

// maxValue bounds Config.Value. The rest of what a member publishes names the shards that it stops.
const maxValue = 4 << 10

// pageSize is how many shards are on each page of the map. Tests have smaller pages.
var pageSize = 1000

// ErrShardsDiffer is the error of a member that has another number of shards than the group.
var ErrShardsDiffer = errors.New("shard: another number of shards than the group")

// check returns an error that names the setting which cannot work.
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
	case len(c.Value) > maxValue:
		return fmt.Errorf("%w: Value of %d bytes is more than %d", leader.ErrValueTooLarge, len(c.Value), maxValue)
	}
	return nil
}

// election returns the settings of an election of the member.
func (c *Config) election() leader.Config {
	return leader.Config{
		ID: c.ID, LeaseDuration: c.LeaseDuration, RenewDeadline: c.RenewDeadline, RenewInterval: c.RenewInterval,
		DrainTimeout: c.DrainTimeout, StopTimeout: c.StopTimeout, ForceReconnect: c.ForceReconnect, Logger: c.Logger,
	}
}
