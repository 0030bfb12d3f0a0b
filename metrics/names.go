package metrics

import "github.com/natsleader/natsleader/leader"

// names are the values of the labels cause and kind for the errors of package leader.
// They stay when the text of an error changes.
var names = map[error]string{
	leader.ErrResigned:           "resigned",
	leader.ErrStopped:            "stopped",
	leader.ErrLeaseExpired:       "lease_expired",
	leader.ErrPreempted:          "preempted",
	leader.ErrDeleted:            "deleted",
	leader.ErrRegressed:          "regressed",
	leader.ErrFenced:             "fenced",
	leader.ErrConnectionClosed:   "connection_closed",
	leader.ErrInvalidConfig:      "invalid_config",
	leader.ErrNotLeader:          "not_leader",
	leader.ErrNoLeader:           "no_leader",
	leader.ErrRequestRefused:     "request_refused",
	leader.ErrValueTooLarge:      "value_too_large",
	leader.ErrForeignRecord:      "foreign_record",
	leader.ErrUnreachable:        "unreachable",
	leader.ErrNoBucket:           "no_bucket",
	leader.ErrNoRoster:           "no_roster",
	leader.ErrNotStanding:        "not_standing",
	leader.ErrNotSucceeded:       "not_succeeded",
	leader.ErrIncompatibleBucket: "incompatible_bucket",
	leader.ErrPermission:         "permission",
	leader.ErrNoFeed:             "no_feed",
	leader.ErrGuardTaken:         "guard_taken",
	leader.ErrGuardDeleted:       "guard_deleted",
	leader.ErrSeats:              "seats",
	leader.ErrTokensExhausted:    "tokens_exhausted",
}
