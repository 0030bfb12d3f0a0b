//go:build unix

package main

import (
	"fmt"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

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
	cmd.Flag("priority", "With --succession priority: higher ones go first").PlaceHolder("N").IntVar(&s.priority)
	cmd.Flag("preempt", "With --succession priority: have a leader of lower priority hand over").UnNegatableBoolVar(&s.preempt)
	cmd.Flag("turn-timeout", fmt.Sprintf("How long to wait for each of those before it (default: %v, or less with a short lease)", wire.DefaultTurnTimeout)).PlaceHolder("DURATION").DurationVar(&s.turn)
	cmd.Flag("seats", "How many may lead at once; the same for all").Default("1").PlaceHolder("N").IntVar(&s.seats)
	cmd.Flag("kv-elect", "Share the key with processes of nats-kv-leader-elect").UnNegatableBoolVar(&s.kvElect)
}

// check rejects flags that contradict each other.
func (s *succession) check(lease time.Duration) error {
	switch {
	case s.seats < 1 || s.seats > 1000:
		return usagef("--seats %d is not from 1 to 1000", s.seats)
	case s.priority != 0 && s.kind != byPriority:
		return usagef("--priority %d is for --succession priority, and that is %s", s.priority, s.kind)
	case s.preempt && s.kind != byPriority:
		return usagef("--preempt is for --succession priority, and that is %s", s.kind)
	case lease > 0 && s.turn >= lease:
		return usagef("--turn-timeout %v is not less than --lease %v", s.turn, lease)
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
		return usagef("--turn-timeout %v is not less than the lease, which is the bucket's MaxLease %v", s.turn, info.MaxLease)
	}
	return nil
}

// apply sets the succession in the configuration of a candidate.
func (s *succession) apply(cfg *leader.Config) {
	cfg.Roster, cfg.Queue, cfg.Priority = s.roster, s.kind != byRace, s.priority
	cfg.Preempt, cfg.TurnTimeout, cfg.Seats, cfg.KVElect = s.preempt, s.turn, s.seats, s.kvElect
}
